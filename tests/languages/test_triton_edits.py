"""Edits of Triton programs keep them programs: whatever is done to a starting program still passes the screen."""

from __future__ import annotations

import random

import pytest

from kevolve.languages.triton.edits import EDITS, Source
from kevolve.languages.triton.screen import check
from kevolve.operators.registry import operator_names
from kevolve.paths import seeds_dir


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
def test_every_edit_finds_a_site_and_changes_the_text(name):
    source = Source((seeds_dir() / "jagged_softmax" / "plain.py").read_text())
    edit = EDITS[name]
    values = {parameter: domain[1] for parameter, domain in edit.domains.items()}
    for site in edit.candidates(source):
        changed = edit.apply(source, site, values)
        assert changed is not None
        assert changed != source.text


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
