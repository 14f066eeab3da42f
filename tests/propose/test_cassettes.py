"""Recorded conversations stay readable: every reply gives the program that was judged, from what its request showed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kevolve.program import Program
from kevolve.propose.replies import Reading, read_reply
from tests.cassettes import cassette

CASSETTES = sorted(cassette.FOLDER.glob("*.jsonl.xz"))
PRIVATE = re.compile(r"/(home|root|tmp|work|Users)/|sk-[A-Za-z0-9]{8}|Bearer ", re.IGNORECASE)


@pytest.mark.parametrize("path", CASSETTES, ids=lambda path: path.name.split(".")[0])
def test_every_reply_is_read_as_the_program_that_was_judged(path: Path) -> None:
    told = cassette.read(path)
    sources = {exchange.program: exchange.source for exchange in told}
    asked = [exchange for exchange in told if exchange.replies]
    assert len(asked) >= 60
    for exchange in asked:
        shown = sources[exchange.parents[0]]
        read = read_reply(exchange.replies[-1], "stop", shown, exchange.language, exchange.operator)
        assert isinstance(read, Reading), (exchange.number, read)
        program = Program(exchange.operator, exchange.language, read.source, exchange.parents)
        assert program.id == exchange.program, exchange.number
        assert all(line in exchange.request for line in shown.splitlines()), exchange.number
        assert not PRIVATE.search("\n".join((exchange.request, *exchange.replies))), exchange.number


@pytest.mark.parametrize("path", CASSETTES, ids=lambda path: path.name.split(".")[0])
def test_who_answered_had_seen_no_program_but_its_own_lineage_and_the_starting_one(path: Path) -> None:
    seen: dict[str, set[str]] = {}
    for exchange in cassette.read(path):
        known = seen.setdefault(exchange.operator, set())
        assert set(exchange.parents) <= known, exchange.number
        known.add(exchange.program)
