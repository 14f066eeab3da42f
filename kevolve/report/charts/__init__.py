"""Charts as inline SVG: readable without scripts, coloured by the page's style sheet for light and dark."""
