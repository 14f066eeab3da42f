"""The genetic proposer: same request same child, exact replay, merging, learning from credit."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import statistics
import time
from collections import Counter
from pathlib import Path

import pytest

from kevolve.program import Program
from kevolve.propose.genetic import Genetic
from kevolve.propose.genome import Gene, Genome, derive, merged
from kevolve.propose.proposer import Context, Credit, Kind, Proposal, Refusal, Request

SEEDS = Path(__file__).parents[2] / "populations" / "seeds"
SOFTMAX = Program("jagged_softmax", "cpp", (SEEDS / "jagged_softmax" / "plain.cpp").read_text())
SUM = Program("jagged_sum", "cpp", (SEEDS / "jagged_sum" / "plain.cpp").read_text())
HAND_WRITTEN = Program("jagged_sum", "cpp", SUM.source.replace("float sum", "double sum"))


def answer(
    kind: Kind,
    *parents: Program,
    seed: int = 0,
    attempt: int = 0,
    credit: dict[str, Credit] | None = None,
    structure_rate: float = 0.3,
    starts: tuple[Program, ...] = (SUM,),
) -> Proposal | Refusal:
    request = Request(kind, tuple(parent.id for parent in parents), seed, credit or {}, attempt)
    operator = (parents or starts or (SUM,))[0].operator
    context = Context(operator, "cpu", tuple((parent, None) for parent in parents), starts)
    return asyncio.run(Genetic(structure_rate).propose(request, context))


def child(kind: Kind, *parents: Program, **more: object) -> Program:
    found = answer(kind, *parents, **more)  # type: ignore[arg-type]
    assert isinstance(found, Proposal), found
    return found.program


def edits(program: Program) -> set[tuple[str, str]]:
    return {(gene["edit"], gene["site"]) for gene in program.origin["genome"]["edits"]}


def line_of_descent(start: Program, starts: tuple[Program, ...], generations: int) -> list[Program]:
    line = [start]
    for seed in range(generations):
        line.append(child("improve", line[-1], seed=seed, starts=starts))
    return line[1:]


def test_the_same_request_gives_the_same_child_byte_for_byte_whatever_happened_before() -> None:
    for kind, parents in (("draft", ()), ("improve", (child("draft", seed=3),)), ("improve", (SUM,))):
        first = child(kind, *parents, seed=7)  # type: ignore[arg-type]
        random.seed(99)
        state = random.getstate()
        assert child(kind, *parents, seed=7).source == first.source  # type: ignore[arg-type]
        assert random.getstate() == state


def test_another_attempt_gives_another_child() -> None:
    parent = child("draft", seed=3)
    assert len({child("improve", parent, seed=7, attempt=attempt).id for attempt in range(6)}) > 3


def test_a_genome_stored_as_json_replays_to_the_same_text() -> None:
    for seed, start in enumerate((SUM, SOFTMAX) * 6):
        program = child("draft", seed=seed, starts=(start,))
        genome = Genome.from_json(json.loads(json.dumps(program.origin["genome"])))
        derived = derive(genome, start.source, "cpp")
        assert derived is not None
        assert (derived.text, derived.genome) == (program.source, genome)


def test_descendants_keep_the_genome_of_the_starting_program() -> None:
    for program in line_of_descent(SOFTMAX, (SOFTMAX,), 12):
        assert program.origin["genome"]["seed"] == SOFTMAX.id
        assert "base" not in program.origin


def test_a_hand_written_parent_is_a_seed_of_its_own_and_its_grandchildren_replay() -> None:
    for program in line_of_descent(HAND_WRITTEN, (SUM,), 6):
        genome = Genome.from_json(program.origin["genome"])
        assert genome.seed == HAND_WRITTEN.id
        derived = derive(genome, program.origin["base"], "cpp")
        assert derived is not None
        assert derived.text == program.source


def test_a_parent_whose_genome_no_longer_gives_its_text_is_a_seed_of_its_own() -> None:
    draft = child("draft", seed=1)
    edited = Program(draft.operator, "cpp", draft.source + "// by hand\n", (), draft.origin)
    broken = Program(draft.operator, "cpp", draft.source, (), {"genome": {"edits": 3}})
    for parent in (edited, broken):
        assert child("improve", parent, seed=2).origin["genome"]["seed"] == parent.id


def test_a_child_is_never_its_parent_or_a_starting_program() -> None:
    for start in (SUM, SOFTMAX):
        pool = [child("draft", seed=seed, starts=(start,)) for seed in range(6)]
        for seed in range(60):
            kind: Kind = "crossover" if seed % 3 == 0 else "improve"
            parents = random.Random(seed).sample(pool, 2 if kind == "crossover" else 1)
            found = answer(kind, *parents, seed=seed, starts=(start,))
            if isinstance(found, Proposal):
                assert found.program.id not in {start.id, *(parent.id for parent in parents)}
                assert found.program.parents == tuple(parent.id for parent in parents)
                pool.append(found.program)
        assert len(pool) > 55


def test_crossover_children_have_edits_of_both_parents() -> None:
    one = program_with(("lane_tile", "L1"), ("hoist_address", "L2"))
    other = program_with(("parallel", "L0"), ("restrict", "jagged_sum"))
    for seed in range(8):
        assert edits(child("crossover", one, other, seed=seed)) == edits(one) | edits(other)


def program_with(*genes: tuple[str, str]) -> Program:
    derived = derive(Genome(SUM.id, tuple(Gene(*gene) for gene in genes)), SUM.source, "cpp")
    assert derived is not None
    assert len(derived.genome.edits) == len(genes)
    return Program("jagged_sum", "cpp", derived.text, (), {"genome": derived.genome.to_json()})


def test_merging_keeps_one_of_two_edits_that_take_the_same_place() -> None:
    from kevolve.languages.cpp.edits import EDITS

    one, other = (Genome("seed", (Gene(name, "L2"),)) for name in ("simd", "unroll"))
    kept = {merged(one, other, EDITS, [coin] * 9).edits for coin in (False, True)}
    assert kept == {(Gene("simd", "L2"),), (Gene("unroll", "L2"),)}


def test_merging_takes_each_shared_parameter_from_one_parent_or_the_other() -> None:
    from kevolve.languages.cpp.edits import EDITS

    gene, key = Gene("lane_tile", "L1"), "lane_tile@L1.width"
    one, other = (
        Genome("seed", (gene,), {key: width, "lane_tile@L1.tail": tail})
        for width, tail in ((16, "narrow"), (64, "scalar"))
    )
    widths = {merged(one, other, EDITS, [coin] * 9).parameters[key] for coin in (False, True)}
    assert widths == {16, 64}


def test_edits_whose_site_is_gone_are_dropped_from_the_genome() -> None:
    genes = (Gene("lane_tile", "L9"), Gene("no_such_edit", "L1"), Gene("parallel", "L0"), Gene("parallel", "L0"))
    derived = derive(Genome(SUM.id, genes, {"lane_tile@L9.width": 8}), SUM.source, "cpp")
    assert derived is not None
    assert derived.genome.edits == (Gene("parallel", "L0"),)
    assert derived.genome.parameters == {}


def test_what_brought_speed_is_tried_more_often_and_what_did_not_less() -> None:
    parent = program_with(("parallel", "L0"))

    def count(credit: dict[str, Credit]) -> Counter[str]:
        tries = (child("improve", parent, seed=seed, credit=credit, structure_rate=1.0) for seed in range(80))
        return Counter(name for program in tries for name in program.origin["edits"])

    before = count({})
    after = count({"accumulate": Credit(6, 2.0), "lane_tile": Credit(6, -1.0)})
    assert after["accumulate"] > 2 * before["accumulate"]
    assert 0 < after["lane_tile"] < before["lane_tile"] / 2


def test_structure_rate_decides_whether_edits_or_parameters_change() -> None:
    parent = program_with(("accumulate", "L2"), ("lane_tile", "L1"), ("parallel", "L0"))
    tuned = [child("improve", parent, seed=seed, structure_rate=0.0) for seed in range(20)]
    assert all(edits(program) == edits(parent) for program in tuned)
    assert all("." in name for program in tuned for name in program.origin["edits"])
    rebuilt = [child("improve", parent, seed=seed, structure_rate=1.0) for seed in range(20)]
    assert not any("." in name for program in rebuilt for name in program.origin["edits"])
    assert sum(edits(program) != edits(parent) for program in rebuilt) >= 18  # an edit may come back as it was


def test_a_first_child_already_threads_or_tiles_and_a_few_children_do_both() -> None:
    names = [{edit for edit, _ in edits(child("draft", seed=seed, starts=(SOFTMAX,)))} for seed in range(40)]
    assert sum(bool(found & {"parallel", "lane_tile"}) for found in names) >= 38
    assert sum(found >= {"parallel", "lane_tile"} for found in names) >= 16


def test_it_refuses_with_a_reason_where_it_has_nothing_to_work_on() -> None:
    foreign = Program("jagged_sum", "fortran", "end")
    no_loops = Program("jagged_sum", "cpp", "int nothing;\n")
    for found in (
        answer("draft", starts=()),
        answer("draft", starts=(foreign,)),
        answer("improve", foreign),
        answer("improve", no_loops),
    ):
        assert isinstance(found, Refusal)
        assert found.reason


def test_a_structure_rate_that_is_no_share_is_an_error() -> None:
    with pytest.raises(ValueError, match="structure_rate"):
        Genetic(1.5)


def test_it_travels_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(Genetic(0.2))).structure_rate == 0.2


def test_proposing_takes_milliseconds() -> None:
    pool, seconds = [SOFTMAX], []
    for seed in range(24):
        start = time.process_time()
        pool.append(child("improve", pool[seed // 2], seed=seed, starts=(SOFTMAX,)))
        seconds.append(time.process_time() - start)
    assert statistics.median(seconds) < 0.06
