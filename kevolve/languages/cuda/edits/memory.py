"""What may alias, and which caches loads and stores go through."""

from __future__ import annotations

from kevolve.languages.cuda.edits.edit import Edit, Parameters
from kevolve.languages.cuda.edits.source import LOADS, STORES, Source
from kevolve.languages.cuda.source import child, parameters, text


def _restrict(source: Source, site: str, values: Parameters) -> str | None:
    kernel = source.kernels.get(site)
    splices = []
    for parameter in parameters(kernel) if kernel is not None else ():
        declarator = child(parameter, "declarator")
        if declarator is not None and declarator.type == "pointer_declarator" and "restrict" not in text(parameter):
            start = declarator.start_byte + 1  # behind the star
            splices.append((start, start, "__restrict__ "))
    return source.replaced(splices) if splices else None


def _load(source: Source, site: str, values: Parameters) -> str | None:
    load = source.loads.get(site)
    if load is None:
        return None
    new = f"{values['function']}(&{text(load.element)})"
    return source.replaced([(load.whole.start_byte, load.whole.end_byte, new)])


def _store(source: Source, site: str, values: Parameters) -> str | None:
    store = source.stores.get(site)
    if store is None or store.value is None:
        return None
    new = f"{values['function']}(&{text(store.element)}, {store.type}({text(store.value)}))"
    return source.replaced([(store.whole.start_byte, store.whole.end_byte, new)])


EDITS = (
    Edit(
        name="restrict",
        phase=1,
        weight=1.0,
        summary="the pointers of this kernel point to different memory",
        apply=_restrict,
        candidates=lambda source: list(source.kernels),
    ),
    Edit(
        name="load_through",
        phase=3,
        weight=1.0,
        summary="which caches a load goes through, and how long they keep it",
        apply=_load,
        candidates=lambda source: list(source.loads),
        domains={"function": LOADS},
    ),
    Edit(
        name="store_through",
        phase=3,
        weight=0.5,
        summary="which caches a store goes through, and how long they keep it",
        apply=_store,
        candidates=lambda source: list(source.stores),
        domains={"function": STORES},
    ),
)
