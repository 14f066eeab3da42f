"""Taking a champion home: an exported package is right, is one of PyTorch's operators, and needs nothing of kevolve."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from kevolve.devices.cpu import Cpu
from kevolve.export.__main__ import main
from kevolve.operators.custom.definition import Definition
from kevolve.paths import seeds_dir
from kevolve.program import Program
from tests.run_story import scored

MINE = '''
import torch


def reference(weights, sizes, power):
    """Rows to a power, weighted, and which of them are large."""
    scaled = weights * sizes.abs() ** power
    return {"scaled": scaled, "is_large": scaled.sum(-1) > 1}


def make_inputs(rng, rows, dim):
    return {
        "weights": torch.rand(rows, dim, generator=rng),
        "sizes": torch.rand(dim, generator=rng) + 0.5,
        "power": 2,
    }


workloads = [dict(rows=48, dim=24), dict(rows=33, dim=7, role="holdout")]
'''
MINE_CPP = """#include "kevolve.h"

extern "C" void mine(const VALUE *weights, const VALUE *sizes, VALUE *scaled, bool *is_large,
                     int64_t rows, int64_t dim, int64_t power) {
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (int64_t d = 0; d < dim; d++) {
            float value = weights[r * dim + d];
            for (int64_t p = 0; p < power; p++) value *= std::fabs(float(sizes[d]));
            scaled[r * dim + d] = value;
            sum += value;
        }
        is_large[r] = sum > 1.0f;
    }
}
"""


def crowned(run: Path, operator: str, device: str, source: str, language: str = "cpp") -> Program:
    """A champion in a run's folder, as the run writes it when it ends."""
    program = Program(operator, language, source)
    place = run / "champions" / operator / device
    place.mkdir(parents=True)
    (place / f"program.{'cpp' if language == 'cpp' else 'py'}").write_text(source)
    (run / "events.jsonl").write_text("")
    about = {"id": program.id, "language": language, "source": "", "parents": ["0123456789abcdef"], "origin": {}}
    confirmed = {"verdict": {"verdict": "Scored", **asdict(scored(1.5))}, "key": {"operator_version": "older"}}
    record = {"run": run.name, "operator": operator, "device": device, "program": about, "confirmed": confirmed}
    (place / "record.json").write_text(json.dumps({**record, "measured": "2026-11-29T23:00:00+00:00"}))
    return program


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three champions exported: a C++ one, which pip has installed, a Triton one, and one of a user's own operator."""
    folder = tmp_path_factory.mktemp("export")
    seeds = seeds_dir() / "jagged_sum"
    crowned(folder / "runs/bundled", "jagged_sum", Cpu().key, (seeds / "plain.cpp").read_text())
    crowned(folder / "runs/gpu", "jagged_sum", "nvidia-h200", (seeds / "plain.py").read_text(), "triton")
    crowned(folder / "runs/own", "mine", Cpu().key, MINE_CPP)
    Definition("mine", "source", MINE.encode(), "mine.py").keep(folder / "runs/own")
    for run in ("bundled", "gpu", "own"):
        assert main([run, "--runs-dir", f"{folder}/runs", "--out", f"{folder}/{run}"]) == 0
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", f"{folder}/installed", f"{folder}/bundled"], check=True)
    return folder


def python(place: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python where the packages are at hand and kevolve is not: importing it is an error."""
    (place / "installed" / "kevolve.py").write_text("raise ImportError('kevolve is not installed here')\n")
    places = ":".join(f"{place}/{folder}" for folder in ("installed", "gpu", "own"))
    environment = {**os.environ, "PYTHONPATH": places, "XDG_CACHE_HOME": f"{place}/cache", **variables}
    return subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, timeout=120
    )


def test_packages_pass_their_own_tests_without_kevolve(place: Path) -> None:
    chosen = (
        "(jagged_sum and (pytorch or one_graph or (rightly and (d7 or b0_tail)))) or not_proven or gradients"
        " or (mine and rightly)"
    )
    files = ("bundled/tests", "own/tests")
    finished = python(
        place, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *files, "-k", chosen
    )
    assert finished.returncode == 0, finished.stdout[-4000:]
    assert "skipped" not in finished.stdout
    built = {file.parent.name for file in (place / "cache").rglob("*.so")}
    assert built == {"evolved_jagged_sum_cpu", "evolved_mine_cpu"}, "it was the kernels that answered"


WITHOUT_COMPILER = """
import torch
import evolved_jagged_sum_cpu as cpu, evolved_jagged_sum_cuda as gpu, evolved_mine_cpu as own

values, offsets = torch.randn(9, 4), torch.tensor([0, 2, 2, 9])
wanted = torch.stack([values[:2].sum(0), torch.zeros(4), values[2:].sum(0)])
for package, why in ((cpu, "g++"), (gpu, "NVIDIA GPUs")):
    torch.testing.assert_close(package.jagged_sum(values, offsets), wanted)
    assert why in package.explain(values, offsets), package.explain(values, offsets)
torch.library.opcheck(gpu._operator.run, (values.requires_grad_(), offsets))
answers = own.mine(torch.full((48, 24), 0.5), torch.full((24,), 2.0), 2)
assert sorted(answers) == ["is_large", "scaled"] and bool((answers["scaled"] == 2).all())
for wrong in ((values[0], offsets), (values, offsets[:0]), (values, values)):
    try:
        print(cpu.jagged_sum(*wrong))
    except (ValueError, TypeError) as error:
        print("refused:", error)
"""


def test_without_the_device_or_a_compiler_the_fallback_answers(place: Path) -> None:
    finished = python(place, "-c", WITHOUT_COMPILER, PATH="/nowhere")
    assert finished.returncode == 0, finished.stderr[-4000:]
    assert finished.stdout.count("refused:") == 3, "what the operator is not defined on"


def test_what_travels_says_where_it_comes_from(place: Path) -> None:
    package = place / "installed/evolved_jagged_sum_cpu"
    told = json.loads((package / "provenance.json").read_text())
    assert (told["run"], told["device"], told["parents"]) == ("bundled", Cpu().key, ["0123456789abcdef"])
    assert told["record"]["confirmed"]["verdict"]["fitness"]["speedup"] == pytest.approx(1.5)
    assert told["operator_version"]["judged"] == "older"
    assert (package / "program.cpp").read_text() == (seeds_dir() / "jagged_sum/plain.cpp").read_text()
    assert (place / "own/evolved_mine_cpu/definition.py").read_text() == MINE
    readme = (place / "bundled/README.md").read_text()
    assert "| main | search | embedding_bag | 100.0 | 66.7 | 1.50x | 1.35 to 1.65 |" in readme
    for file in package.rglob("*.py"):
        assert not re.search(r"^\s*(from|import) kevolve", file.read_text(), re.MULTILINE), file


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    crowned(tmp_path / "runs/trial", "jagged_sum", "cpu-some-1", "// a\n")
    crowned(tmp_path / "runs/both", "jagged_sum", "cpu-some-1", "// a\n")
    crowned(tmp_path / "runs/both", "jagged_mean", "cpu-some-1", "// b\n")
    crowned(tmp_path / "runs/both", "jagged_mean", "nvidia-h200", "// c\n", "triton")
    crowned(tmp_path / "runs/lost", "my_op", "cpu-some-1", "// d\n")
    crowned(tmp_path / "runs/odd", "jagged_sum", "amd-mi300x", "// e\n", "triton")
    (tmp_path / "runs/none").mkdir()
    (tmp_path / "runs/none/events.jsonl").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("keep me")

    def command(*arguments: str) -> tuple[int, str]:
        places = ("--runs-dir", f"{tmp_path}/runs", "--champions-dir", f"{tmp_path}/kept")
        status = main([*places, *(word.replace("HERE", str(tmp_path)) for word in arguments)])
        return status, capsys.readouterr().err

    return command


@pytest.mark.parametrize(
    ("arguments", "status", "named"),
    [
        (["trail"], 2, "Did you mean trial?"),
        (["none"], 2, "python -m kevolve.run resume=true name=none"),
        (["champion"], 2, "there are no champions in"),
        (["trial", "--operator", "jagged_sun"], 2, "Did you mean jagged_sum?"),
        (["both"], 2, "Type --operator O. It has champions of jagged_mean, jagged_sum."),
        (["both", "--operator", "jagged_mean"], 2, "Type --device cpu-some-1; there are cpu-some-1, nvidia-h200."),
        (["trial", "--device", "cuda"], 2, "It has a champion on cpu-some-1."),
        (["trial", "--out", "HERE/full"], 2, "it exists already"),
        (["odd"], 2, "only champions of cpu and cuda devices can be exported"),
        (["lost", "--out", "HERE/lost"], 2, "runs/lost does not have its definition"),
        (["trial", "--out", "HERE/full/mine.txt/inner"], 4, "Type --out DIR with a folder that can be written"),
    ],
)
def test_a_wrong_command_is_told_what_to_type(
    typed: Callable[..., tuple[int, str]], tmp_path: Path, arguments: list[str], status: int, named: str
) -> None:
    found, told = typed(*arguments)
    assert (found, named in told, "Traceback" in told) == (status, True, False), told
    assert (tmp_path / "full/mine.txt").read_text() == "keep me"
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
