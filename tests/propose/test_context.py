"""What a request holds, what is dropped first when there is no room, and how its texts are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from kevolve.config import ProposerConfig
from kevolve.errors import FaultsStopped, UsageError
from kevolve.judge.lease import Survey
from kevolve.knowledge import Need
from kevolve.operators.registry import load_operator
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.propose.context import blocks
from kevolve.propose.context.fitting import Block, TooLong, fitted
from kevolve.propose.context.prompt import Prompts, task_of
from kevolve.propose.context.relatives import relatives
from kevolve.propose.history import Attempt, History
from kevolve.propose.llm.retrieval import Picked
from kevolve.propose.proposer import Context, Request
from kevolve.verdict import Fitness, Measurement, Rejected, Scored

SEED = Program("jagged_sum", "cpp", (seeds_dir() / "jagged_sum" / "plain.cpp").read_text())
TIMES = {w.name: {"compiled_gather": 70.4, "eager": 90.0} for w in load_operator("jagged_sum").workloads}


class OneNote:
    """Knows one thing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.needs: list[Need] = []

    def documents(self, need: Need) -> list[Picked]:
        self.needs.append(need)
        return [Picked("guidance/reductions.md", "Sum rows in registers.", "picked because it is about memory_bound")]


def right(speedup: float) -> Scored:
    measured = Measurement(
        "main", "search", 1.0, "eager", 90.0, 90 / speedup, speedup, (speedup, speedup), 85 / speedup
    )
    return Scored(Fitness.of([measured]), (measured,), {"diagnosis": "Memory bounds it."})


def context(*parents: tuple[Program, Scored | Rejected], history: History | None = None) -> Context:
    return Context(
        "jagged_sum", "cpu-stub", parents, (SEED,), 7, ("cpp",),
        {"peaks": {"copy_bytes_per_s": 9e9}, "architecture": "skylake", "toolchain": "g++ 12"},
        Survey("jagged_sum", "cpu-stub", TIMES), history or History(),
    )  # fmt: skip


HISTORY = History(
    ancestors=(Attempt("a1", "rows in parallel", right(1.5), 1.0),),
    siblings=(Attempt("b1", "unroll by 4", Rejected("build", "does not compile: no `x`")),),
    failed=tuple(Attempt(f"c{n}", f"idea {n}", right(0.5), 0.9) for n in range(9)),
)


def written(settings: ProposerConfig, request: Request, about: Context, notes: OneNote | None = None) -> str:
    task = task_of(request, about, settings.port_rate)
    return Prompts(settings, notes or OneNote()).write(task, request, about).request


def test_a_request_holds_everything_that_matters() -> None:
    parent = Program("jagged_sum", "cpp", SEED.source + "// better\n", (SEED.id,))
    notes = OneNote()
    text = written(
        ProposerConfig(), Request("improve", (parent.id,), 1), context((parent, right(1.5)), history=HISTORY), notes
    )
    for part in (
        "out[b, :] is the sum of values[t, :]",  # contract
        "- offsets (input, index [batch + 1])",
        "def oracle(self, inputs: Inputs) -> Outputs:\n    return",
        "compiled_gather 70 us",
        "the copy rate allows 57 us",
        "9 GB/s copying from memory",
        "Sum rows in registers.",
        "picked because it is about memory_bound",
        "- rows in parallel: 1.50x, from 1.00x",
        "- unroll by 4: rejected (build): does not compile",
        "- idea 8: 0.50x, from 0.90x",
        "Memory bounds it.",
        "// better",
        "<<<<<<< SEARCH",
        "OpenMP",
    ):
        assert part in text, part
    assert "holdout" not in text
    assert "tall" not in text, "sizes that are kept back are not shown"
    (need,) = notes.needs
    assert (need.device, need.language, need.operator, need.concerns) == (
        "cpu-stub",
        "cpp",
        "jagged_sum",
        ("memory_bound",),
    )


def test_a_repair_holds_what_the_judge_said() -> None:
    lost = Program("jagged_sum", "cpp", SEED.source + "// broken\n", (SEED.id,))
    verdict = Rejected("correctness", "wrong on main (search): out is NaN", "out[0, 3]: expected 1, got nan")
    text = written(ProposerConfig(), Request("repair", (lost.id,), 1, repairs=1), context((lost, verdict)))
    assert "was rejected" in text
    assert "\n\n\n" not in text.partition("# Program")[0], "blocks with nothing to say take no room"
    assert "out[0, 3]: expected 1, got nan" in text


def test_a_port_asks_for_a_whole_program_in_the_other_language() -> None:
    about = Context("jagged_sum", "gpu", ((SEED, right(1.1)),), (SEED,), languages=("cpp", "triton"))
    settings = ProposerConfig(port_rate=1.0)
    task = task_of(Request("improve", (SEED.id,), 1), about, settings.port_rate)
    text = written(settings, Request("improve", (SEED.id,), 1), about)
    assert (task.kind, task.language) == ("port", "triton")
    assert "@triton.jit" in text
    assert "SEARCH" not in text


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("both", {"ancestors", "siblings", "failed"}),
        ("parent", {"ancestors", "failed"}),
        ("siblings", {"siblings", "failed"}),
        ("none", set()),
    ],
)
def test_memory_decides_whose_outcomes_are_told(memory: str, told: set[str]) -> None:
    assert {block.name for block in relatives(HISTORY, memory) if block.text} == told


def test_what_matters_least_goes_first() -> None:
    notes, failed = Block("notes", "N", ("n1", "n2"), keep=2), Block("failed", "F", ("f1", "f2"), keep=1)
    parts = [Block("task", "do it"), notes, failed]
    seen = []
    for room in range(30, 5, -1):
        _, *kept = fitted(parts, room)
        left = tuple(len(block.items) for block in kept)
        seen += [left] if left not in seen else []
    assert seen == [(2, 2), (2, 1), (2, 0), (1, 0), (0, 0)]
    with pytest.raises(TooLong):
        fitted(parts, 4)


def test_a_budget_that_holds_not_even_the_task_says_what_would() -> None:
    long = Program("jagged_sum", "cpp", SEED.source + "// x\n" * 3000)
    about = context((long, right(1.2)))
    with pytest.raises(FaultsStopped, match=r"takes \d+ tokens .* Type proposer.context_tokens="):
        written(ProposerConfig(context_tokens=2000), Request("improve", (long.id,), 1), about)


def test_a_folder_of_ones_own_replaces_templates(tmp_path: Path) -> None:
    (tmp_path / "improve.txt").write_text("Faster, please: $operator\n")
    text = written(
        ProposerConfig(templates=str(tmp_path)), Request("improve", (SEED.id,), 1), context((SEED, right(1.0)))
    )
    assert "Faster, please: jagged_sum" in text


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("improv", "x", "improv.txt replaces nothing. Did you mean improve?"),
        ("improve", "$operater", r"there is no \$operater here. Places of this template: \$operator, \$language"),
    ],
)
def test_a_template_that_cannot_be_used_is_told(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / f"{name}.txt").write_text(text)
    with pytest.raises(UsageError, match=told):
        Prompts(ProposerConfig(templates=str(tmp_path)), OneNote())


def test_the_contract_of_every_operator_has_words_and_a_reference() -> None:
    for name in ("jagged_softmax", "jagged_dense_bmm"):
        text = blocks.contract(load_operator(name)).text
        assert "Arguments, in call order:" in text
        assert "def oracle" in text
