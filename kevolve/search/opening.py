"""Opening: what a run starts from, be it new or resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from kevolve.durable import write_atomically
from kevolve.errors import UsageError
from kevolve.languages.registry import language
from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.given import given
from kevolve.paths import seeds_dir
from kevolve.population import Population
from kevolve.program import Program
from kevolve.search.lineage import Lineage
from kevolve.search.rules import Limit
from kevolve.summary import Tally

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.judge.lease import Lease
    from kevolve.search.policies.policy import Search

SAME = ("operators", "languages", "seed", "lanes", "proposer", "policy")  # what makes a search the search it is
LIMITS: tuple[str, ...] = get_args(Limit)
NATURAL_ENDS = (*LIMITS, "exhausted", "spent")
SAME_OF_PROPOSER = ("name", "structure_rate")  # models, servers and prices may change


def recall(population: Population, config: Config) -> tuple[Lineage, Tally]:
    """The state of the run as its events give it: empty for a new one."""
    lineage = Lineage(config.policy.islands, population.text)
    tally = Tally(population.folder.name)
    if not population.is_new:
        for event in population.recall():
            # Islands, and so the shape of the state, are part of what must not change: ask before folding on.
            if event.kind == "opened":
                check_same_search(population.folder.name, event.data["config"], asdict(config))
            lineage.heard(event)
            tally.heard(event)
    return lineage, tally


def check_same_search(name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """UsageError if the configuration would make another search of the run. Budget, tracking and such may change."""
    now, then = (
        {**config, "proposer": {key: config["proposer"].get(key) for key in SAME_OF_PROPOSER}} for config in (now, then)
    )
    then = {"languages": [], **then}  # of runs from before the key was there
    changed = [
        f"{key}={now[key]!r}, and the run has {then[key]!r}" for key in SAME if _plain(now[key]) != _plain(then[key])
    ]
    # What a speedup is over; runs from before the key was there have all.
    rivals = [config["judge"].get("baselines", "all") for config in (now, then)]
    if rivals[0] != rivals[1]:
        changed.append(f"judge.baselines={rivals[0]!r}, and the run has {rivals[1]!r}")
    seeds = [list(config.get("seeds", ["plain"])) for config in (now, then)]  # the same holds
    if seeds[0] != seeds[1]:
        changed.append(f"seeds={seeds[0]!r}, and the run has {seeds[1]!r}")
    if changed:
        raise UsageError(
            f"name={name}: a resumed run keeps what makes its search, but here {'; '.join(changed)}.\n"
            "  Leave those as the run has them (its config.yaml), or type another name=... without resume=true."
        )


def is_complete(lineage: Lineage, config: Config) -> bool:
    """Did the run end by itself, with nothing more in the budget now than then?"""
    then, now = lineage.config.get("budget", {}), asdict(config.budget)

    def limit(budget: Mapping[str, Any], name: str) -> float:
        value = budget.get(name)
        return math.inf if value is None else float(value)

    return lineage.closed in NATURAL_ENDS and all(limit(now, name) <= limit(then, name) for name in LIMITS)


def environment_of(leases: Sequence[Lease], lineage: Lineage, name: str) -> dict[str, Any]:
    """What each device is, for the record. UsageError if a resumed run is on other devices than before."""
    here = [lease.device for lease in leases]
    if lineage.environment and sorted(lineage.environment) != sorted(here):
        raise UsageError(
            f"name={name}: the run is on {', '.join(sorted(lineage.environment))}, and here is {', '.join(here)}.\n"
            "  Resume it on a machine with the same device, or type another name=... without resume=true."
        )
    plain: dict[str, Any] = _plain({lease.device: dict(lease.environment) for lease in leases})
    return plain


def starting_programs(operator: str, lease: Lease, seeds: Sequence[str] = ("plain",)) -> list[Program]:
    """The programs that a search of `operator` starts from: those named in `seeds`, in the order of their names.

    Those of `inductor` are generated (`generated_programs`), the others are files. A seed that the operator does not
    have in any of the device's languages is left out, as long as there is one.
    """
    from kevolve.judge.landscape import LandscapeLease

    if isinstance(lease, LandscapeLease):
        return lease.starting_programs(operator)
    languages = lease.languages
    for definition in given([operator]):
        return [_own_starting_program(definition, languages)]
    folder = seeds_dir() / operator
    suffixes = {language(name).suffix: name for name in languages}
    files = sorted(path for path in folder.glob("*") if path.suffix in suffixes and path.stem in seeds)
    if not files and "inductor" not in seeds:
        wanted = " or ".join(f"{seeds[0]}{suffix}" for suffix in suffixes)
        raise UsageError(
            f"operators: {operator} has no starting program in {', '.join(languages)} ({folder}).\n"
            f"  Write the plainest right program there is to {folder / wanted}."
        )
    return [Program(operator, suffixes[path.suffix], path.read_text(), origin=_origin(path)) for path in files]


def generated_programs(operator: str, lease: Lease, seeds: Sequence[str]) -> tuple[list[Program], dict[str, str]]:
    """What torch.compile makes of the operator's baselines, if `seeds` has inductor; for the rest why there is none."""
    if "inductor" not in seeds or given([operator]) or "triton" not in lease.languages:
        return [], {}
    from kevolve.languages.triton.inductor import programs_of

    sources, left_out = programs_of(operator)
    origin = {"proposer": "seed", "kind": "inductor"}
    programs = [
        Program(operator, "triton", source, origin={**origin, "file": name}) for name, source in sorted(sources.items())
    ]
    return programs, left_out


def left_out(
    searches: Iterable[Search], leases: Mapping[str, Lease], seeds: Sequence[str]
) -> dict[str, dict[str, str]]:
    """By operator which generated seeds there are none of, and why: for the record."""
    reasons = {one.operator: generated_programs(one.operator, leases[one.device], seeds)[1] for one in searches}
    return {operator: why for operator, why in reasons.items() if why}


def _origin(path: Path) -> dict[str, str]:
    """A seed that is not plain says of what kind it is: what it brings is not the search's doing."""
    kind = {} if path.stem == "plain" else {"kind": path.stem}
    return {"proposer": "seed", "file": path.name, **kind}


def _own_starting_program(definition: Definition, languages: Sequence[str]) -> Program:
    """The one that came with a user's operator, or was derived from its reference."""
    taken, name = ", ".join(languages), definition.language
    if name not in languages or definition.program is None:
        raise UsageError(
            f"{definition.where}: its starting program is in {name}, and the device takes {taken}.\n"
            f'  Write program = "FILE" in it, a plain program in {taken}.'
        )
    origin = {"proposer": "seed", "file": f"operator{language(name).suffix}"}
    return Program(definition.name, name, definition.program, origin=origin)


def write_config(folder: Path, config: Config) -> None:
    """The whole configuration as `config.yaml`."""
    from omegaconf import OmegaConf

    write_atomically(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.structured(config)).encode())


def _plain(value: Any) -> Any:
    """As it comes back from an event: lists for tuples, plain keys."""
    return json.loads(json.dumps(value))
