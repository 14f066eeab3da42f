"""Edits of CUDA C++ programs keep them programs: whatever is done to a starting program passes the screen."""

from __future__ import annotations

import random

import pytest
from cuda_programs import SEEDS, built

from kevolve.languages.cuda.canonical import canonical
from kevolve.languages.cuda.edits import EDITS, Source
from kevolve.languages.cuda.nvrtc import installation
from kevolve.languages.cuda.screen import check
from kevolve.languages.cuda.shape import shape
from kevolve.languages.language import Built
from kevolve.paths import seeds_dir


def seed(operator: str) -> str:
    return (seeds_dir() / operator / "plain.cu").read_text()


@pytest.mark.parametrize("path", sorted(seeds_dir().glob("*/*.cu")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_any_sequence_of_edits_leaves_a_program(path):
    generator, operator = random.Random(0), path.parent.name
    for _ in range(10):
        text = path.read_text()
        for edit in generator.choices(list(EDITS.values()), k=6):
            source = Source(text)
            values = {name: generator.choice(domain) for name, domain in edit.domains.items()}
            for site in generator.sample(list(edit.candidates(source)), k=1) if edit.candidates(source) else ():
                text = edit.apply(source, site, values) or text
        assert check(text, operator) == ""
        assert not Source(text).broken


@pytest.mark.parametrize("operator", SEEDS)
def test_a_program_with_every_edit_everywhere_is_built(operator, monkeypatch):
    try:
        installation()
    except OSError as error:
        pytest.skip(str(error))
    text = seed(operator)
    for name in [name for name in EDITS if name != "block"]:
        for site in EDITS[name].candidates(Source(text)):
            values = {parameter: domain[-2] for parameter, domain in EDITS[name].domains.items()}
            changed = EDITS[name].apply(Source(text), site, values)
            assert changed is not None, (name, site)
            text = changed
    program = built(text, monkeypatch, "main", "main_bfloat16", "main_float16", operator=operator)
    assert isinstance(program, Built), program


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_finds_a_site_and_changes_the_text(name):
    source, edit = Source(seed("jagged_softmax")), EDITS[name]
    assert edit.candidates(source)
    for site in edit.candidates(source):
        changed = edit.apply(source, site, {parameter: domain[1] for parameter, domain in edit.domains.items()})
        assert changed is not None
        assert changed != source.text


def test_a_site_that_is_gone_is_no_error():
    source = Source(seed("jagged_sum"))
    for edit in EDITS.values():
        values = {parameter: domain[0] for parameter, domain in edit.domains.items()}
        assert edit.apply(source, "load.99", values) is None


@pytest.mark.parametrize(
    ("name", "site", "values"),
    [
        ("load_through", "load.2", {"function": "__ldcs"}),
        ("store_through", "store.0", {"function": "__stcs"}),
        ("unroll", "loop.1", {"factor": 4}),
        ("occupancy", "softmax_segment", {"blocks": 2}),
        ("block", "ROWS", {"size": 8}),
    ],
)
def test_an_edit_finds_the_same_sites_after_itself_and_takes_another_value(name, site, values):
    source, edit = Source(seed("jagged_softmax")), EDITS[name]
    once = edit.apply(source, site, values)
    assert once is not None
    assert edit.apply(Source(once), site, values) in (None, once)
    for kind in ("loops", "loads", "stores", "bounds", "constants"):
        assert list(getattr(Source(once), kind)) == list(getattr(source, kind))
    (parameter,) = values
    other = next(value for value in edit.domains[parameter] if value != values[parameter])
    twice = edit.apply(Source(once), site, {parameter: other})
    assert twice == edit.apply(source, site, {parameter: other})


def test_more_threads_than_a_block_can_have_are_not_proposed():
    source = Source(seed("jagged_sum"))
    assert EDITS["block"].apply(source, "ROWS", {"size": 16}) is not None
    assert EDITS["block"].apply(source, "ROWS", {"size": 32}) is None


def test_programs_that_differ_in_comments_are_one_and_those_of_other_kinds_are_not():
    text = seed("jagged_sum")
    assert canonical(text) == canonical(text.replace("//", "// well,").replace("    ", "  "))
    assert canonical(text) != canonical(text.replace("ROWS = 4", "ROWS = 8"))
    assert shape(text) == shape(text.replace("sum", "total"))
    assert shape(text) != shape(seed("jagged_layer_norm"))
