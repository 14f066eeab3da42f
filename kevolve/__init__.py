"""kevolve evolves compute kernels: correct first, then faster than everything a user already has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kevolve.api import Evolved, evolve

__all__ = ["Evolved", "evolve"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`evolve` and `Evolved` when they are asked for: `import kevolve` stays light."""
    if name in __all__:
        from kevolve import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
