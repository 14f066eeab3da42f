"""The genetic proposer: children by mutating and merging genomes. Needs no model, no network and no key.

A mutation changes parameters (mostly by one step along their domain) or, at `structure_rate`, the edits: one is
added, removed or replaced. Which edit, is drawn in proportion to what it brought on the island so far
(`Request.credit`), with a share kept for exploring. A child is a function of its request and context alone.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deap.base import Toolbox

from kevolve.program import Program
from kevolve.propose.choosing import choose
from kevolve.propose.genome import Derived, Edits, Gene, Genome, Value, applied, derive, edits_of, merged, parsed
from kevolve.propose.proposer import Context, Credit, Proposal, Refusal, Request

RETRIES = 12  # children that turn out to be their parents, before a request is refused
DRAFT_EDITS = (4, 5, 5, 6, 6, 7)
REPEAT = 0.25  # weight that an edit keeps for another site of the same draft


@dataclass(frozen=True)
class Individual:
    """A genome with its seed's text, and what changed since its parent: names that the island credits."""

    genome: Genome
    base: str
    language: str
    changed: tuple[str, ...] = ()

    def derived(self) -> Derived | None:
        """The text that the genome stands for."""
        return derive(self.genome, self.base, self.language)


class Genetic:
    """Proposes by edits on a genome. `structure_rate` is the share of mutations that change the edits."""

    def __init__(self, structure_rate: float = 0.3):
        if not 0.0 <= structure_rate <= 1.0:
            raise ValueError(f"structure_rate must lie in 0..1, not {structure_rate}")
        self.structure_rate = structure_rate

    async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
        """A child of the request's parents, or a refusal that says why there is none."""
        generator = random.Random(f"{request.seed}/{request.attempt}")
        toolbox = _toolbox(generator, request.credit, self.structure_rate)
        known = {program.id for program, _ in context.parents} | {seed.id for seed in context.seeds}
        starts = [seed for seed in context.seeds if edits_of(seed.language) is not None]
        parents = [program for program, _ in context.parents if edits_of(program.language) is not None]
        if request.kind == "draft" and not starts:
            return Refusal(f"{context.operator} has no starting program in a language with edits")
        if request.kind != "draft" and not parents:
            return Refusal("no parent is in a language with edits")
        for _ in range(RETRIES):
            if request.kind == "draft":
                chosen = [generator.choice(starts)]
                child = toolbox.draft(_individual(chosen[0], context))
            else:
                chosen = parents if request.kind == "crossover" else parents[:1]
                child = _bred(chosen, context, toolbox)
            derived = child.derived()
            if derived is None:
                continue
            program = _program(child, derived, request, context, chosen)
            if program.id not in known:
                return Proposal(program)
        return Refusal(f"{RETRIES} mutations in a row changed nothing")


def _toolbox(generator: random.Random, credit: Mapping[str, Credit], structure_rate: float) -> Toolbox:
    toolbox = Toolbox()
    toolbox.register("choose", choose, generator=generator, credit=credit)
    toolbox.register("mate", _mate, generator=generator)
    toolbox.register("draft", _draft, generator=generator, choose=toolbox.choose)
    toolbox.register(
        "mutate", _mutate, generator=generator, choose=toolbox.choose, credit=credit, structure_rate=structure_rate
    )
    return toolbox


def _bred(parents: list[Program], context: Context, toolbox: Toolbox) -> Individual:
    """The child of one parent by mutation, or of two by merging; parents of different seeds cannot be merged."""
    first = _individual(parents[0], context)
    for parent in parents[1:]:
        second = _individual(parent, context)
        if second.genome.seed == first.genome.seed and second.genome != first.genome:
            child: Individual = toolbox.mate(first, second)[0]
            if child.genome not in (first.genome, second.genome):
                return child
    mutant: Individual = toolbox.mutate(first)[0]
    return mutant


def _individual(program: Program, context: Context) -> Individual:
    """The program's genome if it has one that still gives its text; else the program is a seed of its own."""
    record, known = program.origin.get("genome"), {seed.id: seed.source for seed in context.seeds}
    try:
        genome = Genome.from_json(record) if isinstance(record, Mapping) else None
    except (KeyError, TypeError):
        genome = None
    if genome is not None:
        base = known.get(genome.seed) or program.origin.get("base")
        derived = derive(genome, base, program.language) if isinstance(base, str) else None
        if derived is not None and isinstance(base, str):
            again = Program(program.operator, program.language, derived.text)
            if again.id == program.id:
                return Individual(derived.genome, base, program.language)
    return Individual(Genome(program.id), program.source, program.language)


def _program(child: Individual, derived: Derived, request: Request, context: Context, chosen: list[Program]) -> Program:
    origin: dict[str, Any] = {
        "proposer": "genetic",
        "kind": request.kind,
        "edits": list(child.changed),
        "genome": derived.genome.to_json(),
    }
    if all(seed.id != child.genome.seed for seed in context.seeds):
        origin["base"] = child.base
    parents = tuple(program.id for program in chosen)
    return Program(context.operator, child.language, derived.text, parents, origin)


def _coins(generator: random.Random) -> Iterator[bool]:
    return (generator.random() < 0.5 for _ in itertools.count())


def _mate(one: Individual, other: Individual, generator: random.Random) -> tuple[Individual, Individual]:
    """Two children with the edits of both parents; conflicts and shared parameters are settled by coin."""
    edits = _edits(one.language)
    children = []
    for first, second in ((one, other), (other, one)):
        genome = merged(first.genome, second.genome, edits.EDITS, _coins(generator))
        names = {gene.edit for gene in genome.edits} - {gene.edit for gene in first.genome.edits}
        children.append(Individual(genome, one.base, one.language, tuple(sorted(names))))
    return children[0], children[1]


def _draft(seed: Individual, generator: random.Random, choose: Callable[..., str]) -> Individual:
    """Several edits on a seed."""
    count, child = generator.choice(DRAFT_EDITS), seed
    for _ in range(count):
        child = _added(child, generator, choose) or child
    names = dict.fromkeys(gene.edit for gene in child.genome.edits)
    return Individual(child.genome, child.base, child.language, tuple(names))


def _mutate(
    parent: Individual,
    generator: random.Random,
    choose: Callable[..., str],
    credit: Mapping[str, Credit],
    structure_rate: float,
) -> tuple[Individual]:
    """One change of the edits at `structure_rate`, or else of one or two parameters.

    A genome grows before it is tuned: none at all gets several edits at once, a short one changes them more often.
    """
    if not parent.genome.edits:
        return (_draft(parent, generator, choose),)
    youth = 1.0 / (1.0 + len(parent.genome.edits) / 2) if structure_rate > 0.0 else 0.0
    is_tunable = any(_edits(parent.language).EDITS[gene.edit].domains for gene in parent.genome.edits)
    if not is_tunable or generator.random() < max(structure_rate, youth):
        return (_restructured(parent, generator, choose),)
    return (_tuned(parent, generator, choose),)


def _restructured(parent: Individual, generator: random.Random, choose: Callable[..., str]) -> Individual:
    draw = generator.random()
    genes = parent.genome.edits
    child = parent
    if genes and draw < 0.3:
        gone = generator.choice(genes)
        child = Individual(parent.genome.without(gone), parent.base, parent.language)
        if draw < 0.12:
            return child
    return _added(child, generator, choose) or child


def _added(parent: Individual, generator: random.Random, choose: Callable[..., str]) -> Individual | None:
    """The parent with one more edit, at a site where it applies; None if none of those drawn applies anywhere."""
    edits, derived = _edits(parent.language), parent.derived()
    if derived is None:
        return None
    present = [gene.edit for gene in derived.genome.edits]
    names = list(edits.EDITS)
    for _ in range(len(names)):
        weights = [edits.EDITS[name].weight * REPEAT ** present.count(name) for name in names]
        name = choose(names, weights)
        gene_values = _placed(parent.language, derived, name, generator)
        if gene_values is not None:
            gene, values = gene_values
            genome = derived.genome.with_gene(gene, values, edits.EDITS)
            return Individual(genome, parent.base, parent.language, (*parent.changed, name))
        names.remove(name)
        if not names:
            break
    return None


def _placed(
    language: str, derived: Derived, name: str, generator: random.Random
) -> tuple[Gene, dict[str, Value]] | None:
    """A site where the edit applies, at its place in the order of edits, and parameters worth trying first."""
    edits = _edits(language)
    edit = edits.EDITS[name]
    at = sum(edits.EDITS[gene.edit].phase <= edit.phase for gene in derived.genome.edits)
    tagged = derived.stages[at]
    values = {
        parameter: generator.choice(edit.first.get(parameter, domain)) for parameter, domain in edit.domains.items()
    }
    taken = {(edits.EDITS[gene.edit].slot or gene.edit, gene.site) for gene in derived.genome.edits}
    source = parsed(language, tagged)
    sites = [site for site in edit.candidates(source) if (edit.slot or name, site) not in taken]
    # A random order in which sites with many loops inside tend to come first: that is where the time goes.
    for site in sorted(sites, key=lambda site: generator.random() ** (1 / source.importance(site)), reverse=True):
        if applied(language, tagged, Gene(name, site), values) is not None:
            return Gene(name, site), values
    return None


def _tuned(parent: Individual, generator: random.Random, choose: Callable[..., str]) -> Individual:
    """One parameter moved, or two that are coupled: what one takes, the other gives."""
    edits, genome = _edits(parent.language), parent.genome
    places = {gene.key(name): (gene, name) for gene in genome.edits for name in edits.EDITS[gene.edit].domains}
    table, changed = dict(genome.parameters), []
    first = _drawn(places, generator, choose)
    second = _drawn(places, generator, choose) if generator.random() < 0.3 else first
    direction = generator.choice((-1, 1))
    for key, way in {second: -direction, first: direction}.items():
        gene, name = places[key]
        domain = edits.EDITS[gene.edit].domains[name]
        table[key] = _moved(domain, genome.of(gene, edits.EDITS[gene.edit])[name], way, generator)
        changed.append(f"{gene.edit}.{name}")
    return Individual(Genome(genome.seed, genome.edits, table), parent.base, parent.language, tuple(changed))


def _drawn(places: Mapping[str, tuple[Gene, str]], generator: random.Random, choose: Callable[..., str]) -> str:
    """One of the genome's parameters: its kind by credit, then which of that kind at random."""
    kinds: dict[str, list[str]] = {}
    for key, (gene, name) in places.items():
        kinds.setdefault(f"{gene.edit}.{name}", []).append(key)
    kind = choose(list(kinds), [float(len(keys)) for keys in kinds.values()])
    return generator.choice(kinds[kind])


def _moved(domain: tuple[Value, ...], value: Value, way: int, generator: random.Random) -> Value:
    """The value one step along an ordered domain; any other value of a domain of names, or now and then."""
    others = [other for other in domain if other != value]
    if isinstance(domain[0], str) or generator.random() < 0.2:
        return generator.choice(others)
    at = domain.index(value) + way
    return domain[at] if 0 <= at < len(domain) else domain[domain.index(value) - way]


def _edits(language: str) -> Edits:
    found = edits_of(language)
    if found is None:
        raise ValueError(f"{language} has no edits")
    return found
