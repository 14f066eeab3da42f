"""Edits of Triton programs keep them programs: whatever is done to a starting program still passes the screen."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from kevolve.languages.triton.edits import EDITS, Source
from kevolve.languages.triton.screen import check
from kevolve.operators.registry import operator_names
from kevolve.paths import seeds_dir

# Every edit that rewrites a kernel is in one of them.
CHAINS = {
    "jagged_sum": "guard@sum_segment, order@sum_segment way=reversed, offset32@sum_segment, assume@sum_segment",
    "jagged_softmax": "hold@softmax_segment rows=64 tiers=2, order@softmax_segment way=reversed,"
    " online_softmax@softmax_segment, guard@softmax_segment, persistent@softmax_segment programs=132,"
    " offset32@softmax_segment, block@ROWS size=16",
    "jagged_layer_norm": "hold@normalise_segment rows=256 tiers=1, one_pass_variance@normalise_segment,"
    " backwards@loop.1, block@BLOCK size=64",
    "dense_to_jagged": "spread@unpad_segment parts=2, order@unpad_segment way=last_first, block@ROWS size=8",
    "jagged_dense_bmm": "order@multiply_segment way=reversed, persistent@multiply_segment programs=132,"
    " offset32@multiply_segment, precision@dot.0 way=tf32x3",
}


def after(operator: str, chain: str) -> str:
    """What a chain of edits, `edit@site name=value ..., ...`, makes of an operator's plain program."""
    text = (seeds_dir() / operator / "plain.py").read_text()
    for link in chain.split(", "):
        place, *settings = link.split()
        name, site = place.split("@")
        pairs = [setting.split("=") for setting in settings]
        values = {key: int(value) if value.isdigit() else value for key, value in pairs}
        changed = EDITS[name].apply(Source(text), site, values)
        assert changed is not None, link
        text = changed
    return text


@pytest.mark.parametrize("operator", operator_names())
def test_any_sequence_of_edits_leaves_a_program(operator):
    base = (seeds_dir() / operator / "plain.py").read_text()
    generator = random.Random(0)
    for _ in range(10):
        text = base
        for edit in generator.choices(list(EDITS.values()), k=5):
            source = Source(text)
            values = {name: generator.choice(domain) for name, domain in edit.domains.items()}
            for site in generator.sample(list(edit.candidates(source)), k=1) if edit.candidates(source) else ():
                text = edit.apply(source, site, values) or text
        assert check(text, operator) == ""
        assert not Source(text).broken


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_changes_one_of_the_starting_programs(name):
    edit = EDITS[name]
    values = {parameter: domain[1] for parameter, domain in edit.domains.items()}
    sources = [Source((seeds_dir() / operator / "plain.py").read_text()) for operator in operator_names()]
    changed = [edit.apply(source, site, values) for source in sources for site in edit.candidates(source)]
    assert any(changed)
    assert not {source.text for source in sources} & set(changed)


def test_a_site_that_is_gone_is_no_error():
    source = Source((seeds_dir() / "jagged_sum" / "plain.py").read_text())
    for edit in EDITS.values():
        values = {parameter: domain[0] for parameter, domain in edit.domains.items()}
        assert edit.apply(source, "load.99", values) is None


def test_an_edit_counts_the_same_sites_after_another():
    source = Source((seeds_dir() / "jagged_softmax" / "plain.py").read_text())
    piped = EDITS["pipeline"].apply(source, "loop.1", {"count": 3})
    assert piped is not None
    assert list(Source(piped).loops) == list(source.loops)
    again = EDITS["pipeline"].apply(Source(piped), "loop.1", {"count": 4})
    assert again is not None
    assert again.count("num_stages=") == 1


def test_a_block_that_no_compiler_is_done_with_is_not_proposed():
    source = Source((seeds_dir() / "jagged_softmax" / "plain.py").read_text())
    assert EDITS["block"].apply(source, "COLUMNS", {"size": 2048}) is not None
    assert EDITS["block"].apply(source, "COLUMNS", {"size": 4096}) is None
    normalising = Source((seeds_dir() / "jagged_layer_norm" / "plain.py").read_text())
    assert EDITS["block"].apply(normalising, "BLOCK", {"size": 8192}) is not None


def test_a_segment_that_is_held_is_read_once():
    held = after("jagged_softmax", "hold@softmax_segment rows=512 tiers=1")
    short, _, long = held.partition("else:")
    assert short.count("tl.load(values") == 1
    assert long.count("tl.load(values") == 3
    assert "COLUMNS = 32" in held  # as many as a program can hold 512 rows of


def test_what_a_program_cannot_hold_is_not_proposed():
    source = Source((seeds_dir() / "jagged_softmax" / "plain.py").read_text())
    assert EDITS["hold"].apply(source, "softmax_segment", {"rows": 8192, "tiers": 1}) is None


def test_sums_that_are_carried_from_turn_to_turn_are_not_shared_out():
    source = Source((seeds_dir() / "jagged_sum" / "plain.py").read_text())
    assert EDITS["spread"].apply(source, "sum_segment", {"parts": 4}) is None
    assert EDITS["backwards"].apply(source, "loop.0", {}) is None


def test_rewritten_programs_are_right_in_the_interpreter(tmp_path):
    pytest.importorskip("triton", reason="Triton is not installed")
    named = []
    for operator, chain in CHAINS.items():
        file = tmp_path / f"{operator}.py"
        file.write_text(after(operator, chain))
        named.append(f"{operator}={file}")
    script = Path(__file__).parents[1] / "operators" / "triton_interpreter.py"
    told = subprocess.run([sys.executable, "-W", "ignore", str(script), *named], capture_output=True, text=True)
    assert told.stdout.splitlines() == [f"{name} done" for name in CHAINS], told.stdout + told.stderr
