"""A GPU gets workloads of its own, and every adversarial one of the CPU."""

from __future__ import annotations

import pytest
import torch

from kevolve.errors import UsageError
from kevolve.operators import registry
from kevolve.operators.checks import Within, output_rounding
from kevolve.operators.registry import load_operator, operator_names


@pytest.mark.parametrize("operator", operator_names())
def test_a_gpu_has_sizes_of_its_own_and_every_adversarial_case(operator):
    here, there = load_operator(operator), load_operator(operator, "cuda")
    sizes = {w.name: w.sizes for w in there.workloads}
    assert sizes["large"]["batch"] == 4096
    adversarial = {w.name for w in here.workloads if w.role == "adversarial"}
    assert adversarial < {w.name for w in there.workloads if w.role == "adversarial"}
    assert {w.dtype for w in there.workloads} == {"float32", "bfloat16", "float16"}
    assert here.version != there.version


def test_a_device_without_a_section_has_the_workloads_of_the_file():
    assert load_operator("jagged_sum", "opencl").version == load_operator("jagged_sum").version


def test_a_misspelt_role_in_a_section_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "operator").mkdir()
    text = (registry.conf_dir() / "operator" / "jagged_sum.yaml").read_text()
    (tmp_path / "operator" / "jagged_sum.yaml").write_text(text.replace("cuda:\n  search:", "cuda:\n  serch:"))
    monkeypatch.setattr(registry, "conf_dir", lambda: tmp_path)
    with pytest.raises(UsageError, match="serch"):
        load_operator("jagged_sum", "cuda")


def test_scalars_can_be_drawn_without_the_tensors():
    operator = load_operator("jagged_softmax", "cuda")
    large = next(w for w in operator.workloads if w.name == "large")
    drawn = operator.draw_scalars(large, torch.Generator().manual_seed(0))
    assert drawn["batch"] == 4096
    assert 4096 * 200 < drawn["total"] < 4096 * 312


def test_rounding_to_a_subnormal_float16_is_honest():
    exact = torch.linspace(1e-8, 1e-4, 10001, dtype=torch.float64)
    within = Within(exact, output_rounding(exact, torch.float16))
    rounded = exact.half()
    assert within.differs("out", rounded) is None
    assert within.quickly(torch.float16)(rounded)
    wrong = rounded.clone()
    wrong[5000] *= 1.01
    assert within.differs("out", wrong) is not None
    assert not within.quickly(torch.float16)(wrong)


def test_what_float16_cannot_hold_is_infinite_and_nothing_else():
    exact = torch.tensor([160000.0, -1e6, 65504.0, 100.0], dtype=torch.float64)
    within = Within(exact, exact.abs() * 1e-3)
    assert within.differs("out", exact.half()) is None
    for wrong in (torch.tensor([65504.0, -torch.inf, 65504.0, 100.0]), torch.tensor([torch.inf] * 4)):
        assert within.differs("out", wrong.half()) is not None
        assert not within.quickly(torch.float16)(wrong.half())


def test_bounds_in_float16_are_rounded_inwards():
    exact = torch.cat([-torch.logspace(-8, 4, 999, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)])
    exact = torch.cat([exact, -exact])
    within = Within(exact, exact.abs() * 1e-3 + 1e-9)
    rng = torch.Generator().manual_seed(0)
    for _ in range(20):
        got = (exact * (1 + 2e-3 * (torch.rand(exact.shape, generator=rng, dtype=torch.float64) - 0.5))).half()
        assert within.quickly(torch.float16)(got) == (within.differs("out", got) is None)
