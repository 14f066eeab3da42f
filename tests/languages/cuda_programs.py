"""Building CUDA C++ programs for a GPU that is not here: what several tests share."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import pytest

from kevolve.config import JudgeConfig
from kevolve.judge.prepare import prepare
from kevolve.judge.sandbox.tiers import find_tier
from kevolve.languages.cuda.nvrtc import installation
from kevolve.languages.language import Built, Target
from kevolve.languages.triton.build import VARIANT
from kevolve.operators.registry import load_operator
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.verdict import Rejected

H200 = Target("sm_90", "NVRTC", ("shared_bytes=232448",))
SEEDS = sorted(path.parent.name for path in seeds_dir().glob("*/plain.cu"))
SUM = (seeds_dir() / "jagged_sum" / "plain.cu").read_text()


def needs_nvrtc() -> None:
    """Skip a file of tests where there is no compiler."""
    try:
        installation()
    except OSError as error:
        pytest.skip(str(error), allow_module_level=True)


def built(
    source: str, monkeypatch: Any, *workloads: str, operator: str = "jagged_sum", seconds: float = 60.0
) -> Built | Rejected:
    """Build for some of an operator's workloads, or all."""
    whole = load_operator(operator, "cuda")
    few = type(whole)(tuple(w for w in whole.workloads if not workloads or w.name in workloads))
    monkeypatch.setattr("kevolve.judge.prepare.load_operator", lambda name, device: few)
    program = Program(operator, "cuda", source)
    found = prepare(program, H200, find_tier(), JudgeConfig(build_seconds=seconds), "cuda")
    assert isinstance(found, Built | Rejected), found
    return found


@dataclass(frozen=True)
class Contents:
    """What a built archive holds."""

    about: dict[str, Any]
    cubins: dict[str, bytes]

    @classmethod
    def of(cls, program: Built) -> Contents:
        with zipfile.ZipFile(io.BytesIO(program.binaries[VARIANT])) as archive:
            names = [name for name in archive.namelist() if name.endswith(".cubin")]
            cubins = {name.removesuffix(".cubin"): archive.read(name) for name in names}
            return cls(json.loads(archive.read("program.json")), cubins)
