"""What an agent can do with the mailbox of a run: everything is in files, so the run need not know of it."""

from __future__ import annotations

from pathlib import Path

from kevolve.durable import write_atomically
from kevolve.errors import UsageError, nearest
from kevolve.propose.mailbox import FOLDER


class Requests:
    """The requests of the run in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def open(self) -> list[str]:
        """The names of those without an answer, oldest first."""
        found = sorted(path.parent.name for path in self._folder.glob("*/request.md"))
        return [name for name in found if not self._has_answer(name)]

    def take(self, name: str = "") -> str:
        """The text of a request, the oldest that nobody has taken unless named; empty if there is none."""
        if name:
            return self._read(name, "request.md")
        for candidate in self.open():
            try:
                (self._folder / candidate / "taken").touch(exist_ok=False)
            except FileExistsError:
                continue
            return f"request {candidate}\n\n{self._read(candidate, 'request.md')}"
        return ""

    def submit(self, name: str, reply: str) -> None:
        """Answer a request. UsageError if it has an answer, or if the reply is empty."""
        folder = self._known(name)
        if self._has_answer(name):
            raise UsageError(f"{name} has been answered already.")
        if not reply.strip():
            raise UsageError("the reply is empty: give SEARCH/REPLACE blocks, a whole program, or the word skip.")
        (folder / "problem.md").unlink(missing_ok=True)
        write_atomically(folder / "reply.md", reply.encode())

    def verdict(self, name: str) -> str:
        """What came of an answer so far."""
        folder = self._known(name)
        if (folder / "verdict.md").exists():
            return self._read(name, "verdict.md")
        if (folder / "problem.md").exists():
            return f"The reply could not be used. {self._read(name, 'problem.md')}Submit another."
        was_answered = self._has_answer(name) or any(folder.glob("reply-*.md"))
        return "It is not judged yet." if was_answered else "It is not answered yet."

    def _has_answer(self, name: str) -> bool:
        return any((self._folder / name / file).exists() for file in ("reply.md", "verdict.md"))

    def _read(self, name: str, file: str) -> str:
        return (self._known(name) / file).read_text(encoding="utf-8")

    def _known(self, name: str) -> Path:
        names = [path.parent.name for path in self._folder.glob("*/request.md")]
        if name not in names:
            raise UsageError(
                f"there is no request {name}.{nearest(name, names)} Open: {', '.join(self.open()) or 'none'}."
            )
        return self._folder / name
