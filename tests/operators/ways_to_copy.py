"""Ways to copy between jagged and padded, and to add the two: honest ones, and faulty ones with what catches them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from operator_cases import segments
from reductions import Way, last_row_reads_the_tail, rounded_to, with_dirty_tail

from kevolve.operators.jagged.jagged import whole_spans
from kevolve.operators.operator import Inputs

Change = Callable[[torch.Tensor], torch.Tensor]


def unchanged(x: torch.Tensor) -> torch.Tensor:
    return x


def to_padded(change: Change = unchanged, padding: float = 0.0) -> Way:
    """Entry by entry, with `change` made to each entry's rows."""

    def compute(inputs: Inputs) -> torch.Tensor:
        out = torch.full((inputs.batch, inputs.max_length, inputs.dim), padding, dtype=inputs.values.dtype)
        for b, rows in segments(inputs):
            out[b, : rows.stop - rows.start] = change(inputs.values[rows])
        return out

    return compute


def gathered(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Each padded cell from the row where it would be, and which of them are real."""
    position = inputs.offsets[:-1, None] + torch.arange(inputs.max_length)
    real = (position < inputs.offsets[1:, None])[:, :, None]
    if inputs.total == 0:
        return torch.zeros(*position.shape, inputs.dim, dtype=inputs.values.dtype), real
    return inputs.values[position.clamp(max=inputs.total - 1)], real


def selected(inputs: Inputs) -> torch.Tensor:
    cells, real = gathered(inputs)
    return torch.where(real, cells, torch.zeros((), dtype=cells.dtype))


def multiplied_by_mask(inputs: Inputs) -> torch.Tensor:
    cells, real = gathered(inputs)
    return cells * real


def spilled(inputs: Inputs) -> torch.Tensor:
    """Rows that are too long go on into the next entry's cells."""
    most = inputs.max_length
    out = torch.zeros(inputs.batch * most, inputs.dim, dtype=inputs.values.dtype)
    for b, (start, end) in enumerate(whole_spans(inputs)):
        count = min(end - start, len(out) - b * most)
        out[b * most : b * most + count] = inputs.values[start : start + count]
    return out.view(inputs.batch, most, inputs.dim)


def to_jagged(change: Change = unchanged) -> Way:
    def compute(inputs: Inputs) -> torch.Tensor:
        out = torch.zeros(inputs.total, inputs.dim, dtype=inputs.dense.dtype)
        for b, rows in segments(inputs):
            out[rows] = change(inputs.dense[b, : rows.stop - rows.start])
        return out

    return compute


def by_index(inputs: Inputs) -> torch.Tensor:
    flat = inputs.dense.flatten(0, 1)
    out = torch.zeros(inputs.total, inputs.dim, dtype=flat.dtype)
    index = [b * inputs.max_length + t for b, rows in segments(inputs) for t in range(rows.stop - rows.start)]
    place = [t for _, rows in segments(inputs) for t in range(rows.start, rows.stop)]
    out[place] = flat[index]
    return out


def last_repeated(inputs: Inputs) -> torch.Tensor:
    """Rows that dense does not have get its last one."""
    out = to_jagged()(inputs)
    for b, (start, end) in enumerate(whole_spans(inputs)):
        out[start + inputs.max_length : end] = inputs.dense[b, -1]
    return out


def flattened(inputs: Inputs) -> torch.Tensor:
    """The lengths ignored: padding and all, as far as there is room."""
    flat = inputs.dense.flatten(0, 1)
    out = torch.zeros(inputs.total, inputs.dim, dtype=flat.dtype)
    count = min(len(flat), inputs.total)
    out[:count] = flat[:count]
    return out


def padding_leaks(way: Way) -> Way:
    """As if padding were multiplied by 0 and added in."""
    return lambda inputs: way(inputs) + 0 * inputs.dense.sum()


def added(add: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], *, keeps_rest: bool = True) -> Way:
    """In float32, or what `add` makes of two tensors of the workload's dtype."""

    def compute(inputs: Inputs) -> torch.Tensor:
        out = torch.zeros(inputs.total, inputs.dim)
        for start, end in whole_spans(inputs):
            out[start:end] = inputs.values[start:end].float() if keeps_rest else 0
        for b, rows in segments(inputs):
            out[rows] = add(inputs.values[rows], inputs.dense[b, : rows.stop - rows.start]).float()
        return out

    return compute


def tail_kept(inputs: Inputs) -> torch.Tensor:
    out = _added(inputs)
    out[int(inputs.offsets[-1]) :] = inputs.values[int(inputs.offsets[-1]) :]
    return out


_added = added(lambda x, y: x.float() + y.float())

HONEST: dict[str, dict[str, Way]] = {
    "jagged_to_padded_dense": {"copied": to_padded(), "selected": selected},
    "dense_to_jagged": {"copied": to_jagged(), "by index": by_index},
    "jagged_dense_elementwise_add": {
        "float32": _added,
        "float64": added(lambda x, y: (x.double() + y.double()).float()),
        "in the workload's dtype": added(lambda x, y: x + y),
        "the other way round": added(lambda x, y: y.float() + x.float()),
    },
}

CHANGES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "added to 0": (lambda x: x + 0, ("odd_bits", "odd_bits_bfloat16", "odd_bits_truncated")),
    "NaN made 0": (lambda x: x.nan_to_num(0), ("odd_bits", "nan_in_one_row", "nan_in_one_row_bfloat16")),
    "every NaN made the same": (lambda x: x.masked_fill(x.isnan(), torch.nan), ("odd_bits", "odd_bits_truncated")),
    "subnormals flushed to 0": (lambda x: x.masked_fill(x.abs() < 1e-38, 0), ("odd_bits", "odd_bits_bfloat16")),
    "through bfloat16": (lambda x: x.bfloat16().to(x.dtype), ("small", "int32_offsets", "d1025")),
    "the last row of each entry missing": (
        lambda x: torch.cat([x[:-1], 0 * x[-1:]]),
        ("small", "all_one", "b1", "bf16_normal"),
    ),
    "only whole blocks of 8 columns": (
        lambda x: torch.cat([x[:, : x.shape[1] // 8 * 8], 0 * x[:, x.shape[1] // 8 * 8 :]], dim=1),
        ("d1", "d7", "d1025", "trunc_half"),
    ),
    "rows in reverse": (lambda x: x.flip(0), ("small", "b1", "len_eq_tile", "bf16_normal")),
}

PADDING = ("padding_nan", "padding_nan_bfloat16", "padding_inf", "padding_nan_empty_rows")

FAULTY: dict[str, dict[str, tuple[Way, tuple[str, ...]]]] = {
    "jagged_to_padded_dense": {
        **{fault: (to_padded(change), names) for fault, (change, names) in CHANGES.items()},
        "padding of -0": (to_padded(padding=-0.0), ("small", "bf16_normal", "all_empty")),
        "padding left as it was": (to_padded(padding=1e-30), ("small", "bf16_normal", "all_empty", "empty_run")),
        "padding not masked": (lambda inputs: gathered(inputs)[0], ("small", "empty_run", "tail_rows_nan")),
        "masked by multiplication": (multiplied_by_mask, ("tail_rows_nan", "tail_rows_nan_bfloat16")),
        "what is too long spills": (spilled, ("trunc_half", "trunc_half_int32")),
        "the tail is read": (
            lambda inputs: to_padded()(last_row_reads_the_tail(inputs)),
            ("tail_rows_nan", "tail_rows_nan_bfloat16", "all_empty_tail"),
        ),
    },
    "dense_to_jagged": {
        **{fault: (to_jagged(change), names) for fault, (change, names) in CHANGES.items()},
        "lengths ignored": (flattened, ("small", "empty_first", "bf16_normal")),
        "the last row repeated": (last_repeated, ("trunc_half", "trunc_half_int32")),
        "the tail is left as it was": (
            with_dirty_tail(to_jagged()),
            ("tail_rows_nan", "all_empty_tail", "b0_tail", "trunc_half_int32"),
        ),
        "padding leaks": (padding_leaks(to_jagged()), (*PADDING, "padding_nan_all_empty", "tail_rows_nan")),
    },
    "jagged_dense_elementwise_add": {
        "added in bfloat16": (added(lambda x, y: x.bfloat16() + y.bfloat16()), ("small", "int32_offsets", "d1025")),
        "added in float16": (added(lambda x, y: x.half() + y.half()), ("small", "big_magnitude", "d1025")),
        "values cut to TF32": (added(lambda x, y: rounded_to(11)(x) + y), ("small", "int32_offsets", "d1")),
        "the sum cut to 14 bits": (
            added(lambda x, y: rounded_to(14)(x.float() + y.float())),
            ("small", "int32_offsets", "d1025"),
        ),
        "nothing added": (added(lambda x, y: x), ("small", "bf16_normal", "all_one", "integers")),
        "added twice": (added(lambda x, y: x.float() + 2 * y.float()), ("small", "bf16_normal", "all_one")),
        "the wrong row added": (added(lambda x, y: x + y.flip(0)), ("small", "bf16_normal", "b1")),
        "rows past max_length 0": (
            added(lambda x, y: x.float() + y.float(), keeps_rest=False),
            ("trunc_half", "trunc_half_int32", "trunc_half_nan", "n0"),
        ),
        "the tail is kept": (tail_kept, ("tail_rows_nan", "tail_rows_nan_bfloat16", "all_empty_tail", "b0_tail")),
        "the tail is left as it was": (
            with_dirty_tail(_added),
            ("tail_rows_nan", "all_empty_tail", "b0_tail", "trunc_half_int32"),
        ),
        "padding leaks": (padding_leaks(_added), (*PADDING, "tail_rows_nan")),
        "NaN made 0": (
            added(lambda x, y: (x.float() + y.float()).nan_to_num(0)),
            ("nan_in_one_row", "pos_inf_cell", "neg_inf_row"),
        ),
    },
}
