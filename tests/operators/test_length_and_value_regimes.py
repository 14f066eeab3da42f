"""Inputs are what their regimes say, fresh at every call, repeatable from a seed, and fit the memory set aside."""

from __future__ import annotations

import itertools

import pytest
import torch
from operator_cases import OPERATORS, drawn, names, number_inputs, operator_named

from kevolve.operators.inputs import LENGTHS, VALUES, Rows, mixed_copy, shifted_copy
from kevolve.operators.operator import Inputs, Workload


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lengths(regime: str, batch: int = 2000, longest: int = 1000) -> torch.Tensor:
    return LENGTHS[regime].draw(batch, longest, generator())


def values(regime: str, rows: int = 400, dim: int = 16) -> torch.Tensor:
    out = torch.empty(rows, dim)
    VALUES[regime].fill(out, Rows(((0, 50), (50, 50), (50, 300)), rows), generator())
    return out


@pytest.mark.parametrize("regime", LENGTHS)
@pytest.mark.parametrize(("batch", "longest"), [(0, 9), (1, 9), (7, 0), (7, 1), (40, 64), (300, 5), (3, 5000)])
def test_lengths_are_counts_within_their_bound(regime, batch, longest):
    for seed in range(5):
        drawn_lengths = LENGTHS[regime].draw(batch, longest, generator(seed))
        assert drawn_lengths.shape == (batch,)
        assert drawn_lengths.dtype == torch.int64
        assert bool((drawn_lengths >= 0).all())
        assert int(drawn_lengths.sum()) <= LENGTHS[regime].bound(batch, longest)
        if not regime.startswith("truncated"):
            assert int(drawn_lengths.max() if batch else 0) <= longest


@pytest.mark.parametrize(
    ("regime", "least", "most", "fill"),
    [
        ("uniform", 0, 1000, 0.5),
        ("tritonbench_10", 600, 1000, 0.8),  # the spans and fills that operators.md 2.3 derives
        ("tritonbench_50", 200, 800, 0.5),
        ("tritonbench_90", 1, 399, 0.2),
        ("exponential", 1, 1000, 0.34),
        ("full", 1000, 1000, 1.0),
        ("truncated", 0, 2001, 1.0),
        ("all_one", 1, 1, 0.001),
        ("all_empty", 0, 0, 0.0),
    ],
)
def test_regimes_have_the_published_span_and_fill(regime, least, most, fill):
    drawn_lengths = lengths(regime)
    assert least <= int(drawn_lengths.min()) <= least + 5
    assert most - 5 <= int(drawn_lengths.max()) <= most
    assert float(drawn_lengths.double().mean()) / 1000 == pytest.approx(fill, abs=0.03)


def test_one_giant_holds_nine_tenths_of_all_cells():
    drawn_lengths = lengths("one_giant", batch=64, longest=16384)
    assert int(drawn_lengths.max()) == 16384
    assert 16384 / int(drawn_lengths.sum()) == pytest.approx(0.9, abs=0.03)


def test_mostly_empty_is_three_fifths_empty_and_exponential_has_a_longest_row():
    assert int((lengths("mostly_empty") == 0).sum()) == 1200
    assert int(lengths("exponential", batch=3).max()) == 1000
    assert float(lengths("lognormal").double().median()) == pytest.approx(250, rel=0.15)


def test_emptied_regimes_empty_exactly_the_rows_they_say():
    for regime, empty in (("empty_first", {0, 1, 2}), ("empty_last", {6, 7, 8}), ("empty_run", {3, 4, 5})):
        drawn_lengths = lengths(regime, batch=9).tolist()
        assert {b for b, length in enumerate(drawn_lengths) if length == 0} == empty


def test_tile_regimes_go_round_tile_edges():
    assert lengths("tile", batch=8, longest=64).tolist() == [4, 8, 16, 32, 64, 4, 8, 16]
    assert lengths("tile_plus_minus", batch=6, longest=17).tolist() == [3, 5, 7, 9, 15, 17]


def test_values_are_what_their_regime_says():
    assert abs(float(values("normal").mean())) < 0.05
    assert float(values("shifted").mean()) == pytest.approx(3, abs=0.05)
    assert float(values("uniform").abs().max()) <= 1
    assert values("integers").unique().tolist() == list(range(-8, 9))
    assert bool((values("ones") == 1).all())
    assert bool((values("all_negative").exp() == 0).all())
    assert float(values("small").std()) == pytest.approx(1e-3, rel=0.1)
    assert float(values("offset").mean()) == pytest.approx(1e4, rel=1e-4)
    assert float(values("offset").std()) == pytest.approx(1, rel=0.1)
    assert float(values("large").std()) == pytest.approx(1e4, rel=0.1)
    assert float(values("wide").abs().max() / values("wide").abs().median()) > 1e3
    assert float((values("neg_inf_cells") == -torch.inf).float().mean()) == pytest.approx(0.1, abs=0.02)


def test_cancellation_sums_far_below_what_is_summed():
    drawn_values = values("cancellation")
    assert float(drawn_values.double().sum(dim=0).abs().max()) < 1e-4 * float(drawn_values.abs().sum(dim=0).min())


def test_special_rows_are_where_they_belong_and_nowhere_else():
    nan, pos = values("nan_row").isnan(), values("pos_inf_cell") == torch.inf
    assert nan.nonzero()[:, 0].unique().tolist() == pos.nonzero()[:, 0].unique().tolist() == [175]
    assert nan[175].tolist() == [True, False] * 8
    negative = values("neg_inf_row") == -torch.inf
    assert bool(negative[50:300].all())
    assert int(negative.sum()) == 250 * 16
    unread = values("nan_unread").isnan()
    assert bool(unread[300:].all())
    assert int(unread.sum()) == 100 * 16
    assert torch.equal(values("inf_unread") == torch.inf, unread)


def test_odd_bits_hold_what_only_a_copy_keeps():
    odd = values("odd_bits")
    nans = odd[odd.isnan()].view(torch.int32)
    assert len(nans.unique()) > 1000, "each NaN carries its own number"
    assert bool((nans & 0x00400000).bool().all()), "signalling NaNs do not survive a load on every machine"
    assert 0 < int((nans < 0).sum()) < len(nans)
    assert int(((odd == 0) & odd.signbit()).sum()) > 100
    assert int(((odd != 0) & (odd.abs() < torch.finfo(torch.float32).tiny)).sum()) > 100


@pytest.mark.parametrize("operator", ["dense_to_jagged", "jagged_dense_elementwise_add"])
def test_padding_is_poisoned_and_nothing_else(operator):
    _, _, inputs, expected = drawn(operator, "padding_nan")
    for b, length in enumerate(inputs.offsets.diff().tolist()):
        assert bool(inputs.dense[b, length:].isnan().all())
        assert not bool(inputs.dense[b, :length].isnan().any())
    assert bool(expected["out"].isfinite().all())


def test_values_past_max_length_are_poisoned_only_where_they_do_not_count():
    _, _, added, _ = drawn("jagged_dense_elementwise_add", "trunc_half_nan")
    assert not bool(added.values[: int(added.offsets[-1])].isnan().any())
    assert bool(added.values[int(added.offsets[-1]) :].isnan().all())
    _, _, multiplied, _ = drawn("jagged_dense_bmm", "trunc_half_nan")
    assert bool(multiplied.values[multiplied.max_length].isnan().all()), "the first entry is too long"


def test_matrices_of_empty_entries_are_poisoned_and_no_others():
    _, _, inputs, expected = drawn("jagged_dense_bmm", "empty_rows_nan")
    empty = inputs.offsets.diff() == 0
    assert bool(inputs.matrices[empty].isnan().all())
    assert not bool(inputs.matrices[~empty].isnan().any())
    assert bool(expected["out"].isfinite().all())


@pytest.mark.parametrize("operator", OPERATORS)
def test_inputs_fit_capacity_and_have_the_workloads_types_and_layout(operator):
    for name in names(operator, "search", "holdout", "adversarial"):
        op, workload, inputs, expected = drawn(operator, name)
        capacity = op.capacity(workload)
        assert set(capacity) == {*number_inputs(operator), "offsets", "out"}
        for argument in number_inputs(operator):
            tensor = inputs.tensors[argument]
            assert tensor.shape == op.shapes(inputs.scalars)[argument]
            assert tensor.dtype == getattr(torch, workload.dtype)
            assert tensor.numel() <= capacity[argument]
        assert inputs.offsets.dtype == getattr(torch, workload.index_dtype)
        assert inputs.offsets.numel() == capacity["offsets"] == inputs.batch + 1
        assert int(inputs.offsets[0]) == 0
        assert int(inputs.offsets[-1]) + LENGTHS[workload.lengths].tail == inputs.total
        assert expected["out"].numel() <= capacity["out"]
        assert tuple(expected["out"].shape) == op.output_shapes(inputs)["out"]


def test_layouts_are_seen_by_who_looks():
    _, _, strided, _ = drawn("jagged_sum", "noncontiguous")
    assert strided.values.stride(-1) == 2
    assert strided.offsets.stride() == (2,)
    _, _, misaligned, _ = drawn("jagged_sum", "misaligned_base")
    assert misaligned.values.is_contiguous()
    assert misaligned.values.storage_offset() == misaligned.offsets.storage_offset() == 1


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_call_draws_fresh_content_and_a_seed_repeats_it(operator):
    op, workload, first, _ = drawn(operator, "int64_offsets")
    rng = generator(1)
    again, fresh = op.make_inputs(workload, rng), op.make_inputs(workload, rng)
    assert torch.equal(first.offsets, again.offsets)
    for argument in number_inputs(operator):
        one, two, three = (inputs.tensors[argument] for inputs in (first, again, fresh))
        assert torch.equal(one, two)
        shared = min(len(one), len(three))
        assert not torch.equal(one[:shared], three[:shared])
    assert not torch.equal(first.offsets, fresh.offsets)


def flat_buffers(capacity: dict[str, int], inputs: Inputs) -> dict[str, torch.Tensor]:
    return {name: torch.empty(capacity[name], dtype=tensor.dtype) for name, tensor in inputs.tensors.items()}


@pytest.mark.parametrize("operator", OPERATORS)
def test_refreshed_inputs_are_new_valid_and_in_the_given_memory(operator):
    for name in ("small", "bf16_normal", "tail_rows_nan", "noncontiguous", "b0", "all_empty", "one_giant_row"):
        op, workload, inputs, _ = drawn(operator, name)
        before = {argument: inputs.tensors[argument].clone() for argument in number_inputs(operator)}
        buffers = flat_buffers(op.capacity(workload), inputs)
        rng = generator(5)
        for into in (None, buffers, buffers):
            fresh = op.refresh(inputs, workload, rng, into)
            assert fresh.offsets.dtype == inputs.offsets.dtype
            assert int(fresh.offsets[-1]) + LENGTHS[workload.lengths].tail == fresh.total
            right = {"out": op.oracle(fresh)["out"].to(getattr(torch, workload.dtype))}
            assert op.check(workload, right, op.oracle(fresh), fresh) is None
            for argument, drawn_before in before.items():
                tensor, kept = fresh.tensors[argument], inputs.tensors[argument]
                assert tensor.dtype == kept.dtype
                assert tensor.shape == op.shapes(fresh.scalars)[argument]
                assert torch.equal(kept.nan_to_num(), drawn_before.nan_to_num()), "the drawn inputs must stay"
                if into is not None and tensor.numel():
                    assert tensor.data_ptr() == buffers[argument].data_ptr()
            if into is not None:
                assert fresh.offsets.data_ptr() == buffers["offsets"].data_ptr()


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_answer_to_the_last_call_is_wrong_for_the_refreshed_one(operator):
    for name in names(operator, "search"):
        op, workload, inputs, expected = drawn(operator, name)
        rng = generator(7)
        for _ in range(2):
            fresh = op.refresh(inputs, workload, rng)
            stale = torch.zeros(op.output_shapes(fresh)["out"], dtype=getattr(torch, workload.dtype))
            rows = min(len(stale), len(expected["out"]))
            stale[:rows] = expected["out"][:rows]
            assert op.check(workload, {"out": stale}, op.oracle(fresh), fresh) is not None


def test_an_operator_without_its_own_refresh_gets_fresh_inputs_in_the_given_memory():
    from kevolve.operators.operator import Operator

    op, workload, inputs, _ = drawn("jagged_sum", "int64_offsets")
    buffers = flat_buffers(op.capacity(workload), inputs)
    fresh = Operator.refresh(op, inputs, workload, generator(1), buffers)
    assert fresh.values.data_ptr() == buffers["values"].data_ptr()
    assert torch.equal(fresh.values, inputs.values)


@pytest.mark.parametrize("start", [0, 3, 4])
def test_a_shifted_copy_goes_round_its_source(start):
    source = torch.arange(5)
    target = torch.empty(13, dtype=torch.int64)
    shifted_copy(source, target, start)
    assert target.tolist() == [(start + i) % 5 for i in range(13)]
    assert shifted_copy(source, torch.empty(0, dtype=torch.int64), start).tolist() == []


@pytest.mark.parametrize("regime", [name for name, regime in VALUES.items() if regime.free_bits])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mixed_values_stay_in_their_regime_and_share_nothing_with_their_source(regime, dtype):
    drawn = torch.empty(4000, 16)
    VALUES[regime].fill(drawn, Rows(((0, 4000),), 4000), generator(3))
    source = drawn.to(dtype).view(-1)
    mixed = mixed_copy(source, torch.empty(100_000, dtype=dtype), (17, 40_017), VALUES[regime].free_bits)
    unmixed = shifted_copy(source, torch.empty_like(mixed), 17)
    assert mixed.isfinite().all()
    ratio = mixed.float().abs().mean() / source.float().abs().mean()
    assert 0.9 < float(ratio) < 1.1
    if VALUES[regime].free_bits >> 8 * (4 - dtype.itemsize):
        changed = (mixed != unmixed).float().mean()
        assert float(changed) > 0.4
        assert abs(float(mixed.double().sum() - unmixed.double().sum())) > 0


def test_a_mixed_copy_depends_on_both_of_its_starts():
    source = torch.randn(1000, generator=generator(1))
    made = [mixed_copy(source, torch.empty(70_000), starts, 0x807F_FFFF) for starts in ((1, 5), (1, 6), (2, 5), (2, 6))]
    for one, other in itertools.combinations(made, 2):
        assert float((one == other).float().mean()) < 0.01


@pytest.mark.parametrize("operator", OPERATORS)
def test_workloads_keep_their_memory_modest(operator):
    op = operator_named(operator)
    assert all(isinstance(w, Workload) for w in op.workloads)
    for workload in op.workloads:
        size = 2 if workload.dtype == "bfloat16" else 4
        assert max(op.capacity(workload).values()) * size <= 64 << 20, workload.name
