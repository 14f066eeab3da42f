"""Which champion is meant: that of a run, or one of those kept for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kevolve.champions.champion import Champion, kept_champions, run_champions
from kevolve.errors import UsageError, nearest

KEPT = "champion"
FAMILIES = ("cpu", "cuda")  # whose chips the guards of a package can tell


@dataclass(frozen=True)
class Wanted:
    """What the command asked for. `device` is a key such as nvidia-h200, or the beginning of one, such as cpu."""

    run: str
    operator: str | None
    device: str | None
    runs_dir: Path
    champions_dir: Path


def choose(wanted: Wanted) -> Champion:
    """The one champion that is meant. UsageError says what there is instead."""
    found = _champions(wanted)
    of_operator = _of_operator(wanted, found)
    fitting = [c for c in of_operator if wanted.device is None or _is_on(c, wanted.device)]
    keys = sorted({champion.device for champion in of_operator})
    if not fitting:
        close = nearest(str(wanted.device), keys)
        raise UsageError(
            f"--device {wanted.device}: {of_operator[0].operator} of {wanted.run} was not measured there.{close}"
            f" It has a champion on {', '.join(keys)}."
        )
    if len(fitting) > 1:
        keys = sorted(champion.device for champion in fitting)
        raise UsageError(
            f"{fitting[0].operator} of {wanted.run} has champions on several devices.\n"
            f"  Type --device {keys[0]}; there are {', '.join(keys)}."
        )
    return fitting[0]


def family(champion: Champion) -> str:
    """The name of the device that a champion's key belongs to: cpu or cuda. UsageError for one of another kind."""
    found = family_of(champion.device)
    if found is None:
        raise UsageError(
            f"{champion.operator} on {champion.device}: only champions of {' and '.join(FAMILIES)} devices can be"
            " exported."
        )
    return found


def family_of(device: str) -> str | None:
    """The same for a device's key; None for one of another kind."""
    first = device.partition("-")[0]
    found = {"nvidia": "cuda"}.get(first, first)
    return found if found in FAMILIES else None


def package_name(operator: str, family: str) -> str:
    """`evolved_jagged_sum_cpu`: champions of several devices can be installed side by side."""
    return f"evolved_{operator}_{family}"


def _champions(wanted: Wanted) -> list[Champion]:
    if wanted.run == KEPT:
        found = list(kept_champions(wanted.champions_dir))
        if not found:
            raise UsageError(
                f"there are no champions in {wanted.champions_dir}. Type the name of a run instead of {KEPT},"
                " or --champions-dir DIR."
            )
        return found
    runs = sorted(file.parent.name for file in wanted.runs_dir.glob("*/events.jsonl"))
    if wanted.run not in runs:
        listed = f"Runs there: {', '.join(runs)}." if runs else "There are none."
        raise UsageError(
            f"{wanted.run}: no such run in {wanted.runs_dir}.{nearest(wanted.run, [*runs, KEPT])} {listed}"
            f" `{KEPT}` means those that are kept."
        )
    found = list(run_champions(wanted.runs_dir, wanted.run))
    if not found:
        raise UsageError(
            f"{wanted.run} has no champion: a run crowns them when it ends.\n"
            f"  Go on with it: python -m kevolve.run resume=true name={wanted.run}"
        )
    return found


def _of_operator(wanted: Wanted, found: Sequence[Champion]) -> list[Champion]:
    operators = sorted({champion.operator for champion in found})
    if wanted.operator is None:
        if len(operators) > 1:
            listed = ", ".join(operators)
            raise UsageError(f"which operator of {wanted.run}? Type --operator O. It has champions of {listed}.")
        return list(found)
    chosen = [champion for champion in found if champion.operator == wanted.operator]
    if not chosen:
        raise UsageError(
            f"--operator {wanted.operator}: {wanted.run} has no champion of it.{nearest(wanted.operator, operators)}"
            f" It has {', '.join(operators)}."
        )
    return chosen


def _is_on(champion: Champion, device: str) -> bool:
    """`cuda` is what kevolve calls NVIDIA's chips, whose keys say nvidia."""
    family = {"cuda": "nvidia"}.get(device, device)
    return champion.device == device or champion.device.startswith(f"{family}-")
