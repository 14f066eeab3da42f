"""Champions by device key: listed side by side, compared only where both were measured again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pytest

from kevolve.champions.__main__ import main
from kevolve.champions.champion import kept_champions, run_champions
from kevolve.champions.contest import contest, decide, store
from kevolve.config import JudgeConfig
from kevolve.devices.cpu import Cpu
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.search.evolution import evolve
from kevolve.verdict import Fault, Fitness, Judgement, Key, Rejected, Scored, Verdict
from tests.run_story import scored
from tests.search.search_stubs import LOCAL, StubLease, StubProposer, config

PLAIN = (seeds_dir() / "jagged_sum" / "plain.cpp").read_text()


def crowned(folder: Path, device: str, source: str, run: str, speedup: float = 1.5) -> Program:
    """A champion in `folder`, as a run writes it."""
    program = Program("jagged_sum", "cpp", source)
    place = folder / "jagged_sum" / device
    place.mkdir(parents=True)
    (place / "program.cpp").write_text(source)
    about = {"id": program.id, "language": "cpp", "source": "", "parents": [], "origin": {}}
    confirmed = {"verdict": {"verdict": "Scored", **asdict(scored(speedup))}}
    record = {"run": run, "operator": "jagged_sum", "device": device, "program": about, "confirmed": confirmed}
    (place / "record.json").write_text(json.dumps({**record, "measured": "2026-11-29T23:00:00+00:00"}))
    return program


def run_with_champion(runs: Path, run: str, device: str, source: str) -> Program:
    program = crowned(runs / run / "champions", device, source, run)
    (runs / run / "events.jsonl").write_text("")
    return program


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def command(*arguments: str) -> tuple[int, str]:
        places = ("--runs-dir", f"{tmp_path}/runs", "--champions-dir", f"{tmp_path}/kept")
        status = main([*places, *arguments])
        told = capsys.readouterr()
        return status, told.out + told.err

    return command


def test_champions_are_listed_by_operator_and_device_with_what_cannot_be_compared(
    typed: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    status, told = typed()
    assert (status, "no champions" in told) == (0, True)
    here = Cpu().key
    kept = crowned(tmp_path / "kept", "nvidia-h200", "// kept\n", "older", 2.5)
    run_with_champion(tmp_path / "runs", "mine", here, "// mine\n")
    status, told = typed()
    assert status == 0
    assert kept.id[:8] in told
    assert "2.50x" in told
    assert "2026-11-29" in told
    assert f"measured on nvidia-h200, this machine is {here}: not comparable" in told
    assert "--operator O --from RUN" in told


def test_the_champion_of_a_real_run_is_found_with_its_date(tmp_path: Path) -> None:
    wanted = config(tmp_path, evaluations=10)
    summary = evolve(wanted, leases=[StubLease()], proposer=StubProposer(), workers=LOCAL)
    (champion,) = run_champions(tmp_path)
    best = summary.results[0].best
    assert best is not None
    assert (champion.run, champion.device, champion.program) == ("trial", "cpu-stub", best.program)
    assert champion.fitness.speedup == best.speedup
    assert champion.measured is not None
    assert champion.source().id == best.program


def test_a_champion_of_another_device_is_never_measured_here(
    typed: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    run_with_champion(tmp_path / "runs", "mine", "nvidia-h200", PLAIN)
    status, told = typed("--operator", "jagged_sum", "--from", "mine")
    assert status == 2
    assert f"measured on nvidia-h200, this machine is {Cpu().key}: not comparable" in told
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--from", "mine"], "Type --operator O --from RUN"),
        (["--operator", "jagged_sum", "--from", "mina"], "Did you mean mine?"),
        (["--operator", "jagged_mean", "--from", "mine"], "It has jagged_sum"),
    ],
)
def test_a_wrong_command_is_told_what_there_is(
    typed: Callable[..., tuple[int, str]], tmp_path: Path, arguments: list[str], named: str
) -> None:
    run_with_champion(tmp_path / "runs", "mine", Cpu().key, PLAIN)
    status, told = typed(*arguments)
    assert status == 2
    assert named in told


def test_a_record_or_program_that_was_damaged_is_named(typed: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    run_with_champion(tmp_path / "runs", "mine", Cpu().key, PLAIN)
    place = tmp_path / "runs/mine/champions/jagged_sum" / Cpu().key
    (place / "program.cpp").write_text("// edited\n")
    status, told = typed("--operator", "jagged_sum", "--from", "mine")
    assert (status, "its record is about" in told) == (2, True)
    (place / "record.json").write_text("{}")
    status, told = typed()
    assert (status, f"{place}/record.json: not the record of a champion" in told) == (2, True)


def test_a_kept_champion_that_is_wrong_by_now_gives_way_to_one_measured_here(
    typed: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Cpu().key
    settings = JudgeConfig(max_pairs=6, confirm_pairs=6, baselines="eager")
    monkeypatch.setattr("kevolve.champions.__main__.JudgeConfig", lambda: settings)
    idle = crowned(tmp_path / "kept", here, PLAIN.replace("{", "{\n    return;\n", 1), "old", 9.0)
    fast = run_with_champion(tmp_path / "runs", "mine", here, PLAIN)
    crowned(tmp_path / "kept", "nvidia-h200", PLAIN, "gpu")
    status, told = typed("--operator", "jagged_sum", "--from", "mine")
    assert status == 0, told
    assert f"measured on nvidia-h200, this machine is {here}: not comparable" in told
    assert f"{idle.id[:8]} is rejected now" in told
    champion = next(found for found in kept_champions(tmp_path / "kept") if found.device == here)
    assert champion.source() == fast
    kept = champion.record["kept"]
    assert (kept["against"]["program"], kept["against"]["verdict"]["verdict"]) == (idle.id, "Rejected")
    assert {row["role"] for row in kept["champion"]["verdict"]["measurements"]} == {"search", "holdout"}
    assert champion.fitness.speedup == kept["champion"]["verdict"]["fitness"]["speedup"]

    status, told = typed("--operator", "jagged_sum", "--from", "mine")
    assert (status, "is the kept champion" in told) == (0, True), "nothing is measured again"


@dataclass
class StubJudge:
    """Scores a program by the number in its text."""

    measured: list[str] = field(default_factory=list)

    def prepare(self, program: Program) -> Built:
        return Built("", {}, program.operator, {})

    def survey(self, operator: str, seed: int) -> Survey:
        return Survey(operator, "cpu-test", {})

    def measure(self, program: Program, built: Built, survey: Survey, seed: int, *, confirm: bool) -> Judgement:
        assert confirm, "more pairs, and the holdout workloads too"
        self.measured.append(program.id)
        speedup = float(program.source.split()[1])
        return Judgement(KEY, at(speedup * 0.95, speedup * 1.05), seed=seed)


@pytest.mark.parametrize(("speedup", "winner"), [(2.0, "new"), (1.04, "old"), (0.5, "old")])
def test_both_numbers_of_one_session_are_kept_and_the_surely_faster_program(
    tmp_path: Path, speedup: float, winner: str
) -> None:
    old = crowned(tmp_path / "kept", "cpu-test", "// 1.0\n", "old", 9.0)
    new = crowned(tmp_path / "run", "cpu-test", f"// {speedup}\n", "new", 1.5)
    (holder,), (challenger,) = kept_champions(tmp_path / "kept"), kept_champions(tmp_path / "run")
    judge, heard = StubJudge(), []
    outcome = contest(judge, challenger, holder, 7, heard.append)  # type: ignore[arg-type]
    assert judge.measured == [old.id, new.id], "what was measured another day does not count"
    store(outcome, tmp_path / "kept", challenger, holder)
    (champion,) = kept_champions(tmp_path / "kept")
    assert (champion.run, champion.source()) == (winner, new if winner == "new" else old)
    kept = champion.record["kept"]
    speedups = {champion.program: kept["champion"], kept["against"]["program"]: kept["against"]}
    told = {program: round(about["verdict"]["fitness"]["speedup"], 6) for program, about in speedups.items()}
    assert told == {old.id: 1.0, new.id: speedup}
    assert champion.measured is not None
    assert champion.fitness.speedup == pytest.approx(told[champion.program])


KEY = Key("0123456789abcdef", "cpu-test", "g++", "1", "1")


def at(low: float, high: float) -> Scored:
    return replace(scored(1.0), fitness=Fitness((low + high) / 2, low, (low, high), 0.5))


@pytest.mark.parametrize(
    ("attack", "defence", "winner", "why"),
    [
        (at(2.0, 2.2), at(1.0, 1.2), "challenger", "surely faster"),
        (at(1.1, 2.2), at(1.0, 1.2), "holder", "the intervals overlap"),
        (at(0.5, 0.6), at(1.0, 1.2), "holder", "not faster"),
        (Rejected("correctness", "row 3 is wrong"), at(1.0, 1.2), "holder", "row 3 is wrong"),
        (at(0.5, 0.6), Rejected("correctness", "row 3 is wrong"), "challenger", "is rejected now"),
        (at(0.5, 0.6), None, "challenger", "no champion"),
        (Fault("device", "it is gone"), at(1.0, 1.2), None, "it is gone"),
        (at(2.0, 2.2), Fault("device", "it is gone"), None, "it is gone"),
    ],
)
def test_noise_and_faults_change_no_champion(
    tmp_path: Path, attack: Verdict, defence: Verdict | None, winner: str | None, why: str
) -> None:
    crowned(tmp_path / "a", "cpu-test", "// a\n", "a")
    crowned(tmp_path / "b", "cpu-test", "// b\n", "b")
    (challenger,), (holder,) = kept_champions(tmp_path / "a"), kept_champions(tmp_path / "b")
    found, reason = decide(
        challenger,
        Judgement(KEY, attack),
        holder if defence else None,
        Judgement(KEY, defence) if defence else None,
    )
    assert ("challenger" if found is challenger else "holder" if found is holder else None) == winner
    assert why in reason
