"""What a user has for jagged_sum today, strongest first as measured on two AVX-512 cores.

Every form gives float32 accumulation except segment_reduce, which adds bfloat16 in bfloat16. What is wrong on
some workload stays here: the judge checks a baseline before it times one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional

from kevolve.operators.jagged.forms import (
    compiled,
    has_fbgemm,
    longest,
    nested,
    padded,
    roomy,
    row_lengths,
    row_of_value,
    shortest_and_longest,
    values_masked,
    values_padded,
)
from kevolve.operators.operator import Baseline, Inputs, Outputs


def sum_baselines(device: str) -> Mapping[str, Baseline]:
    """By name. The fbgemm forms are absent where fbgemm_gpu does not load, one where the device is a CPU."""
    table: dict[str, Baseline] = {
        "embedding_bag": embedding_bag,
        "sparse_csr": sparse_csr,
        "compiled_gather": compiled_gather,
        "scatter_reduce": scatter_reduce,
        "index_add": index_add,
        "rows": rows,
        "padded": padded_sum,
        "nested": nested_sum,
        "compiled_nested": compiled_nested,
        "segment_reduce": segment_reduce,
    }
    if device != "cpu":
        table |= {"compiled_mask": compiled_mask}
    if has_fbgemm():
        table |= {"fbgemm_padded": fbgemm_padded, "fbgemm_vector": fbgemm_vector}
    return table


def embedding_bag(inputs: Inputs) -> Outputs:
    """Row numbers as the ids of a lookup: one fused kernel, empty rows are 0."""
    ids = torch.arange(inputs.total, dtype=inputs.offsets.dtype, device=inputs.offsets.device)
    bags = functional.embedding_bag(ids, inputs.values, inputs.offsets, mode="sum", include_last_offset=True)
    return {"out": bags}


def sparse_csr(inputs: Inputs) -> Outputs:
    """A matrix of ones, whose row pointers are the offsets, times values. MKL has no bfloat16 form."""
    used = int(inputs.offsets[-1])
    columns = torch.arange(used, dtype=inputs.offsets.dtype, device=inputs.offsets.device)
    shape = (inputs.batch, inputs.total)
    ones = inputs.values.new_ones(used)
    matrix = torch.sparse_csr_tensor(inputs.offsets, columns, ones, size=shape, check_invariants=False)
    return {"out": matrix @ inputs.values}


def scatter_reduce(inputs: Inputs) -> Outputs:
    index = row_of_value(inputs)[:, None].expand(-1, inputs.dim)
    out = inputs.values.new_zeros(inputs.batch, inputs.dim)
    return {"out": out.scatter_reduce_(0, index, inputs.values[: len(index)], "sum")}


def index_add(inputs: Inputs) -> Outputs:
    index = row_of_value(inputs)
    return {"out": inputs.values.new_zeros(inputs.batch, inputs.dim).index_add_(0, index, inputs.values[: len(index)])}


def rows(inputs: Inputs) -> Outputs:
    """A Python loop: one reduction a row, each over all cores."""
    out = inputs.values.new_empty(inputs.batch, inputs.dim)
    lengths = row_lengths(inputs).tolist()
    for row, target in zip(torch.split(inputs.values[: sum(lengths)], lengths), out.unbind(), strict=True):
        torch.sum(row, 0, out=target)
    return {"out": out}


def padded_sum(inputs: Inputs) -> Outputs:
    return {"out": padded(inputs, longest(inputs), 0.0).sum(dim=1)}


def nested_sum(inputs: Inputs) -> Outputs:
    return {"out": nested(inputs.values, inputs.offsets, *shortest_and_longest(inputs)).sum(dim=1)}


def segment_reduce(inputs: Inputs) -> Outputs:
    return {"out": torch.segment_reduce(inputs.values, "sum", offsets=inputs.offsets, axis=0, initial=0)}


def fbgemm_padded(inputs: Inputs) -> Outputs:
    dense = torch.ops.fbgemm.jagged_to_padded_dense(inputs.values, [inputs.offsets], [longest(inputs)], 0.0)
    return {"out": dense.sum(dim=1)}


def fbgemm_vector(inputs: Inputs) -> Outputs:
    """A vector of ones times each row's matrix."""
    ones = inputs.values.new_ones(inputs.batch, longest(inputs))
    return {"out": torch.ops.fbgemm.batched_dense_vec_jagged_2d_mul(ones, inputs.values, inputs.offsets)}


def compiled_gather(inputs: Inputs) -> Outputs:
    """Masked gather to padded, then sum: torch.compile fuses it into one loop without the padding."""
    return {"out": compiled(_gather_sum)(inputs.values, inputs.offsets.long(), roomy(inputs, longest(inputs)))}


def compiled_mask(inputs: Inputs) -> Outputs:
    """The same, but cells beyond a row's end load one row that is near."""
    return {"out": compiled(_mask_sum)(inputs.values, inputs.offsets.long(), roomy(inputs, longest(inputs)))}


def compiled_nested(inputs: Inputs) -> Outputs:
    return {"out": compiled(_nested_sum)(inputs.values, inputs.offsets.long(), *shortest_and_longest(inputs))}


def _gather_sum(values: torch.Tensor, offsets: torch.Tensor, length: int) -> torch.Tensor:
    gathered, taken = values_padded(values, offsets, length)
    return torch.where(taken, gathered, 0).sum(dim=1, dtype=torch.float32).to(values.dtype)


def _mask_sum(values: torch.Tensor, offsets: torch.Tensor, length: int) -> torch.Tensor:
    gathered, taken = values_masked(values, offsets, length)
    return torch.where(taken, gathered, 0).sum(dim=1, dtype=torch.float32).to(values.dtype)


def _nested_sum(values: torch.Tensor, offsets: torch.Tensor, least: int, most: int) -> torch.Tensor:
    return nested(values, offsets, least, most).sum(dim=1)
