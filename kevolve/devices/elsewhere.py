"""A device that this machine never has: some of its judging can be had all the same, and no number ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from kevolve.devices.device import Device, Peaks
from kevolve.errors import UsageError


class Elsewhere(Device):
    """Subclasses say what `lacks`. Whatever would need the chip is a UsageError with that in it."""

    exclusive = False

    def present(self) -> bool:
        """Never."""
        return False

    def ray_options(self) -> dict[str, Any]:
        """See `present`."""
        self._refuse()

    def environment(self) -> Mapping[str, str]:
        """Nothing is timed, so nothing is pinned."""
        return {}

    def peaks(self, *, again: bool = False) -> Peaks:
        """See `present`."""
        self._refuse()

    def known_peaks(self) -> Peaks | None:
        """None: nothing was ever measured."""
        return None

    @property
    def cache_bytes(self) -> int:
        """See `present`."""
        self._refuse()

    def conditions(self) -> dict[str, float]:
        """Nothing is timed, so nothing disturbs it."""
        return {}

    def healthy(self) -> bool:
        """See `present`."""
        return False

    def _refuse(self) -> NoReturn:
        raise UsageError(f"device={self.name} cannot be used here: {self.lacks()}.")
