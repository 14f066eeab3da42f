"""Ways to multiply rows by matrices: honest float32 ones, and faulty ones with the workloads that must catch them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from operator_cases import segments
from reductions import Way, last_row_reads_the_tail, rounded_to, unbounded, with_dirty_tail

from kevolve.operators.operator import Inputs

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # [n, dim], [dim, out_dim] -> [n, out_dim]


def products(product: Product, dtype: torch.dtype = torch.float32) -> Way:
    def compute(inputs: Inputs) -> torch.Tensor:
        out = torch.zeros(inputs.total, inputs.out_dim)
        for b, rows in segments(inputs):
            if rows.start < rows.stop:
                out[rows] = product(inputs.values[rows].to(dtype), inputs.matrices[b].to(dtype)).float()
        return out

    return compute


def one_by_one(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """One rank-1 update after the other, in the dtype of what is given."""
    total = torch.zeros(len(x), y.shape[1], dtype=x.dtype)
    for k in range(x.shape[1]):
        total += x[:, k, None] * y[k]
    return total


def fused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply-adds: the product is not rounded."""
    total = torch.zeros(len(x), y.shape[1])
    for k in range(x.shape[1]):
        total = (total.double() + x[:, k, None].double() * y[k].double()).float()
    return total


def split(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Even and odd terms apart."""
    return one_by_one(x[:, ::2], y[::2]) + one_by_one(x[:, 1::2], y[1::2])


def whole_blocks(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    whole = len(y) // 8 * 8
    return x[:, :whole] @ y[:whole]


def other_matrix(inputs: Inputs) -> torch.Tensor:
    return _product(Inputs({**inputs.tensors, "matrices": inputs.matrices.roll(1, 0)}, inputs.scalars))


def every_matrix_leaks(inputs: Inputs) -> torch.Tensor:
    """As if matrices of entries without rows were multiplied by 0 and added in."""
    return _product(inputs) + 0 * inputs.matrices.float().sum()


def spread(inputs: Inputs) -> torch.Tensor:
    """NaN of one row reaches all others."""
    return _product(inputs) + 0 * inputs.values.float().sum()


_product = products(torch.matmul)

HONEST: dict[str, dict[str, Way]] = {
    "jagged_dense_bmm": {
        "library": _product,
        "one by one": products(one_by_one),
        "backwards": products(lambda x, y: one_by_one(x.flip(1), y.flip(0))),
        "split": products(split),
        "fused": products(fused),
    },
}

FAULTY: dict[str, dict[str, tuple[Way, tuple[str, ...]]]] = {
    "jagged_dense_bmm": {
        "bfloat16 accumulation": (
            products(one_by_one, torch.bfloat16),
            ("small", "bf16_normal", "bf16_long_sum", "bf16_shifted_long"),
        ),
        "float16 accumulation": (products(one_by_one, torch.float16), ("small", "bf16_normal", "big_magnitude")),
        "values cut to TF32": (
            products(lambda x, y: rounded_to(11)(x) @ rounded_to(11)(y)),
            ("small", "int32_offsets", "d1", "d1025"),
        ),
        "halves added in bfloat16": (
            products(lambda x, y: (x[:, ::2] @ y[::2]).bfloat16() + (x[:, 1::2] @ y[1::2]).bfloat16()),
            ("small", "bf16_normal", "misaligned_base_bfloat16"),
        ),
        "the last term missing": (products(lambda x, y: x[:, :-1] @ y[:-1]), ("small", "d1", "bf16_normal")),
        "only whole blocks of 8 terms": (products(whole_blocks), ("d1", "d7", "d1025", "integers_bfloat16")),
        "a transposed matrix": (products(lambda x, y: x @ y.T), ("d64",)),
        "the matrix of another entry": (other_matrix, ("small", "int32_offsets", "bf16_normal")),
        "max_length ignored": (
            lambda inputs: _product(unbounded(inputs)),
            ("trunc_half", "trunc_half_int32", "trunc_half_nan", "trunc_half_nan_bfloat16", "n0"),
        ),
        "the tail is read": (
            lambda inputs: _product(unbounded(last_row_reads_the_tail(inputs))),
            ("tail_rows_nan", "tail_rows_nan_bfloat16", "all_empty_nan"),
        ),
        "the tail is left as it was": (
            with_dirty_tail(_product),
            ("tail_rows_nan", "all_empty_tail", "b0_tail", "n0"),
        ),
        "matrices of empty entries leak": (
            every_matrix_leaks,
            ("empty_rows_nan", "empty_rows_nan_bfloat16", "empty_rows_inf", "all_empty_nan"),
        ),
        "NaN spreads": (spread, ("nan_in_one_row", "nan_in_one_row_bfloat16", "tail_rows_nan")),
        "NaN made 0": (
            products(lambda x, y: (x @ y).nan_to_num(0)),
            ("nan_in_one_row", "neg_inf_row", "neg_inf_cells"),
        ),
    },
}
