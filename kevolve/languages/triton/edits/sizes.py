"""Block sizes, warps and stages: the numbers of a launch."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kevolve.languages.triton.edits.edit import Edit, Parameters
from kevolve.languages.triton.edits.source import Source

_MOST_ELEMENTS = 1 << 16  # of a block with two axes: beyond that it spills, and compiling takes minutes


def _blocks(source: Source) -> Sequence[str]:
    """Constants that a launch hands to a kernel as they are: the sizes of its blocks."""
    handed = {
        argument.id for call in source.launches.values() for argument in call.args if isinstance(argument, ast.Name)
    }
    return [name for name in source.constants if name in handed]


def _resize(source: Source, site: str, parameters: Parameters) -> str | None:
    constant = source.constants.get(site)
    if constant is None:
        return None
    others = [int(str(source.constants[name].value)) for name in _blocks(source) if name != site]
    if int(parameters["size"]) * max(others, default=1) > _MOST_ELEMENTS:
        return None
    return source.replaced(constant, str(parameters["size"]))


def _precision(source: Source, site: str, parameters: Parameters) -> str | None:
    call = source.accesses("dot").get(site)
    return source.with_keyword(call, "input_precision", repr(parameters["way"])) if call is not None else None


def _launch_option(name: str) -> Edit:
    def apply(source: Source, site: str, parameters: Parameters) -> str | None:
        call = source.launches.get(site)
        return source.with_keyword(call, name, str(parameters["count"])) if call is not None else None

    counts = {"num_warps": (1, 2, 4, 8, 16), "num_stages": (1, 2, 3, 4, 5, 6), "maxnreg": (32, 40, 64, 80, 128, 168)}[
        name
    ]
    summary = {
        "num_warps": "warps that share a block",
        "num_stages": "blocks that are under way at a time",
        "maxnreg": "registers that a thread may have",
    }[name]
    return Edit(
        name=name.removeprefix("num_"),
        phase=4,
        weight=0.4 if name == "maxnreg" else 1.0,
        summary=summary,
        apply=apply,
        candidates=lambda source: list(source.launches),
        domains={"count": counts},
    )


EDITS = (
    Edit(
        name="block",
        phase=3,
        weight=2.0,
        summary="the size of a block along one of its axes",
        apply=_resize,
        candidates=_blocks,
        domains={"size": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)},
        first={"size": (8, 16, 32, 64, 128, 256, 512, 1024)},
    ),
    _launch_option("num_warps"),
    _launch_option("num_stages"),
    _launch_option("maxnreg"),
    Edit(
        name="precision",
        phase=4,
        weight=1.5,
        summary="how float32 numbers are multiplied on units that have fewer bits",
        apply=_precision,
        candidates=lambda source: list(source.accesses("dot")),
        domains={"way": ("ieee", "tf32x3", "bf16x6", "bf16x3", "tf32")},
        first={"way": ("tf32x3", "bf16x6")},
    ),
)
