"""Spot checks: is one call done after the other, and all of it when it says so?

A block of calls is timed as a whole, so a program that knew the calls to come could do them together. Now and then a
block is stopped at a random moment. By then calls may be done, at most one may be under way, the outputs of all others
must be as they were, and no more of the inputs may have been read than these calls have and lies close behind them: the
kernel's page tables tell. What is seen of the outputs is compared with the same outputs after the block has ended.
"""

from __future__ import annotations

import os
from statistics import median

import torch

from kevolve.judge.call import Call, as_bytes, is_untouched
from kevolve.judge.correctness import Rejection
from kevolve.judge.page_tables import forget_reads, read_bytes
from kevolve.judge.slots import SLOTS_BYTES
from kevolve.judge.timing import Stopwatch, Trial
from kevolve.verdict import Rejected

_EARLIEST, _LATEST = 0.05, 0.95  # of the block's usual time
_READ_BESIDE_BYTES = 64 << 10  # pages that a processor looks up on speculation, and those that two calls share
_ASKED_AHEAD = 6  # of a call's bytes, one part in so many: prefetching some hundred rows goes past its end by these


def spot_check(watch: Stopwatch, trial: Trial) -> None:
    """Stop one block of the trial, which has pairs, in the middle. Raises Rejection."""
    if trial.calls < 2:
        return
    child, inputs = watch.runner.child, watch.arenas.inputs
    placed = watch.fresh(trial.workload, trial.calls)
    is_counted = forget_reads([os.getpid(), watch.baselines.child.pid, child.pid])
    mapped = read_bytes(child.pid, inputs.fd)[1]
    share = watch.streams.decisions.uniform(_EARLIEST, _LATEST)
    with watch.runner.run_until(share * median(trial.program) * trial.calls, trial.workload, placed):
        read, still_mapped = read_bytes(child.pid, inputs.fd)
        broken = [name for call in placed for name in call.broken_guards(watch.arenas)]
        seen = [{name: as_bytes(part).clone() for name, part in call.answer().items()} for call in placed]
    done = [_is_final(call, then) for call, then in zip(placed, seen, strict=True)]
    under_way = done.index(False) if False in done else len(done)
    early = [later for later in range(under_way + 1, len(placed)) if not _is_untouched(placed[later], seen[later])]
    if broken:
        raise Rejection(Rejected("timing", f"writes outside {broken[0]} on {trial.workload.name}, if only for a while"))
    if is_counted and not 0 < mapped <= still_mapped:
        raise Rejection(Rejected("timing", f"changes how its inputs are mapped on {trial.workload.name}"))
    if early:
        raise _together(trial, f"written into the outputs of call {early[0] + 1}", under_way)
    allowed = sum(_readable_bytes(call) for call in placed[: under_way + 1]) + SLOTS_BYTES + _READ_BESIDE_BYTES
    if is_counted and read > allowed:
        raise _together(
            trial, f"read {read >> 10} KiB of inputs, where its calls so far have {allowed >> 10} KiB", under_way
        )


def _together(trial: Trial, what: str, under_way: int) -> Rejection:
    return Rejection(
        Rejected(
            "timing",
            f"works on several calls at a time on {trial.workload.name}: stopped in the middle of a block, it had"
            f" {what} before call {under_way + 1} was finished",
        )
    )


def _readable_bytes(call: Call) -> int:
    """Of the pages that a call's inputs lie in, and of those behind them that it may ask for without need."""
    content = sum(region.tensor.nbytes for region in call.inputs.values())
    return content + max(content // _ASKED_AHEAD, _READ_BESIDE_BYTES) + len(call.inputs) * 2 * 4096


def _is_untouched(call: Call, then: dict[str, torch.Tensor]) -> bool:
    return all(is_untouched(content, call.poison[name]) for name, content in then.items())


def _is_final(call: Call, then: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(content, as_bytes(call.outputs[name].tensor)) for name, content in then.items())
