"""Writing the page into a run's folder, or wherever it is wanted."""

from __future__ import annotations

from pathlib import Path

from kevolve.durable import write_atomically
from kevolve.report.findings.history import History
from kevolve.report.findings.review import Review, review_of
from kevolve.report.listener import PAGE


def write_page(history: History, out: Path | None = None, review: Review | None = None) -> Path:
    """Write the page, as a whole or not at all; returns where it is. OSError if it cannot be written there."""
    from kevolve.report.page import page_of

    path = out or history.folder / PAGE
    # A lone surrogate, which JSON may hold and UTF-8 may not, must not cost the page.
    write_atomically(path, page_of(history, review or review_of(history)).encode(errors="replace"))
    return path
