"""A block of calls is timed as a whole, so nobody may do several of its calls together."""

from __future__ import annotations

from collections.abc import Callable

from kevolve.verdict import Rejected, Scored, Verdict
from tests.judge.programs import HEAD

Judged = Callable[[str], Verdict]

# Arguments of a block's calls follow each other from the first page of the inputs' memory on. The first call finds
# them, does the work of all, a piece of each call's rows in turn, and the others find nothing left to do.
TOGETHER = """
#include "kevolve.h"
#include <cstring>
struct Arguments { const VALUE *values; const INDEX *offsets; VALUE *out; int64_t batch, total, dim; };
static void rows(const Arguments &a, int64_t from, int64_t to) {
    for (int64_t b = from; b < to; b++)
        for (int64_t d = 0; d < a.dim; d++) {
            float sum = 0.0f;
            for (int64_t t = a.offsets[b]; t < a.offsets[b + 1]; t++) sum += (float)a.values[t * a.dim + d];
            a.out[b * a.dim + d] = (VALUE)sum;
        }
}
"""
TOGETHER_BODY = """
    Arguments mine = {values, offsets, out, batch, total, dim};
    uint32_t bits = 0;
    if (batch && dim) memcpy(&bits, out, sizeof(VALUE));
    bool is_done = batch && dim && bits != (sizeof(VALUE) == 4 ? 0xFFFFFFFFu : 0xFFFFu);
    if (is_done) return;
    const char *page = (const char *)((uintptr_t)values & ~(uintptr_t)4095);
    const Arguments *first = nullptr;
    for (int back = 0; back < 64 && !first; back++)
        if (!memcmp(page - back * 4096, &mine, sizeof mine)) first = (const Arguments *)(page - back * 4096);
    if (!first || batch < 8) { rows(mine, 0, batch); return; }
    int calls = 1;
    while (calls < 64 && first[calls].dim == dim && first[calls].batch == batch) calls++;
    for (int64_t piece = 0; piece < 8; piece++)
        for (int call = 0; call < calls; call++) rows(first[call], batch * piece / 8, batch * (piece + 1) / 8);
"""


def test_doing_the_calls_of_a_block_together_is_seen(verdict_on: Judged) -> None:
    verdict = verdict_on(TOGETHER + HEAD.replace('#include "kevolve.h"\n', "") + TOGETHER_BODY + "}\n")
    assert isinstance(verdict, Rejected), verdict
    assert "several calls at a time" in verdict.reason or "impossibly fast" in verdict.reason


def test_one_call_after_the_other_is_all_that_is_asked(verdict_on: Judged, plain: str) -> None:
    assert isinstance(verdict_on(plain.replace("{", "{ static int64_t calls = 0; calls++;", 1)), Scored)
