"""What is derived from a reference besides its check: cost, version, inputs, starting program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from own_operators import definition, operator, row_wise

from kevolve.errors import UsageError
from kevolve.operators.custom.bring import skeleton
from kevolve.operators.custom.definition import kept, pickled, read_definition
from kevolve.operators.custom.given import give, given, load_given
from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.registry import load_operator, operator_names

MASKED = """
def reference(x, lengths):
    inside = torch.arange(x.shape[1]) < lengths[:, None]
    return torch.where(inside, x, 0).sum(-1)

def make_inputs(rng, rows, dim):
    return {"x": torch.randn(rows, dim, generator=rng), "lengths": torch.randint(0, dim, (rows,), generator=rng)}

workloads = [dict(rows=64, dim=100)]
"""


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kevolve.operators.custom.given._given", {})
    monkeypatch.setattr("kevolve.operators.custom.given._loaded", {})


def bytes_of(made: CustomOperator) -> int:
    given = made.make_inputs(made.workloads[0], torch.Generator().manual_seed(5))
    return made.cost(given).bytes


def test_cost_counts_only_what_every_program_has_to_move() -> None:
    assert bytes_of(operator(row_wise("torch.softmax(x, -1)"))) == 2 * 40 * 70 * 4
    assert bytes_of(operator(row_wise("x[:, :7].square()"))) < (40 * 7 * 2 + 1) * 4  # the rest of x is never read
    masked = bytes_of(operator(MASKED))
    assert 64 * 4 < masked < 0.55 * 64 * 100 * 4
    assert bytes_of(operator(row_wise("x.argsort(-1)"))) == 40 * 70 * 8  # no derivative: the output alone
    given = "def cost(x):\n    return 123, 456\n"
    assert bytes_of(operator(row_wise("x.square()", more=given))) == 123


def test_the_version_changes_with_the_text_and_not_with_the_place() -> None:
    one, other = definition(row_wise("x.square()")), definition(row_wise("x.square() + 1"))
    moved = replace(one, where="elsewhere/my_op.py")
    assert CustomOperator(one).version == CustomOperator(moved).version != CustomOperator(other).version


def test_a_given_operator_is_loaded_by_its_name_and_replaced_by_the_next_of_that_name() -> None:
    give([definition(row_wise("x.square()"))])
    assert "mine" in operator_names()
    first = load_operator("mine")
    assert load_operator("mine") is first
    give(given(["mine"]))
    assert load_operator("mine") is first
    give([definition(row_wise("x.exp()"))])
    assert load_operator("mine") is not first
    assert load_given("jagged_sum") is None


def test_facts_travel_and_are_not_found_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    known = replace(definition(row_wise("x.square()")), facts=operator(row_wise("x.square()")).facts)
    monkeypatch.setattr("kevolve.operators.custom.operator.find_facts", None)
    assert CustomOperator(known).arguments == known.facts.arguments


def test_a_run_keeps_file_and_program_and_finds_them_again(tmp_path: Path) -> None:
    file = tmp_path / "norm.py"
    file.write_text("import torch\n" + row_wise("x.square()"))
    (tmp_path / "norm.cpp").write_text("// plain\n")
    read = read_definition(file)
    assert (read.name, read.program) == ("norm", "// plain\n")
    run = tmp_path / "run"
    run.mkdir()
    assert kept(run, "norm") is None
    read.keep(run)
    again = kept(run, "norm")
    assert again is not None
    assert (again.name, again.content, again.program) == ("norm", read.content, read.program)


def test_functions_travel_with_what_they_use_and_keep_their_own_globals() -> None:
    scale = 3.0

    def reference(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    def make_inputs(rng: torch.Generator, n: int) -> dict[str, torch.Tensor]:
        return {"x": torch.randn(n, generator=rng)}

    parts = {"reference": reference, "make_inputs": make_inputs, "workloads": [{"n": 9}]}
    made = CustomOperator(pickled(parts, "scaled", None))
    values = made.values(made.make_inputs(made.workloads[0], torch.Generator().manual_seed(0)))
    assert torch.equal(made.parts.reference(**values), 3 * values["x"])
    assert made.parts.reference.__globals__["__name__"].startswith("kevolve_given_scaled")

    lock = __import__("threading").Lock()
    with pytest.raises(UsageError, match="cannot be sent to the judge's process"):
        pickled({**parts, "reference": lambda x: (lock, x)[1]}, "locked", None)


def test_the_function_to_fill_in_has_every_argument() -> None:
    shown = skeleton("mine", operator(MASKED).arguments)
    assert (
        'extern "C" void mine(const VALUE *x, const int64_t *lengths, VALUE *out, int64_t rows, int64_t dim)' in shown
    )
    assert "// lengths: [rows]" in shown


def test_a_baseline_of_the_users_own_is_one_to_beat() -> None:
    made = operator(row_wise("x.square()", more="baselines = {'mine': lambda x: x * x}"))
    inputs = made.make_inputs(made.workloads[0], torch.Generator().manual_seed(0))
    assert list(made.baselines("cpu")) == ["eager", "compiled", "mine"]
    assert torch.equal(made.baselines("cpu")["mine"](inputs)["out"], inputs.x * inputs.x)


def test_inputs_are_drawn_on_the_cpu_for_a_device_where_they_cannot_be_drawn() -> None:
    made = operator(row_wise("x.square()"))
    inputs = made.make_inputs(made.workloads[0], torch.Generator().manual_seed(0), "meta")  # no generator draws there
    assert inputs.x.device.type == "meta"
    assert inputs.x.shape == (40, 70)
    assert not made.draws_on_device


def test_a_starting_program_in_another_file_is_in_the_copy_that_a_resume_reads(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f'import torch\n{MASKED}\nprogram = "elsewhere.cpp"\n')
    (tmp_path / "elsewhere.cpp").write_text("// plain\n")
    found = read_definition(file)
    run = tmp_path / "run"
    run.mkdir()
    found.keep(run)
    copy = kept(run, "mine")
    assert copy is not None
    assert (copy.program, copy.language) == ("// plain\n", "cpp")
    file.write_text(file.read_text().replace("elsewhere.cpp", "elsewhere.cu"))
    (tmp_path / "elsewhere.cu").write_text("// plain\n")
    with pytest.raises(UsageError, match="start from C\\+\\+, or from a language that a package brings"):
        read_definition(file)
