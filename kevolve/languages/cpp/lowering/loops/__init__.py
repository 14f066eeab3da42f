"""From a graph of tensors to the text of loop nests: what is computed where, in which order, under which name."""
