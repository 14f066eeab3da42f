"""What a user is told when an operator's file is wrong, and what loading promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from operator_cases import OPERATORS, operator_named

import kevolve.operators.registry as registry
from kevolve.errors import UsageError
from kevolve.operators.inputs import LAYOUTS, LENGTHS, VALUES
from kevolve.verdict import ROLES

GOOD = """\
implementation: kevolve.operators.jagged.jagged_sum:JaggedSum
search:
  main: {batch: 4, max_length: 8, dim: 3, weight: 2}
holdout:
  odd: {batch: 4, max_length: 8, dim: 3, lengths: full}
adversarial:
  defaults: {batch: 2, max_length: 8, dim: 3, index_dtype: int32}
  b0: {batch: 0}
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes conf/operator/<name>.yaml and loads it."""
    folder = tmp_path / "operator"
    folder.mkdir()
    monkeypatch.setattr(registry, "conf_dir", lambda: tmp_path)

    def load(text: str, name: str = "jagged_sum"):
        (folder / f"{name}.yaml").write_text(text)
        return registry.load_operator(name)

    return load


def refused(load, text: str, *told: str) -> None:
    with pytest.raises(UsageError) as error:
        load(text)
    for part in ("jagged_sum.yaml", *told):
        assert part in str(error.value)


def test_a_good_file_gives_workloads_with_defaults_filled_in(written):
    operator = written(GOOD)
    assert [(w.name, w.role) for w in operator.workloads] == [
        ("main", "search"),
        ("odd", "holdout"),
        ("b0", "adversarial"),
    ]
    main, odd, b0 = operator.workloads
    assert (main.weight, dict(main.sizes), main.index_dtype) == (2, {"batch": 4, "max_length": 8, "dim": 3}, "int64")
    assert odd.lengths == "full"
    assert (b0.sizes["batch"], b0.sizes["dim"], b0.index_dtype) == (0, 3, "int32")


def test_an_unknown_operator_is_told_the_nearest_and_all_names():
    with pytest.raises(UsageError, match=r"jaged_sum.*Did you mean jagged_sum\?.*jagged_softmax, jagged_sum"):
        registry.load_operator("jaged_sum")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("holdout:", "holdot:", ("holdot", "Did you mean holdout?", "search, holdout, adversarial")),
        ("holdout:\n  odd: {batch: 4, max_length: 8, dim: 3, lengths: full}\n", "", ("holdout", "missing")),
        ("implementation: kevolve.operators.jagged.jagged_sum:JaggedSum\n", "", ("implementation", "missing")),
        ("lengths: full", "lenghts: full", ("holdout.odd", "lenghts", "Did you mean lengths?", "batch, max_length")),
        ("lengths: full", "lengths: ful", ("holdout.odd.lengths", "length regime", "Did you mean full?", "one_giant")),
        ("lengths: full", "values: nan", ("holdout.odd.values", "value regime", "nan_row")),
        ("lengths: full", "layout: diagonal", ("holdout.odd.layout", "contiguous, strided, misaligned")),
        ("lengths: full", "dtype: float8", ("holdout.odd.dtype", "float32, bfloat16")),
        ("lengths: full", "index_dtype: int16", ("holdout.odd.index_dtype", "int32, int64")),
        ("lengths: full", "weight: 0", ("holdout.odd.weight", "greater than 0")),
        ("lengths: full", "role: search", ("holdout.odd", "role")),
        ("dim: 3, lengths: full", "lengths: full", ("holdout.odd.dim", "got None")),
        ("dim: 3, lengths", "dim: wide, lengths", ("holdout.odd.dim", "'wide'")),
        ("dim: 3, lengths", "dim: -1, lengths", ("holdout.odd.dim", "-1")),
        ("odd:", "main:", ("holdout.main", "already a search workload")),
        ("  b0: {batch: 0}", "  b0: {batch: 0}\n  b0: {batch: 1}", ("b0", "duplicate")),
        ("  b0: {batch: 0}", "  b0: 7", ("adversarial.b0", "7")),
        ("  b0: {batch: 0}", "  b0: {batch: 0", ("not valid",)),
        ("jagged_sum:JaggedSum", "jagged_sum:JaggedSumm", ("implementation", "JaggedSumm", "module:Class")),
        ("jagged_sum:JaggedSum", "nowhere:JaggedSum", ("implementation", "nowhere", "module:Class")),
        ("jagged_sum:JaggedSum", "forms:has_fbgemm", ("implementation", "not a subclass")),
        ("jagged_sum:JaggedSum", "jagged_softmax:JaggedSoftmax", ("implementation", "jagged_softmax.yaml")),
    ],
)
def test_a_wrong_file_is_refused_with_place_and_remedy(written, old, new, told):
    assert old in GOOD
    refused(written, GOOD.replace(old, new), *told)


def test_an_empty_file_is_refused(written):
    refused(written, "", "implementation", "missing")


def test_names_come_without_torch_or_omegaconf():
    code = (
        "import sys; from kevolve.operators.registry import operator_names; print(*operator_names());"
        "assert not {'torch', 'omegaconf'} & set(sys.modules), 'heavy import'"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == OPERATORS


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_has_enough_workloads_of_each_role(operator):
    workloads = operator_named(operator).workloads
    count = {role: sum(w.role == role for w in workloads) for role in ROLES}
    assert count["search"] >= 4
    assert count["holdout"] >= 3
    assert count["adversarial"] >= 30
    timed = [w for w in workloads if w.role != "adversarial"]
    assert {w.dtype for w in timed} == {"float32", "bfloat16"}
    assert {w.index_dtype for w in timed} == {"int32", "int64"}
    for table, field in ((LENGTHS, "lengths"), (VALUES, "values"), (LAYOUTS, "layout")):
        assert {getattr(w, field) for w in workloads} <= set(table)


def test_a_version_changes_with_the_workloads_and_is_stable_otherwise(written):
    version = written(GOOD).version
    assert written(GOOD + "\n# a comment\n").version == version
    assert written(GOOD.replace("dim: 3, weight", "dim: 4, weight")).version != version


def test_a_version_covers_the_modules_that_an_operator_builds_on():
    from kevolve.operators.operator import _foundations

    names = {
        module.__name__.removeprefix("kevolve.operators.")
        for module in _foundations("kevolve.operators.jagged.jagged_sum")
    }
    assert names == {
        "jagged.gathered",
        "operator",
        "checks",
        "inputs",
        "jagged.jagged",
        "jagged.jagged_sum",
        "jagged.sum_baselines",
        "jagged.forms",
    }
