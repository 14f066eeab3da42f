"""kevolve evolves compute kernels: correct first, then faster than everything a user already has."""

__version__ = "0.1.0"
