"""The profile: what a scored program does with the machine, in numbers and one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kevolve.devices.device import Peaks
from kevolve.verdict import Measurement

_NEAR_THE_BOUND = 0.75


def profile(measurements: Sequence[Measurement], cores: int, cores_used: float, peaks: Peaks) -> dict[str, Any]:
    """`cores_used` of `cores` while timed, the roofline fraction per workload, and a diagnosis in words."""
    fractions = {m.workload: round(m.roofline, 3) for m in measurements}
    worst = min(measurements, key=lambda m: m.roofline)
    words = [f"{cores_used:.1f} of {cores} cores at work."]
    if cores_used < 0.6 * cores:
        words.append("Parallelism bounds it: most cores stand idle.")
    elif worst.roofline >= _NEAR_THE_BOUND:
        rate = peaks.copy_bytes_per_s / 1e9
        words.append(f"Memory bounds it: {worst.roofline:.0%} of the copy rate ({rate:.0f} GB/s) or more.")
    else:
        words.append(
            f"Instructions bound it on {worst.workload}: {worst.us:.0f} us where the copy rate allows"
            f" {worst.floor_us:.0f} us; look for scalar code, strided access, or repeated passes over the data."
        )
    return {"cores_used": round(cores_used, 2), "roofline": fractions, "diagnosis": " ".join(words)}
