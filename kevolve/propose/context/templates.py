"""Templates: the texts around the blocks, each a file that a person can read and replace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template

from kevolve.errors import UsageError, nearest

FOLDER = Path(__file__).parent.parent / "templates"
_ABOUT = ("operator", "language", "device")
_BLOCKS = (
    "task", "contract", "language", "workloads", "device", "documents", "ancestors", "siblings", "failed", "parents",
    "format",
)  # fmt: skip
_PLACES: Mapping[str, tuple[str, ...]] = {"request": _BLOCKS, "mend": ("reason",), "system": (), "format_edits": ()}
_NOTHING = "\0"


class Templates:
    """All templates, those of a user's own folder in place of kevolve's of the same name."""

    def __init__(self, own: str | None = None) -> None:
        self._texts = {file.stem: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.txt")}
        if own is not None:
            self._replace(Path(own))

    def has(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str, values: Mapping[str, str]) -> str:
        """The template called `name` with its places filled in; an empty value takes no line."""
        filled = {place: value or _NOTHING for place, value in values.items()}
        text = Template(self._texts[name]).safe_substitute(filled)
        return re.sub(rf"(?:\n*{_NOTHING})+\n*", "\n\n", text).strip() + "\n"

    def _replace(self, folder: Path) -> None:
        where = f"proposer.templates={folder}"
        files = sorted(folder.glob("*.txt"))
        if not files:
            raise UsageError(f"{where}: there is no *.txt file in it. kevolve's own are in {FOLDER}.")
        for file in files:
            if file.stem not in self._texts and not file.stem.startswith("language_"):
                known = ", ".join(sorted(self._texts))
                raise UsageError(
                    f"{where}: {file.name} replaces nothing.{nearest(file.stem, self._texts)} Templates: {known}."
                )
            text = file.read_text(encoding="utf-8")
            allowed = _PLACES.get(file.stem, _ABOUT)
            for place in Template(text).get_identifiers():
                if place not in allowed:
                    listed = ", ".join(f"${name}" for name in allowed) or "none"
                    raise UsageError(f"{file}: there is no ${place} here. Places of this template: {listed}.")
            self._texts[file.stem] = text
