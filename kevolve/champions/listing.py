"""The list of champions, best known first within an operator and device key."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.table import Table
from rich.text import Text

from kevolve.champions.champion import Champion
from kevolve.champions.registered import Registered
from kevolve.screen import console
from kevolve.tracking.address import redact


def show(champions: Sequence[Champion], here: Collection[str]) -> None:
    """Print a row per champion. `here` are the device keys of this machine."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("operator", "device", "speedup", "95 % interval", "program", "measured", "run", ""):
        table.add_column(heading, justify="right" if heading == "speedup" else "left", overflow="fold")
    for champion in sorted(champions, key=lambda c: (c.operator, c.device, not c.is_kept, c.run)):
        table.add_row(*_row(champion))
    shown = console()
    shown.print(table)
    keys = sorted({champion.device for champion in champions})
    for key in keys:
        if key not in here:
            machine = ", ".join(sorted(here)) or "without a device"
            shown.print(Text(f"measured on {key}, this machine is {machine}: not comparable."), soft_wrap=True)
    if any(not champion.is_kept and champion.device in here for champion in champions):
        hint = "Numbers of two rows are not comparable before both are measured again: --operator O --from RUN."
        shown.print(Text(hint, style="dim"), soft_wrap=True)


def show_registered(champions: Sequence[Registered], uri: str) -> None:
    """Print a row per champion of the registry at `uri`."""
    address = redact(uri)
    shown = console()
    if not champions:
        shown.print(Text(f"There are no such champions in the registry at {address}."), soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", title=f"registry at {address}", title_justify="left")
    for heading in ("operator", "device", "speedup", "95 % interval", "program", "run", "version"):
        table.add_column(heading, justify="right" if heading == "speedup" else "left", overflow="fold")
    for champion in champions:
        numbers = (f"{champion.tag('speedup')}x", champion.tag("interval"))
        place = (champion.tag("operator"), champion.tag("device"))
        table.add_row(*place, *numbers, champion.tag("program")[:8], champion.tag("run"), champion.version)
    shown.print(table)
    shown.print()


def _row(champion: Champion) -> tuple[str, ...]:
    fitness = champion.fitness
    low, high = fitness.interval
    measured = f"{champion.measured:%Y-%m-%d}" if champion.measured else "unknown"
    kept = "kept" if champion.is_kept else ""
    numbers = (f"{fitness.speedup:.2f}x", f"{low:.2f} to {high:.2f}")
    return (champion.operator, champion.device, *numbers, champion.program[:8], measured, champion.run, kept)
