"""How numbers are shown in the page: always with a unit, always with the same decimals in a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kevolve.screen import clock, percent

NONE = "–"


def times(ratio: float | None) -> str:
    """`2.15x`."""
    return NONE if ratio is None else f"{ratio:.2f}x"


def between(interval: tuple[float, float] | None) -> str:
    """`1.83 to 2.37`."""
    return NONE if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"


def micro(time_us: float | None) -> str:
    """`7,078.9`, in microseconds."""
    return NONE if time_us is None else f"{time_us:,.1f}"


def share(fraction: float | None) -> str:
    """`22 %`, and `0.6 %` where it is less than one."""
    return NONE if fraction is None else percent(fraction).replace("%", " %")


def dollars(cost_usd: float | None) -> str:
    """`0.12 USD`."""
    return "price unknown" if cost_usd is None else f"{cost_usd:.2f} USD"


def kinds(diff: str) -> list[tuple[str, str]]:
    """A diff's lines with what each is: added, taken, place or same."""
    marks = {"+": "added", "-": "taken", "@": "place"}
    return [(marks.get(line[:1], "same"), line) for line in diff.split("\n")]


def plain(value: Any) -> str:
    """A value of the environment or the configuration on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "none"
    return "none" if value is None or value == "" else str(value)


def rates(peaks: Mapping[str, float]) -> str:
    """The measured peaks of a device."""
    units = {
        "copy_bytes_per_s": "GB/s copied",
        "read_bytes_per_s": "GB/s read",
        "cache_read_bytes_per_s": "GB/s read in cache",
        "flops_per_s": "GFLOP/s",
    }
    return ", ".join(f"{peaks[name] / 1e9:,.0f} {unit}" for name, unit in units.items() if peaks.get(name))


SHOWN: Mapping[str, Callable[..., object]] = {
    show.__name__: show for show in (times, between, micro, share, dollars, kinds, plain, rates, clock)
}
