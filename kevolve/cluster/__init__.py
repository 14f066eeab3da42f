"""The machines of a Ray cluster: which there are (`nodes.py`) and what devices they offer (`discovery.py`)."""
