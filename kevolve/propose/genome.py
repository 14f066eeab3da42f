"""The genome of a program: what to do to a starting program, as data.

A genome is the id of a seed, an ordered list of named edits with their sites, and one flat table of parameters.
The text follows from it: `derive` applies the edits to the seed's text, the same way every time. An edit whose
site is gone by then is dropped from the genome, never an error, so any two edit lists can be merged.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

Value = int | str | bool


class Edit(Protocol):
    """What a genome needs to know of an edit; a language's `edits` module describes it in full."""

    name: str
    phase: int
    weight: float
    domains: Mapping[str, tuple[Value, ...]]
    first: Mapping[str, tuple[Value, ...]]
    slot: str


class Edits(Protocol):
    """A language's `edits` module."""

    EDITS: Mapping[str, Any]
    Source: Any

    def tag(self, text: str) -> str: ...
    def finish(self, tagged: str) -> str: ...


@lru_cache
def edits_of(language: str) -> Edits | None:
    """The edits of a language, or None if it has none."""
    try:
        module: Any = importlib.import_module(f"kevolve.languages.{language}.edits")
    except ModuleNotFoundError:
        return None
    found: Edits = module
    return found


@dataclass(frozen=True)
class Gene:
    """One edit at one site."""

    edit: str
    site: str

    def key(self, parameter: str) -> str:
        """The name of one of its parameters in the genome's table."""
        return f"{self.edit}@{self.site}.{parameter}"


@dataclass(frozen=True)
class Genome:
    """`edits` are in the order in which they are applied; `parameters` holds every parameter of every one."""

    seed: str
    edits: tuple[Gene, ...] = ()
    parameters: Mapping[str, Value] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        table = {} if self.parameters is None else dict(sorted(self.parameters.items()))
        object.__setattr__(self, "parameters", table)

    def of(self, gene: Gene, edit: Edit) -> dict[str, Value]:
        """The parameters of one of the genome's edits; a missing or unknown value is the first of its domain."""
        found = {name: self.parameters.get(gene.key(name)) for name in edit.domains}
        return {
            name: value if value is not None and value in edit.domains[name] else edit.domains[name][0]
            for name, value in found.items()
        }

    def with_gene(self, gene: Gene, values: Mapping[str, Value], catalogue: Mapping[str, Edit]) -> Genome:
        """The genome with one more edit (or the same with new parameters), behind those of its phase."""
        edits = [one for one in self.edits if one != gene] + [gene]
        edits.sort(key=lambda one: catalogue[one.edit].phase)
        table = {**self.without(gene).parameters, **{gene.key(name): value for name, value in values.items()}}
        return Genome(self.seed, tuple(edits), table)

    def without(self, gene: Gene) -> Genome:
        """The genome without one of its edits and its parameters."""
        table = {
            key: value for key, value in self.parameters.items() if not key.startswith(f"{gene.edit}@{gene.site}.")
        }
        return Genome(self.seed, tuple(one for one in self.edits if one != gene), table)

    def to_json(self) -> dict[str, Any]:
        """The genome as plain JSON, as it is stored in a program's origin."""
        edits = [{"edit": gene.edit, "site": gene.site} for gene in self.edits]
        return {"seed": self.seed, "edits": edits, "parameters": dict(self.parameters)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Genome:
        """Inverse of `to_json`; raises KeyError or TypeError on a record that is no genome."""
        edits = tuple(Gene(gene["edit"], gene["site"]) for gene in record["edits"])
        return cls(record["seed"], edits, dict(record["parameters"]))


@lru_cache(maxsize=64)
def parsed(language: str, tagged: str) -> Any:
    """The tagged program as its language's `Source`, parsed once for all questions about it."""
    edits = edits_of(language)
    return edits.Source(tagged) if edits is not None else None


@lru_cache(maxsize=512)
def _step(language: str, tagged: str, edit: str, site: str, values: tuple[tuple[str, Value], ...]) -> str | None:
    edits = edits_of(language)
    if edits is None or edit not in edits.EDITS:
        return None
    result: str | None = edits.EDITS[edit].apply(parsed(language, tagged), site, dict(values))
    return result if result != tagged else None


def applied(language: str, tagged: str, gene: Gene, values: Mapping[str, Value]) -> str | None:
    """A tagged program with one edit, or None where the edit does not apply."""
    return _step(language, tagged, gene.edit, gene.site, tuple(sorted(values.items())))


@dataclass(frozen=True)
class Derived:
    """A genome's text, and the genome without the edits that did not apply. `stages[i]` is before edit i, tagged."""

    text: str
    genome: Genome
    stages: tuple[str, ...]


def derive(genome: Genome, base: str, language: str) -> Derived | None:
    """The program that the genome describes on the seed's text `base`; None if that is no valid syntax."""
    edits = edits_of(language)
    if edits is None:
        return None
    tagged, kept = edits.tag(base), []
    stages = [tagged]
    for gene in genome.edits:
        edit = edits.EDITS.get(gene.edit)
        after = applied(language, tagged, gene, genome.of(gene, edit)) if edit is not None else None
        if after is not None:
            tagged = after
            kept.append(gene)
            stages.append(tagged)
    if parsed(language, tagged).broken:
        return None
    keys = {gene.key(name) for gene in kept for name in edits.EDITS[gene.edit].domains}
    table = {key: value for key, value in genome.parameters.items() if key in keys}
    text = edits.finish(tagged) if kept else base
    return Derived(text, replace(genome, edits=tuple(kept), parameters=table), tuple(stages))


def merged(one: Genome, other: Genome, catalogue: Mapping[str, Edit], prefer_other: Iterable[bool]) -> Genome:
    """Both genomes' edits in one; each coin of `prefer_other` settles a conflict or a parameter.

    Two edits conflict when they take the same slot at the same site: a genome keeps one of them.
    """
    coins = iter(prefer_other)
    genome = Genome(one.seed)
    slots: dict[tuple[str, str], Gene] = {}
    for gene in dict.fromkeys((*one.edits, *other.edits)):
        if gene.edit not in catalogue:
            continue
        edit = catalogue[gene.edit]
        place = (edit.slot or gene.edit, gene.site)
        rival = slots.get(place)
        if rival is not None and not next(coins):
            continue
        if rival is not None:
            genome = genome.without(rival)
        slots[place] = gene
        parents = [parent for parent in (one, other) if gene in parent.edits]
        values = {
            name: (parents[-1] if len(parents) > 1 and next(coins) else parents[0]).of(gene, edit)[name]
            for name in edit.domains
        }
        genome = genome.with_gene(gene, values, catalogue)
    return genome
