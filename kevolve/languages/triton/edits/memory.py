"""What the caches keep of what a kernel reads and writes."""

from __future__ import annotations

from kevolve.languages.triton.edits.edit import Edit, Parameters, Value
from kevolve.languages.triton.edits.source import Source


def _hint(function: str, option: str, values: tuple[Value, ...], name: str, summary: str) -> Edit:
    def apply(source: Source, site: str, parameters: Parameters) -> str | None:
        access = source.accesses(function).get(site)
        return source.with_keyword(access, option, repr(parameters["policy"])) if access is not None else None

    return Edit(
        name=name,
        phase=4,
        weight=0.5,
        summary=summary,
        apply=apply,
        candidates=lambda source: list(source.accesses(function)),
        domains={"policy": values},
        slot="cache",  # the assembler takes one kind of hint for an access
    )


EDITS = (
    _hint("load", "eviction_policy", ("evict_first", "evict_last"), "keep_loaded", "how long the cache keeps it"),
    _hint("load", "cache_modifier", (".ca", ".cg", ".cv"), "load_through", "which caches a load goes through"),
    _hint("store", "eviction_policy", ("evict_first", "evict_last"), "keep_stored", "how long the cache keeps it"),
    _hint(
        "store", "cache_modifier", (".wb", ".cg", ".cs", ".wt"), "store_through", "which caches a store goes through"
    ),
)
