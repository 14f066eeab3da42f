"""The mailbox of a run as tools for a coding agent, by the Model Context Protocol: `python -m kevolve.mcp RUN`."""
