"""Knowledge: what a proposer should know beyond the program in front of it, found by what is wrong with that program.

Documents are Markdown files with front matter (`documents.py`), picked for a need (`retrieval.py`), and grown by what
runs find out (`lessons.py`). Nothing here needs a network, a model or PyTorch.
"""

from kevolve.knowledge.documents import Document
from kevolve.knowledge.retrieval import Library, Need, Picked

__all__ = ["Document", "Library", "Need", "Picked"]
