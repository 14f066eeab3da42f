"""Warm start: what earlier runs found is where a new search starts from too, and is judged afresh like any program.

Champions of the same operator on the same device come first, best first. If there are not enough, what was done to the
plain program of a related operator (its genome) is done to this one's, as far as it applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.champions.champion import Champion, run_champions
from kevolve.errors import UsageError
from kevolve.knowledge.relatives import ENOUGH, likeness
from kevolve.operators.custom.given import given
from kevolve.program import Program
from kevolve.propose.genome import Genome, derive
from kevolve.search.opening import generated_programs, starting_programs
from kevolve.search.policies.policy import Search

if TYPE_CHECKING:
    from kevolve.config import Config
    from kevolve.judge.lease import Lease
    from kevolve.search.lineage import Lineage


def beginnings(config: Config, lineage: Lineage, operator: str, lease: Lease) -> list[Program]:
    """The seeds, and up to `knowledge.earlier` programs of earlier runs. A search that has begun keeps what it has."""
    plain = starting_programs(operator, lease, config.seeds)
    search = Search(operator, lease.device)
    if search in lineage.searches and lineage.searches[search].starting:
        return plain
    plain += generated_programs(operator, lease, config.seeds)[0]
    if not plain:
        why = f"torch.compile makes no program of {operator}'s baselines"
        raise UsageError(f"seeds: {why}. Type seeds=[plain,inductor].")
    if not config.knowledge.earlier:
        return plain
    champions = [one for one in _champions(Path(config.runs_dir), lease) if one.run != config.name]
    known = {program.id: program for program in plain}
    same = [one for one in champions if one.operator == operator and _is_same_operator(one, operator, plain, lease)]
    for program in (*_same(same, operator, lease), *_related(champions, operator, plain)):
        if len(known) < len(plain) + config.knowledge.earlier:
            known.setdefault(program.id, program)
    return list(known.values())


def _champions(runs_dir: Path, lease: Lease) -> Iterator[Champion]:
    """Those of all runs on this device, best first. A run whose records are damaged has none to offer."""
    found: list[Champion] = []
    for folder in sorted(runs_dir.glob("*/champions")):
        try:
            found += run_champions(runs_dir, folder.parent.name)
        except UsageError:
            continue
    fitting = [one for one in found if one.device == lease.device]
    yield from sorted(fitting, key=lambda one: (-one.fitness.speedup, one.program))


def _is_same_operator(champion: Champion, operator: str, plain: Sequence[Program], lease: Lease) -> bool:
    """Two operators of users may have one name: theirs are the same only if nothing about them has changed."""
    then = champion.record["confirmed"]["key"]["operator_version"]
    return not given([operator]) or then == lease.key(plain[0]).operator_version


def _same(champions: Sequence[Champion], operator: str, lease: Lease) -> Iterator[Program]:
    for champion in champions:
        try:
            program = champion.source()
        except UsageError:
            continue
        if program.language not in lease.languages:
            continue
        yield _as_seed(champion, program.language, program.source, operator)


def _related(champions: Sequence[Champion], operator: str, plain: Sequence[Program]) -> Iterator[Program]:
    """The most closely related operator's first."""
    others = [(likeness(operator, one.operator), one) for one in champions if one.operator != operator]
    for alike, champion in sorted(others, key=lambda pair: -pair[0]):
        record = champion.record["program"]
        bases = [program for program in plain if program.language == record["language"]]
        if alike < ENOUGH or not bases or "genome" not in record["origin"]:
            continue
        genome = Genome.from_json({**record["origin"]["genome"], "seed": bases[0].id})
        derived = derive(genome, bases[0].source, bases[0].language)
        if derived is not None and derived.genome.edits:
            yield _as_seed(champion, bases[0].language, derived.text, operator, derived.genome)


def _as_seed(champion: Champion, language: str, source: str, operator: str, genome: Genome | None = None) -> Program:
    """The program without parents, which are another run's; with its genome, so that it can be bred on."""
    origin = champion.record["program"]["origin"]
    kept = {key: origin[key] for key in ("genome", "base") if key in origin and genome is None}
    if genome is not None:
        kept["genome"] = genome.to_json()
    told = {"run": champion.run, "operator": champion.operator, "speedup": champion.fitness.speedup}
    return Program(operator, language, source, origin={"proposer": "seed", "kind": "earlier", "earlier": told, **kept})
