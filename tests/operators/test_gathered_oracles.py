"""On a device the oracles do without a loop over spans: they say there what they say here."""

from __future__ import annotations

import importlib

import pytest
import torch

from kevolve.operators.registry import load_operator, operator_names

WITH_A_FORM = [name for name in operator_names() if name != "jagged_dense_bmm" and name.startswith(("jagged", "dense"))]


@pytest.mark.parametrize("operator", WITH_A_FORM)
def test_both_forms_of_an_oracle_and_of_what_it_allows_agree(operator, monkeypatch):
    operator = load_operator(operator)
    modules = [importlib.import_module(f"kevolve.operators.jagged.{name}") for name in ("gathered", operator.name)]
    small = [w for w in operator.workloads if w.role == "adversarial" or w.name in ("small", "odd", "tall")]
    for workload in small:
        inputs = operator.make_inputs(workload, torch.Generator().manual_seed(11))
        loops, allowed = answers(operator, workload, inputs)
        with monkeypatch.context() as patch:
            for module in modules:
                patch.setattr(module, "on_device", lambda tensor: True, raising=False)
            gathered, allowed_there = answers(operator, workload, inputs)
        same(loops, gathered, workload.name)
        same(allowed, allowed_there, workload.name)


def answers(operator, workload, inputs):
    """The oracle's answer, and how far from it an answer may be, if that is a number."""
    expected = operator.oracle(inputs)["out"]
    allowed = operator.allowed(workload, {"out": expected.clone()}, inputs)["out"]
    return expected, getattr(allowed, "tolerance", torch.zeros(0))


def same(one, other, name):
    assert one.dtype == other.dtype
    scale = one.double().nan_to_num(0, 0, 0).abs().max() if one.numel() else 0.0
    near = {"rtol": 1e-11, "atol": float(scale) * 1e-13, "equal_nan": True}
    torch.testing.assert_close(one.double(), other.double(), **near, msg=lambda told: f"{name}: {told}")
