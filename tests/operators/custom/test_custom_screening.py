"""An operator whose check is worth nothing is refused before a search, with the reason."""

from __future__ import annotations

import pytest
from own_operators import MATMUL, operator, row_wise

from kevolve.errors import UsageError
from kevolve.operators.custom.screening import screen_operator

LENIENT = "def check(outputs, expected, inputs):\n    return None\n"
ROUGH = """
def check(outputs, expected, inputs):
    return None if torch.allclose(outputs['out'].double(), expected['out'], rtol=0.05, atol=0.01) else 'off'
"""
MOSTLY = """
def check(outputs, expected, inputs):
    wrong = (outputs['out'].double() - expected['out']).abs() > 1e-4 * expected['out'].abs() + 1e-6
    return 'off' if wrong.double().mean() > 0.01 else None
"""
ANY_ORDER = """
def check(outputs, expected, inputs):
    got, wanted = outputs['out'].double().flatten().sort().values, expected['out'].flatten().sort().values
    return None if torch.allclose(got, wanted, rtol=1e-5, atol=1e-6) else 'off'
"""
ON_AVERAGE = """
def check(outputs, expected, inputs):
    return None if torch.allclose(outputs['out'].double().mean(), expected['out'].mean(), rtol=1e-3) else 'off'
"""
UNFRESH = row_wise("x.square()").replace("torch.randn(rows, dim, generator=rng)", "torch.ones(rows, dim)")
UNSEEDED = row_wise("x.square()").replace(", generator=rng", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (row_wise("x.square()", more=LENIENT), "zeros for its output out would pass"),
        (row_wise("torch.full_like(x, 3.0)"), "a constant, the mean of an answer, for its output out would pass"),
        (row_wise("x + 0"), "the input x for its output out would pass"),
        (row_wise("torch.softmax(x, -1)", more=ROUGH), "computed in bfloat16 would pass"),
        (row_wise("torch.exp(x)", more=MOSTLY), "all right but for one element for its output out would pass"),
        (row_wise("torch.exp(x)", more=ANY_ORDER), "the right rows in another order for its output out would pass"),
        (row_wise("torch.softmax(x, -1)", more=ON_AVERAGE), "the mean of an answer, for its output out would pass"),
        (row_wise("x"), "its output out is the memory of its input x"),
        (row_wise("x.add_(1)"), "reference changes its inputs"),
        (row_wise("x * torch.rand(())"), "two answers to the same inputs"),
        (UNFRESH, "the same content twice"),
        (UNSEEDED, "draws from something other than rng"),
        (row_wise("(x.argmax(-1), torch.zeros_like(x))"), "zeros for its output out_1 would pass"),
    ],
)
def test_an_operator_that_proves_nothing_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        screen_operator(operator(text))
    assert told in str(error.value)
    assert "the operator mine is refused" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        MATMUL,
        row_wise("x.sum()"),
        row_wise("torch.softmax(x, -1)"),
        row_wise("torch.relu(x - 2)"),
        row_wise("x.sum(-1)", 3, 100_000),
        row_wise("torch.nn.functional.gelu(x)"),
        row_wise("x.argsort(-1)"),
        row_wise("x.square()").replace("dim=70", 'dim=70, dtype="bfloat16"'),
    ],
)
def test_an_honest_operator_is_accepted(text: str) -> None:
    screen_operator(operator(text))
