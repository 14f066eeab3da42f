"""Where kevolve's data files are: beside the package when installed, in the repository otherwise."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
_REPOSITORY = _PACKAGE.parent


def conf_dir() -> Path:
    """The configuration tree."""
    installed = _PACKAGE / "conf"
    return installed if installed.is_dir() else _REPOSITORY / "conf"


def seeds_dir() -> Path:
    """The plain starting programs: `<operator>/<name>.<suffix>`."""
    installed = _PACKAGE / "seeds"
    return installed if installed.is_dir() else _REPOSITORY / "populations" / "seeds"


def knowledge_dir() -> Path:
    """The documents of the knowledge base."""
    installed = _PACKAGE / "documents"
    return installed if installed.is_dir() else _REPOSITORY / "knowledge"
