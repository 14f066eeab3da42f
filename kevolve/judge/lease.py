"""What the search needs of a device: survey its baselines, prepare a program, measure it.

The driver holds one lease per device and submits every judgement through it. `RayLease` (ray_lease.py) is the
real one; a lease that answers at once is enough to test everything above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Key, Rejected


@dataclass(frozen=True)
class Survey:
    """An operator's baselines on a device.

    `times_us` gives, per workload, the time of every baseline that answers rightly there; `dropped` says, per
    workload, which do not and why. `fastest` is the one a program is timed against. `workloads` says of each what it
    is (sizes, dtype, lengths and so on), for whoever reads the numbers later; it may be empty.
    `call` is how the operator is called from Python, such as `out = jagged_sum(values, offsets)`, or empty likewise.
    """

    operator: str
    device: str
    times_us: Mapping[str, Mapping[str, float]]
    dropped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    workloads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    call: str = ""

    def fastest(self, workload: str) -> str:
        """The fastest correct baseline on `workload`; KeyError if it was not surveyed."""
        times = self.times_us[workload]
        return min(times, key=lambda name: times[name])


class Lease(Protocol):
    """A device under lease. Every method may be awaited concurrently; faults are returned, not raised."""

    device: str  # the device's key, such as cpu-<model>
    languages: tuple[str, ...]
    exclusive: bool  # nothing of ours may use a core while `survey` or `measure` runs
    environment: Mapping[str, Any]  # sandbox tier, toolchain, pinned variables, peaks: stored with the run

    def key(self, program: Program) -> Key:
        """What a verdict on `program` would be a verdict on."""
        ...

    async def survey(self, operator: str, seed: int) -> Survey | Fault:
        """Check and time every baseline on the search and holdout workloads."""
        ...

    async def prepare(self, program: Program) -> Built | Rejected | Fault:
        """Screen and build. Needs no device, and runs beside other builds."""
        ...

    async def measure(
        self,
        program: Program,
        built: Built,
        survey: Survey,
        seed: int,
        *,
        confirm: bool = False,
        to_beat: float = 0.0,
    ) -> Judgement:
        """Correctness on every workload, then timing: search workloads, holdout too when confirming.

        `to_beat` is the best speedup that the search has, so that time is spent on what may have more.
        """
        ...

    async def close(self) -> None:
        """Give the device back."""
        ...
