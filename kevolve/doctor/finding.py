"""Findings: what the doctor has to say, one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing looked at. Without `mend` it is well; `needed` says that the cpu path does not work without it."""

    what: str
    state: str
    mend: str = ""
    needed: bool = False

    @property
    def is_lacking(self) -> bool:
        return bool(self.mend) and self.needed

    def __str__(self) -> str:
        mark = "ok  " if not self.mend else "LACK" if self.needed else "note"
        return f"{mark}  {self.what:<14} {self.state}"


def last_line(text: str) -> str:
    """What a command that failed said last, which is most often why."""
    return (text.strip().splitlines() or [""])[-1]
