"""CUDA C++ programs on a real GPU: right ones are scored, wrong ones cost one candidate and nothing else."""

from __future__ import annotations

import pytest

from kevolve.devices.cuda import Cuda
from kevolve.paths import seeds_dir
from kevolve.verdict import Judgement, Rejected, Scored

if "cuda" not in Cuda().languages:
    pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime", allow_module_level=True)

SUM = "jagged_sum"
SEEDS = sorted(path.parent.name for path in seeds_dir().glob("*/plain.cu"))


@pytest.fixture
def judged(bench):
    def judge(operator: str, source: str, **options) -> Judgement:
        return bench.verdict(operator, source, language="cuda", **options)

    return judge


@pytest.mark.parametrize("operator", SEEDS)
def test_a_plain_program_is_right_on_every_workload(bench, judged, operator):
    judgement = judged(operator, bench.plain(operator, ".cu"))
    assert isinstance(judgement.verdict, Scored), judgement.verdict
    assert judgement.sandbox == bench.judge.tier.name
    assert all(m.roofline <= 1.1 for m in judgement.verdict.measurements), "the inputs were in the cache"


@pytest.mark.parametrize("path", sorted(seeds_dir().glob("*/*.cu")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_confirmation_times_the_holdout_workloads_too(judged, path):
    verdict = judged(path.parent.name, path.read_text(), seed=7, confirm=True).verdict
    assert isinstance(verdict, Scored), verdict
    assert {m.role for m in verdict.measurements} == {"search", "holdout"}


STORE = "        out[segment * dim + column] = sum;\n"
LOOP = "        for (int64_t row = int64_t(offsets[segment])"
ENDLESS = "        while (*reinterpret_cast<const volatile INDEX *>(offsets) == 0) {\n        }\n"

# what is done to the plain sum, and a part of the reason that it must be refused with
WRONG = {
    "zeros instead of sums": (STORE, STORE.replace("= sum", "= sum * 0.0f"), "wrong on"),
    "the last column is left as it was": (
        "threadIdx.y == 0 && column < dim",
        "threadIdx.y == 0 && column < dim - 1",
        "w",
    ),
    "one column too many is written": ("threadIdx.y == 0 && column < dim", "threadIdx.y == 0 && column <= dim", "w"),
    "a part of the rows is left out": ("row += ROWS", "row += ROWS + 1", "wrong on"),
    "the inputs are written": (
        STORE,
        STORE + "        const_cast<VALUE *>(values)[segment * dim + column] = 0.0f;\n",
        "fails",
    ),
    "an address that nobody has": ("float(values[row", "float(values[(1ll << 44) + row", "fails"),
    "a kernel that never ends": (LOOP, ENDLESS + LOOP, "did"),
    "more workspace than there may be": (
        "    dim3 grid",
        "    float *w = workspace<float>(1ll << 38);\n    dim3 grid",
        "workspace",
    ),
    "a grid that cannot be launched": ("dim3 grid(batch, ", "dim3 grid(batch, 70000 + ", "grid"),
    "a kernel that traps": (STORE, "        __trap();\n", "fails"),
    "a variable that stays": (
        "    float sum = 0.0f;\n",
        "    static __device__ int calls;\n    float sum = calls++ < 0;\n",
        "keeps its value",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_program_costs_one_candidate(bench, judged, what):
    old, new, reason = WRONG[what]
    plain = bench.plain(SUM, ".cu")
    assert old in plain
    verdict = judged(SUM, plain.replace(old, new, 1)).verdict
    assert isinstance(verdict, Rejected), verdict
    assert reason in verdict.reason
    assert isinstance(judged(SUM, plain).verdict, Scored), "the next candidate paid for it"


def test_programs_of_both_languages_take_turns(bench, judged):
    for _ in range(2):
        assert isinstance(judged(SUM, bench.plain(SUM, ".cu")).verdict, Scored)
        assert isinstance(bench.verdict(SUM, bench.plain(SUM)).verdict, Scored)


def test_registers_that_the_build_read_are_those_that_the_driver_reports(bench, judged):
    judgement = judged(SUM, bench.plain(SUM, ".cu"))
    assert isinstance(judgement.verdict, Scored)
    assert judgement.verdict.profile["registers"] == int(judgement.environment["registers"])
