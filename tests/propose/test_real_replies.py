"""What a small model really writes when nothing holds it: the parser survives it, and misses nothing that is there."""

from __future__ import annotations

import pytest
from real_replies import Kept, kept_replies, tally

from kevolve.propose.replies import Reading, Unusable

REPLIES = list(kept_replies())


def by_line(reply: Kept) -> str:
    return f"line {reply.line}"


def test_there_are_enough_and_none_brings_the_parser_down() -> None:
    found = tally()
    assert found.replies >= 200
    assert found.usable >= 20
    assert found.recovered == found.usable


@pytest.mark.parametrize("reply", [reply for reply in REPLIES if reply.label], ids=by_line)
def test_what_a_person_could_use_is_recovered(reply: Kept) -> None:
    found = reply.read()
    assert isinstance(found, Reading), found
    assert reply.is_in(found), found.source


def test_what_nobody_could_use_is_told_for_what_it_is() -> None:
    for reply in REPLIES:
        if not reply.label:
            found = reply.read()
            assert isinstance(found, Unusable), (reply.line, found)
            assert (found.outcome == "cut off") == (reply.finish == "length"), reply.line
