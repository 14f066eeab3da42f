"""What went wrong in a process of Ray's, told in one line."""

from __future__ import annotations

from kevolve.search.proposing import in_one_line


def test_an_actor_that_cannot_start_says_why_and_not_only_that() -> None:
    told = (
        "The actor died because of an error raised in its creation task, ray::Island.__init__() (pid=7)\n"
        '  File "islands.py", line 15, in <module>\n'
        "ModuleNotFoundError: No module named 'moocore'\n"
    )
    assert in_one_line(RuntimeError(told)) == "ModuleNotFoundError: No module named 'moocore'"
    assert in_one_line(RuntimeError("the worker died\nof something")) == "the worker died"
