"""The plain starting program of an operator, derived from its PyTorch reference.

`lower` traces the reference (`trace.py`), turns its operations into a graph of tensors that are not computed yet
(`graph.py` and the rooms of operations), decides what is computed where (`nests.py`) and writes C++ (`program.py`).
"""

from kevolve.languages.cpp.lowering.program import lower
from kevolve.languages.cpp.lowering.unsupported import Unsupported

__all__ = ["Unsupported", "lower"]
