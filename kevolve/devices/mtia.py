"""The MTIA device: Triton programs for an accelerator whose compiler is not public.

What is known of its dialect is data (`kevolve/languages/triton/dialects.py`), and the screen refuses what it lacks.
Judging takes the compiler and the chip, so it happens where somebody has them. The contract of such a worker is small:

- On the machine with the chip a package registers an entry point `mtia` in the group `kevolve.devices`. It names a
  `kevolve.devices.device.Device` that is `present()` there and has a `judge` of its own, and it takes the place of the
  device of this file.
- The machine is a node of the Ray cluster (`ray start --address=...`), or one types `kevolve judge` on it.

Every node is asked what it has, so the driver finds such a node by itself and needs neither package nor chip.
"""

from __future__ import annotations

from kevolve.devices.elsewhere import Elsewhere
from kevolve.languages.language import Target


class Mtia(Elsewhere):
    """The target, and where to go with it."""

    name = "mtia"
    languages = ("triton",)
    stages_anywhere = ("screen",)

    @property
    def key(self) -> str:
        """Whatever a worker has calls itself by its generation; this is for none of them."""
        return "mtia"

    @property
    def target(self) -> Target:
        """A name only: nothing here builds for it."""
        return Target("mtia", "none here")

    def lacks(self) -> str:
        """Who can judge, and how they say so."""
        return (
            "its compiler is not public, so programs are only screened here, and built and judged by a worker that has"
            " the chip.\n"
            "  Register one: a package on that machine with the entry point mtia in the group kevolve.devices"
            " (CONTRIBUTING.md, Add a device). Then type cluster.address=HOST:PORT for a search, or kevolve judge on"
            " that machine"
        )
