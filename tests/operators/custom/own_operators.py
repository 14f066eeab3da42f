"""Operators as a user writes them, for the tests of how they are read, checked and screened."""

from __future__ import annotations

import textwrap

from kevolve.operators.custom.definition import Definition
from kevolve.operators.custom.operator import CustomOperator


def definition(text: str, name: str = "mine") -> Definition:
    """What `my_op.py` with this text defines. torch is imported for it."""
    return Definition(name, "source", b"import torch\n" + textwrap.dedent(text).encode(), "my_op.py")


def operator(text: str) -> CustomOperator:
    return CustomOperator(definition(text))


def row_wise(body: str, rows: int = 40, dim: int = 70, more: str = "") -> str:
    """An operator of one [rows, dim] input x, whose reference is one expression."""
    return f"""
def reference(x):
    return {body}

def make_inputs(rng, rows, dim):
    return {{"x": torch.randn(rows, dim, generator=rng)}}

workloads = [dict(rows={rows}, dim={dim})]
{more}
"""


MATMUL = """
def reference(a, b):
    return a @ b

def make_inputs(rng, m, k, n):
    return {"a": torch.randn(m, k, generator=rng), "b": torch.randn(k, n, generator=rng)}

workloads = [dict(m=32, k=500, n=48)]
"""
