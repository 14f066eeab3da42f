"""Regression mode: CI hears of a champion that is no longer right or no longer faster, and of nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kevolve.champions.fetched import fetched_champions
from kevolve.config import Config, TrackingConfig
from kevolve.confirm import main
from kevolve.devices.cpu import Cpu
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.verdict import Fault, Judgement, Key, Rejected, Verdict
from tests.run_story import DEVICE, WINNER, scored
from tests.test_champions import crowned, run_with_champion
from tests.test_tracking import play

PLAIN = (seeds_dir() / "jagged_sum" / "plain.cpp").read_text()
FINDINGS: dict[str, Verdict] = {
    "// fast\n": scored(1.4),
    "// even\n": scored(1.05),
    "// slow\n": scored(0.9),
    "// wrong\n": Rejected("correctness", "row 3 is wrong"),
    "// unlucky\n": Fault("device", "it is gone"),
}


@dataclass
class StubJudge:
    """Knows a verdict for each program."""

    is_open: bool = True

    def prepare(self, program: Program) -> Built:
        return Built("", {}, program.operator, {})

    def survey(self, operator: str, seed: int) -> Survey:
        return Survey(operator, Cpu().key, {})

    def measure(self, program: Program, built: Built, survey: Survey, seed: int, *, confirm: bool) -> Judgement:
        assert confirm, "with the pairs and workloads of a confirmation"
        key = Key(program.id, Cpu().key, "g++ 99", "1", "1")
        return Judgement(key, FINDINGS[program.source], seed=seed)

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def command(*arguments: str) -> tuple[int, str, str]:
        places = ("--runs-dir", f"{tmp_path}/runs", "--champions-dir", f"{tmp_path}/kept")
        status = main([*places, *arguments])
        told = capsys.readouterr()
        return status, told.out, told.err

    return command


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        ("// fast\n", 0, "still faster: 1.40x [1.26, 1.54], was 1.50x"),
        ("// even\n", 0, "still faster, which is not sure: 1.05x"),
        ("// slow\n", 1, "no longer faster: 0.90x"),
        ("// wrong\n", 1, "no longer right (correctness): row 3 is wrong; was 1.50x"),
        ("// unlucky\n", 4, "could not be judged, the machine failed (device): it is gone"),
    ],
)
def test_the_exit_status_says_whether_champions_hold(
    typed: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    status: int,
    said: str,
) -> None:
    judges: list[StubJudge] = []

    def judge_of(*_: object) -> StubJudge:
        judges.append(StubJudge())
        return judges[-1]

    monkeypatch.setattr("kevolve.judge.choice.judge_of", judge_of)
    crowned(tmp_path / "kept", Cpu().key, source, "mine")
    crowned(tmp_path / "kept", "nvidia-h200", "// fast\n", "gpu")
    found, told, _ = typed("--device", "cpu")
    assert (found, said in told) == (status, True), told
    assert f"measured on nvidia-h200, this machine is {Cpu().key}: passed over." in told
    assert [judge.is_open for judge in judges] == [False]

    found, told, _ = typed("--device", "cpu", "--json")
    (standing,) = json.loads(told)
    assert (found, standing["operator"], standing["run"]) == (status, "jagged_sum", "mine")
    assert standing["now"]["toolchain"] == "g++ 99"
    assert standing["before"]["speedup"] == pytest.approx(1.5)


def test_a_champion_that_this_compiler_refuses_is_found_by_the_real_judge(
    typed: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    run_with_champion(tmp_path / "runs", "mine", Cpu().key, PLAIN.replace("int64_t b = 0", "int65_t b = 0"))
    status, told, _ = typed("--run", "mine", "--device", "cpu")
    assert status == 1
    assert "no longer right (build): does not compile" in told
    assert "0 of 1 hold." in told


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--run, --registry and --champions-dir look elsewhere"),
        (["--run", "mina"], "Did you mean mine?"),
        (["--run", "mine", "--operator", "jagged_sun"], "Did you mean jagged_sum?"),
        (["--run", "mine", "--device", "cpu"], "Type the command on a machine with cpu-other-1"),
        (["--registry", "sqlite:////nowhere/mlflow.db"], "--registry sqlite:////nowhere/mlflow.db: cannot be read"),
    ],
)
def test_ci_that_confirms_nothing_is_told_so(
    typed: Callable[..., tuple[int, str, str]], tmp_path: Path, arguments: list[str], named: str
) -> None:
    run_with_champion(tmp_path / "runs", "mine", "cpu-other-1", PLAIN)
    status, _, told = typed(*arguments)
    assert (status, named in told) == (2, True), told


def test_champions_of_a_registry_are_found_with_their_programs(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    config = Config(operators=["jagged_sum"], name="trial", runs_dir=str(tmp_path / "runs"))
    config.tracking = TrackingConfig(enabled=True, uri=uri)
    play(config, [])
    (champion,) = fetched_champions(uri, tmp_path / "files")
    assert (champion.operator, champion.device, champion.run) == ("jagged_sum", DEVICE, "trial")
    assert champion.source() == WINNER
