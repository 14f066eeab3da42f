"""The driver: what a user sees of budget, faults, duplicates, interruption and resuming."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from search_stubs import DEVICE, LOCAL, StubLease, StubProposer, config, events_of, ids

from kevolve.config import ClusterConfig, Config
from kevolve.errors import FaultsStopped, UsageError
from kevolve.events import Event
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.propose.proposer import Context, Proposal, Refusal, Request
from kevolve.search.evolution import evolve
from kevolve.search.listener import Listener
from kevolve.search.rules import FAULTS_IN_A_ROW
from kevolve.summary import Summary
from kevolve.verdict import Fault, Fitness, Judgement, Rejected, Scored, Verdict


def run(
    wanted: Config, lease: StubLease | None = None, proposer: StubProposer | None = None, *listeners: Listener
) -> Summary:
    return evolve(wanted, listeners, leases=[lease or StubLease()], proposer=proposer or StubProposer(), workers=LOCAL)


def new(events: list[Event]) -> list[Event]:
    """The judgements that the budget pays for."""
    return [e for e in events if e.kind == "judged" and e.data["asked"] is not None and not e.data["reused"]]


@pytest.mark.parametrize("lanes", [1, 5])
def test_the_budget_buys_exactly_its_number_of_new_judgements(tmp_path: Path, lanes: int) -> None:
    wanted = config(tmp_path, evaluations=12, lanes=lanes, operators=["jagged_sum", "jagged_softmax"])
    summary = run(wanted, proposer=StubProposer(kinds=3))
    numbers = [(event.data["operator"], event.data["number"]) for event in new(events_of(wanted))]
    assert sorted(numbers) == sorted((name, n) for name in wanted.operators for n in range(1, 13))
    assert summary.stopped == "finished"
    assert summary.reused > 0


def test_a_known_program_never_reaches_the_device_again(tmp_path: Path) -> None:
    lease = StubLease(exclusive=False)
    wanted = config(tmp_path, evaluations=25, lanes=4)
    run(wanted, lease, StubProposer(kinds=2))
    assert len(lease.judged) == len(set(lease.judged))
    events = events_of(wanted)
    artefacts = [event.data["artefact"] for event in events if event.kind == "submitted"]
    measured = {event.data["program"] for event in events if event.kind == "judged" and not event.data["reused"]}
    assert len(artefacts) >= len(lease.judged)
    assert set(lease.judged) <= measured


def test_a_proposer_with_nothing_new_ends_the_run_instead_of_spinning(tmp_path: Path) -> None:
    class Parrot(StubProposer):
        async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
            return Proposal(context.seeds[0])

    summary = run(config(tmp_path), proposer=Parrot())
    assert events_of(config(tmp_path))[-1].data["reason"] == "exhausted"
    assert summary.judged == 1
    assert summary.reused > 0


def test_faults_are_tried_again_and_never_told_as_a_score(tmp_path: Path) -> None:
    faulty: list[str] = []

    def script(program: Program) -> Verdict | None:
        if program.parents and len(faulty) < 6:
            faulty.append(program.id)
            return Fault("device", "the clock ran backwards")
        return None

    wanted = config(tmp_path, evaluations=6)
    summary = run(wanted, StubLease(script=script))
    told = ids(events_of(wanted), "told")
    assert len(set(faulty)) == 2, "each was tried three times"
    assert not set(faulty) & set(told)
    assert summary.faults == 2
    assert len(new(events_of(wanted))) == 6 + 2


def test_what_ended_in_a_fault_is_judged_when_the_run_goes_on(tmp_path: Path) -> None:
    broken = StubLease(script=lambda program: Fault("device", "the fan fell off") if program.parents else None)
    wanted = config(tmp_path)
    with pytest.raises(FaultsStopped):
        run(wanted, broken)
    faulty = set(broken.judged[1:])
    mended = StubLease()
    run(replace(wanted, resume=True), mended)
    assert len(faulty) == FAULTS_IN_A_ROW
    assert faulty <= set(mended.judged)
    assert faulty <= set(ids(events_of(wanted), "told"))
    assert len([e for e in new(events_of(wanted)) if not is_fault(e)]) == 10


def is_fault(event: Event) -> bool:
    return bool(event.data["judgement"]["verdict"]["verdict"] == "Fault")


def test_a_machine_that_fails_while_champions_are_confirmed_stops_the_run_and_a_resume_finds_them(
    tmp_path: Path,
) -> None:
    class Overheated(StubLease):
        async def measure(self, program: Program, *rest: object, **more: bool) -> Judgement:
            judgement = await super().measure(program, *rest, **more)  # type: ignore[arg-type]
            return replace(judgement, verdict=Fault("device", "too hot")) if more.get("confirm") else judgement

    wanted = config(tmp_path)
    with pytest.raises(FaultsStopped, match=r"3 faults in a row, the last: device: too hot[\s\S]*resume=true"):
        run(wanted, Overheated())
    cool = StubLease()
    (result,) = run(replace(wanted, resume=True), cool).results
    assert not cool.judged, "the search itself was over"
    assert result.best is not None
    assert result.best.confirmed


def test_a_machine_that_keeps_failing_stops_the_run_with_everything_saved(tmp_path: Path) -> None:
    broken = StubLease(script=lambda program: Fault("device", "the fan fell off") if program.parents else None)
    wanted = config(tmp_path)
    with pytest.raises(FaultsStopped, match=r"the fan fell off[\s\S]*resume=true"):
        run(wanted, broken)
    verdicts = [event.data["judgement"]["verdict"]["verdict"] for event in new(events_of(wanted))]
    assert verdicts.count("Fault") == FAULTS_IN_A_ROW
    assert "Scored" not in verdicts
    assert events_of(wanted)[-1].data["reason"] == "faults"
    assert json.loads((tmp_path / "trial" / "summary.json").read_text())["stopped"] == "faults"
    assert run(replace(wanted, resume=True)).stopped == "finished"


def test_a_proposer_that_crashes_is_a_fault_and_not_a_refusal(tmp_path: Path) -> None:
    class Crashing(StubProposer):
        async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
            from kevolve.search.proposing import ProposerFailed

            raise ProposerFailed("the proposer raised KeyError: 'x'")

    with pytest.raises(FaultsStopped, match="KeyError"):
        run(config(tmp_path), proposer=Crashing())


def test_a_speedup_that_is_no_number_is_a_fault(tmp_path: Path) -> None:
    class Dizzy(StubLease):
        async def measure(self, program: Program, built: Built, *rest: object, **more: object) -> Judgement:
            judgement = await super().measure(program, built, *rest, **more)  # type: ignore[arg-type]
            match judgement.verdict:
                case Scored(fitness=fitness) if program.parents:
                    return replace(judgement, verdict=Scored(replace(fitness, speedup=float("nan")), ()))
            return judgement

    with pytest.raises(FaultsStopped, match="no number"):
        run(config(tmp_path, evaluations=60), Dizzy())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda program: replace(program, operator="jagged_max"), "for jagged_max"),
        (lambda program: replace(program, language="fortran"), "in fortran"),
        (lambda program: replace(program, parents=("0123456789abcdef",)), "not on its island"),
    ],
)
def test_an_answer_to_another_question_is_refused(
    tmp_path: Path, change: Callable[[Program], Program], reason: str
) -> None:
    class Confused(StubProposer):
        async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
            answer = await super().propose(request, context)
            return replace(answer, program=change(answer.program)) if isinstance(answer, Proposal) else answer

    wanted = config(tmp_path)
    run(wanted, proposer=Confused())
    reasons = [event.data["reason"] for event in events_of(wanted) if event.kind == "refused"]
    assert any(reason in given for given in reasons)
    assert not new(events_of(wanted))


def test_minutes_end_the_run_over_all_its_sessions(tmp_path: Path) -> None:
    wanted = config(tmp_path, evaluations=10**6, minutes=0.02, operators=["jagged_sum", "jagged_softmax"])
    summary = run(wanted, StubLease(pause=0.005))
    assert summary.stopped == "finished"
    assert events_of(wanted)[-1].data["reason"] == "minutes"
    assert all(result.best is not None and result.best.confirmed for result in summary.results)
    before = len(events_of(wanted))
    assert run(replace(wanted, resume=True)).seconds == pytest.approx(summary.seconds)
    assert len(events_of(wanted)) == before, "a finished run with the same budget is only reported"


def test_a_finished_run_goes_on_with_a_larger_budget_and_judges_nothing_twice(tmp_path: Path) -> None:
    first, second = StubLease(), StubLease()
    run(config(tmp_path, evaluations=6), first)
    summary = run(config(tmp_path, evaluations=12, resume=True), second)
    assert len(new(events_of(config(tmp_path)))) == 12
    assert not set(first.judged) & set(second.judged)
    assert summary.judged == 13


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed=1, and the run has 0"),
        ({"lanes": 3}, "lanes=3"),
        ({"operators": ["jagged_softmax"]}, "operators="),
        ({"migration_every": 9}, "policy="),
    ],
)
def test_resuming_with_another_search_is_refused(tmp_path: Path, change: dict[str, object], named: str) -> None:
    run(config(tmp_path, evaluations=2))
    before = len(events_of(config(tmp_path)))
    with pytest.raises(UsageError, match=named):
        run(config(tmp_path, evaluations=20, resume=True, **change))
    assert len(events_of(config(tmp_path))) == before


def test_resuming_on_another_device_is_refused(tmp_path: Path) -> None:
    run(config(tmp_path, evaluations=2))
    with pytest.raises(UsageError, match=f"the run is on {DEVICE}, and here is other"):
        run(config(tmp_path, evaluations=20, resume=True), StubLease(device="other"))


def test_another_toolchain_is_surveyed_and_confirmed_anew(tmp_path: Path) -> None:
    run(config(tmp_path, evaluations=3))
    newer = StubLease(environment={"sandbox": "stub", "toolchain": "stub-2"})
    run(config(tmp_path, evaluations=6, resume=True), newer)
    events = events_of(config(tmp_path))
    assert sum(event.kind == "surveyed" for event in events) == 2
    assert newer.confirmed


@pytest.mark.parametrize(("machine", "surveys"), [("one (192.0.2.1, node 5678ef90)", 1), ("two (192.0.2.2)", 2)])
def test_a_resume_on_the_same_machine_keeps_its_survey_though_ray_gives_the_node_another_id(
    tmp_path: Path, machine: str, surveys: int
) -> None:
    facts = {"sandbox": "stub", "toolchain": "stub-1"}
    run(config(tmp_path, evaluations=3), StubLease(environment={**facts, "node": "one (192.0.2.1, node 1234abcd)"}))
    again = StubLease(environment={**facts, "node": machine})
    run(config(tmp_path, evaluations=6, resume=True), again)
    assert sum(event.kind == "surveyed" for event in events_of(config(tmp_path))) == surveys


def test_a_cluster_that_is_gone_ends_the_run_even_if_the_device_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kevolve.search.evolution.WATCH_SECONDS", 0.01)
    monkeypatch.setattr("kevolve.search.evolution.GIVE_BACK_SECONDS", 0.01)

    class Lost(StubLease):
        async def measure(self, program: Program, *rest: object, **more: object) -> Judgement:
            if program.parents:
                await asyncio.sleep(3600)
            return await super().measure(program, *rest, **more)  # type: ignore[arg-type]

        async def close(self) -> None:
            await asyncio.sleep(3600)

    wanted = config(tmp_path)

    async def loss(cluster: ClusterConfig) -> str | None:
        return "the head is gone" if ids(events_of(wanted), "judged") else None

    with pytest.raises(FaultsStopped, match="the head is gone"):
        evolve(wanted, leases=[Lost()], proposer=StubProposer(), workers=replace(LOCAL, loss=loss))
    assert events_of(wanted)[-1].data["reason"] == "faults"
    assert run(replace(wanted, resume=True)).stopped == "finished"


class Interrupter(Listener):
    """Presses Ctrl-C at the given event numbers."""

    def __init__(self, *moments: int, number: signal.Signals = signal.SIGINT) -> None:
        self.moments = moments
        self.number = number
        self.summaries: list[Summary] = []

    def heard(self, event: Event) -> None:
        if event.seq in self.moments:
            signal.raise_signal(self.number)

    def closed(self, summary: Summary) -> None:
        self.summaries.append(summary)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_what_is_under_way_and_saves(tmp_path: Path, number: signal.Signals) -> None:
    wanted = config(tmp_path, evaluations=40, lanes=3)
    presser = Interrupter(30, number=number)
    lease = StubLease(pause=0.01)
    summary = run(wanted, lease, None, presser)
    events = events_of(wanted)
    assert summary.stopped == "interrupted"
    assert presser.summaries == [summary]
    asked = {event.data["asked"] for event in events if event.kind == "asked"}
    ended = {event.data["asked"] for event in events if event.kind in ("told", "refused")}
    assert asked == ended - {None}
    assert not lease.confirmed
    assert lease.is_closed
    assert run(replace(wanted, resume=True)).stopped == "finished"


def test_ctrl_c_twice_leaves_what_is_under_way_and_still_saves(tmp_path: Path) -> None:
    class Endless(StubLease):
        async def measure(self, program: Program, *rest: object, **more: object) -> Judgement:
            if program.parents:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                await asyncio.sleep(3600)
            return await super().measure(program, *rest, **more)  # type: ignore[arg-type]

    wanted = config(tmp_path)
    summary = run(wanted, Endless())
    assert summary.stopped == "interrupted"
    assert json.loads((tmp_path / "trial" / "summary.json").read_text())["stopped"] == "interrupted"
    assert run(replace(wanted, resume=True)).stopped == "finished"


def test_nothing_of_ours_runs_beside_a_timing_on_an_exclusive_device(tmp_path: Path) -> None:
    class Watchful(StubLease):
        async def prepare(self, program: Program) -> Built | Rejected | Fault:
            assert not self.at_work
            built = await super().prepare(program)
            assert not self.at_work
            return built

        async def measure(self, program: Program, *rest: object, **more: object) -> Judgement:
            assert not self.at_work
            return await super().measure(program, *rest, **more)  # type: ignore[arg-type]

    run(config(tmp_path, evaluations=20, lanes=4), Watchful(pause=0.001))


def test_builds_go_on_while_a_device_that_is_not_exclusive_measures(tmp_path: Path) -> None:
    class Watchful(StubLease):
        overlapped = False

        async def prepare(self, program: Program) -> Built | Rejected | Fault:
            self.overlapped = self.overlapped or bool(self.at_work)
            return await super().prepare(program)

    lease = Watchful(exclusive=False, pause=0.002)
    run(config(tmp_path, evaluations=20, lanes=4), lease)
    assert lease.overlapped


@pytest.mark.parametrize("exclusive", [True, False])
def test_starting_programs_are_built_side_by_side_where_that_spoils_no_timing(tmp_path: Path, exclusive: bool) -> None:
    class Watchful(StubLease):
        building = most = beside_a_survey = 0

        async def survey(self, operator: str, seed: int) -> Survey | Fault:
            self.beside_a_survey += self.building
            return await super().survey(operator, seed)

        async def prepare(self, program: Program) -> Built | Rejected | Fault:
            self.building += 1
            self.most = max(self.most, self.building)
            await asyncio.sleep(0.01)
            self.building -= 1
            return await super().prepare(program)

    wanted = config(tmp_path, lanes=1, operators=["jagged_sum", "jagged_softmax"], seeds=["plain", "tuned"])
    lease = Watchful(exclusive=exclusive, languages=("triton", "cuda"))
    run(wanted, lease)
    events = [event for event in events_of(wanted) if event.data.get("asked", 0) is None]
    assert ids(events, "judged") == [event.data["program"]["id"] for event in events if event.kind == "proposed"]
    assert len(ids(events, "judged")) > 4
    assert (lease.most > 1) != exclusive
    assert lease.beside_a_survey == 0
    assert len(lease.prepared) == len(set(lease.prepared)) + len(lease.confirmed), "nothing is built twice"


def test_a_champion_is_reported_at_its_confirmed_speedup(tmp_path: Path) -> None:
    class Sobering(StubLease):
        async def measure(self, program: Program, *rest: object, **more: object) -> Judgement:
            judgement = await super().measure(program, *rest, **more)  # type: ignore[arg-type]
            if isinstance(judgement.verdict, Scored) and more.get("confirm"):
                fitness = replace(judgement.verdict.fitness, speedup=1.25, interval=(1.2, 1.3))
                return replace(judgement, verdict=replace(judgement.verdict, fitness=fitness))
            return judgement

    wanted = config(tmp_path, evaluations=20)
    lease = Sobering()
    (result,) = run(wanted, lease).results
    assert result.best is not None
    assert result.best.confirmed
    assert (result.best.speedup, result.best.interval) == (1.25, (1.2, 1.3))
    assert len(lease.confirmed) == 3, "the next best were tried as well"
    folder = tmp_path / "trial" / "champions" / "jagged_sum" / DEVICE
    assert json.loads((folder / "record.json").read_text())["program"]["id"] == result.best.program
    assert (folder / "program.cpp").read_text()


def test_a_champion_must_be_right_on_fresh_data_too(tmp_path: Path) -> None:
    class Lucky(StubLease):
        async def measure(self, program: Program, *rest: object, **more: object) -> Judgement:
            judgement = await super().measure(program, *rest, **more)  # type: ignore[arg-type]
            if more.get("confirm") and len(self.confirmed) == 1:
                return replace(judgement, verdict=Rejected("correctness", "wrong on a holdout workload"))
            return judgement

    lease = Lucky()
    (result,) = run(config(tmp_path, evaluations=20), lease).results
    assert result.best is not None
    assert result.best.program == lease.confirmed[1]


def test_an_operator_without_starting_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="jagged_max has no starting program"):
        run(config(tmp_path, operators=["jagged_max"]))
    assert run(config(tmp_path, evaluations=2)).judged > 0, "the name is still free"


def test_a_listener_that_fails_does_not_stop_the_run(tmp_path: Path) -> None:
    class Grumpy(Listener):
        def heard(self, event: Event) -> None:
            raise OSError("no space left on screen")

    assert run(config(tmp_path, evaluations=3), None, None, Grumpy()).stopped == "finished"


def test_a_resumed_run_recalls_what_was_before(tmp_path: Path) -> None:
    class Notes(Listener):
        def __init__(self) -> None:
            self.past: list[int] = []
            self.present: list[int] = []

        def recalled(self, events: object) -> None:
            self.past += [event.seq for event in events]  # type: ignore[attr-defined]

        def heard(self, event: Event) -> None:
            self.present.append(event.seq)

    run(config(tmp_path, evaluations=3))
    count = len(events_of(config(tmp_path)))
    notes = Notes()
    run(config(tmp_path, evaluations=5, resume=True), None, None, notes)
    assert notes.past == list(range(1, count + 1))
    assert notes.present == list(range(count + 1, len(events_of(config(tmp_path))) + 1))


def test_a_second_confirmation_is_not_begun_when_it_would_end_too_late(tmp_path: Path) -> None:
    class Thorough(StubLease):
        async def measure(self, program: Program, *rest: object, **more: object) -> Judgement:
            if more["confirm"]:
                await asyncio.sleep(2.0)
            return await super().measure(program, *rest, **more)  # type: ignore[arg-type]

    def alike(program: Program) -> Verdict:
        return Scored(Fitness(1.5, 1.4, (1.0, 2.0), 0.5), ())

    lease = Thorough(script=alike)
    run(config(tmp_path, minutes=0.05, evaluations=6), lease)
    assert len(lease.confirmed) == 1
