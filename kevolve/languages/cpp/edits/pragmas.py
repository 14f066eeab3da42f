"""Edits that leave statements alone and tell the compiler more: pragmas, restrict, attributes."""

from __future__ import annotations

from kevolve.languages.cpp.edits.dependence import accumulators, clashes, effects, has_loop, independent
from kevolve.languages.cpp.edits.edit import Edit, Parameters, function_sites
from kevolve.languages.cpp.edits.loops import nest, sunk
from kevolve.languages.cpp.edits.source import Loop, Source, child, inside_loop, walk


def _before(source: Source, loop: Loop, pragma: str) -> str:
    """The program with a pragma on a line of its own before the loop."""
    start, _ = source.span(loop)
    line = source.data[:start].rsplit(b"\n", 1)[-1]
    return source.splice([(start, start, ("\n" if line.strip() else "") + pragma + "\n")])


def parallel(source: Source, site: str, parameters: Parameters) -> str | None:
    """The outermost loop shared out over threads, with the loop inside it where both form one range."""
    loop = source.loop(site)
    if loop is None or inside_loop(loop.node) or source.pragmas(loop) or not independent(source, loop):
        return None
    schedule, chunk = parameters["schedule"], int(parameters["chunk"])
    pragma = f"#pragma omp parallel for schedule({schedule}{f', {chunk}' if chunk else ''})"
    inner = _collapsible(source, loop) if parameters["collapse"] == 2 else None
    if inner is None:
        return _before(source, loop, pragma)
    text = sunk(source, loop, f"/*@{site}*/{loop.header}", f"/*@{inner.site}*/{inner.header}")
    lead = "\n" if source.data[: source.span(loop)[0]].rsplit(b"\n", 1)[-1].strip() else ""
    return source.splice([(*source.span(loop), f"{lead}{pragma} collapse(2)\n{text}")])


def _is_free(source: Source, loop: Loop) -> bool:
    """True if a pragma may stand before the loop: none does yet, and no loop around it is collapsed with it."""
    node = loop.node.parent.parent if loop.node.parent is not None else None
    site = source.site_of(node) if node is not None and node.type == "for_statement" else None
    outer = source.loop(site) if site is not None else None
    return not source.pragmas(loop) and (outer is None or not any("collapse" in p for p in source.pragmas(outer)))


def _collapsible(source: Source, loop: Loop) -> Loop | None:
    found = nest(source, loop)
    return found[1] if found is not None and independent(source, found[1]) else None


def simd(source: Source, site: str, parameters: Parameters) -> str | None:
    """The innermost loop vectorised, its reductions named."""
    loop = source.loop(site)
    if loop is None or has_loop(loop.body) or not _is_free(source, loop):
        return None
    if independent(source, loop):
        return _before(source, loop, "#pragma omp simd")
    folds, found = accumulators(source, loop), effects(source, loop.body)
    if not folds or found.opaque or found.stores or clashes(source, found):
        return None
    clauses = "".join(f" reduction({fold.kind} : {fold.name})" for fold in folds)
    return _before(source, loop, f"#pragma omp simd{clauses}")


def unroll(source: Source, site: str, parameters: Parameters) -> str | None:
    """An inner loop unrolled by the compiler."""
    loop = source.loop(site)
    if loop is None or not inside_loop(loop.node) or not _is_free(source, loop):
        return None
    return _before(source, loop, f"#pragma GCC unroll {parameters['times']}")


def ivdep(source: Source, site: str, parameters: Parameters) -> str | None:
    """A promise that no iteration of an innermost loop depends on an earlier one through memory."""
    loop = source.loop(site)
    if loop is None or has_loop(loop.body) or not _is_free(source, loop) or not independent(source, loop):
        return None
    return _before(source, loop, "#pragma GCC ivdep")


def restrict(source: Source, site: str, parameters: Parameters) -> str | None:
    """A promise that no two pointer arguments overlap; the operator contract says so."""
    function = source.functions.get(site)
    declarator = child(function, "declarator")
    arguments = child(declarator, "parameters")
    if arguments is None:
        return None
    splices = []
    for node in walk(arguments):
        name = child(node, "declarator")
        is_pointer = node.type == "pointer_declarator" and "restrict" not in source.text(node)
        if is_pointer and name is not None and name.type == "identifier":
            splices.append((name.start_byte, name.start_byte, "__restrict__ "))
    return source.splice(splices) if splices else None


def vector_width(source: Source, site: str, parameters: Parameters) -> str | None:
    """Vectors of 256 or 512 bits in this function, where the chip has both."""
    function = source.functions.get(site)
    if function is None or any(node.type == "attribute_specifier" for node in function.named_children):
        return None
    if b"__AVX512F__" in source.data:
        return None
    start = function.start_byte
    attribute = f'__attribute__((target("prefer-vector-width={parameters["bits"]}"))) '
    return source.splice([(start, start, attribute)])


EDITS = (
    Edit(
        "parallel",
        phase=6,
        weight=8.0,
        summary="share an outermost loop out over threads",
        apply=parallel,
        domains={
            "schedule": ("static", "dynamic", "guided"),
            "chunk": (0, 1, 2, 4, 8, 16, 32, 64),
            "collapse": (1, 2),
        },
        first={"schedule": ("static", "dynamic"), "chunk": (0, 4, 8), "collapse": (1,)},
        slot="pragma",
    ),
    Edit("simd", phase=6, weight=0.4, summary="vectorise an innermost loop", apply=simd, slot="pragma"),
    Edit(
        "unroll",
        phase=6,
        weight=0.7,
        summary="have the compiler unroll an inner loop",
        apply=unroll,
        domains={"times": (2, 4, 8, 16)},
        slot="pragma",
    ),
    Edit("ivdep", phase=6, weight=0.1, summary="promise independent iterations", apply=ivdep, slot="pragma"),
    Edit(
        "restrict",
        phase=7,
        weight=0.5,
        summary="promise that pointers do not overlap",
        apply=restrict,
        candidates=function_sites,
    ),
    Edit(
        "vector_width",
        phase=7,
        weight=0.4,
        summary="choose 256- or 512-bit vectors",
        apply=vector_width,
        domains={"bits": (256, 512)},
        candidates=function_sites,
    ),
)
