"""The profile of a program on a GPU: what it does with the device, in numbers and one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kevolve.devices.device import Peaks
from kevolve.verdict import Measurement

_NEAR_THE_BOUND = 0.75
_LAUNCH_US = 25.0  # what a program that does little takes on the CPU side


def profile(measurements: Sequence[Measurement], resources: Mapping[str, int], peaks: Peaks) -> dict[str, Any]:
    """Registers and spills of the heaviest kernel, the roofline fraction per workload, and a diagnosis in words."""
    fractions = {m.workload: round(m.roofline, 3) for m in measurements}
    worst = min(measurements, key=lambda m: m.roofline)
    words = []
    if resources.get("local_bytes"):
        words.append(
            f"It spills: {resources['local_bytes']} bytes of local memory a thread; smaller blocks or more warps."
        )
    if worst.roofline >= _NEAR_THE_BOUND:
        rate = peaks.copy_bytes_per_s / 1e9
        words.append(f"Memory bounds it: {worst.roofline:.0%} of the copy rate ({rate:.0f} GB/s) or more.")
    elif worst.us < _LAUNCH_US:
        words.append(f"Launching bounds it on {worst.workload}: {worst.us:.0f} us a call; fewer kernels.")
    else:
        words.append(
            f"On {worst.workload} it takes {worst.us:.0f} us where the copy rate allows {worst.floor_us:.0f} us: look"
            " for narrow or strided access, repeated passes over the data, or too few blocks in flight."
        )
    return {**resources, "roofline": fractions, "diagnosis": " ".join(words)}
