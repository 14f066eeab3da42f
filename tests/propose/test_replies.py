"""What models and people really write becomes the program they meant, or a word on why it cannot."""

from __future__ import annotations

import pytest

from kevolve.propose.replies import Reading, Unusable, read_reply

PARENT = """#include "kevolve.h"

// Plain.
extern "C" void twice(const VALUE *x, VALUE *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float value = x[i];
        out[i] = 2.0f * value;
    }
}
"""
WHOLE = PARENT.replace("// Plain.", "// Threads.").replace("    for", "    #pragma omp parallel for\n    for")
BLOCK = """<<<<<<< SEARCH
        float value = x[i];
        out[i] = 2.0f * value;
=======
        out[i] = x[i] + x[i];
>>>>>>> REPLACE"""
LOOP = "    for (int64_t i = 0; i < count; i++) {"
SAME = f"<<<<<<< SEARCH\n{LOOP}\n=======\n{LOOP}\n>>>>>>> REPLACE"
EDITED = PARENT.replace(
    "        float value = x[i];\n        out[i] = 2.0f * value;\n", "        out[i] = x[i] + x[i];\n"
)


def read(text: str, finish: str = "stop", language: str = "cpp", parent: str = PARENT) -> Reading | Unusable:
    return read_reply(text, finish, parent, language, "twice")


@pytest.mark.parametrize(
    "text",
    [
        BLOCK,
        f"Idea: one load\n\n```cpp\n{BLOCK}\n```\nThis helps because loads are slow; enjoy!",
        f"```\n{BLOCK}\n",  # a fence that nobody closes
        BLOCK.replace("\n", "\r\n"),
        BLOCK.replace("<<<<<<< SEARCH\n", "<<<<<<< SEARCH\n```cpp\n").replace("\n=======", "\n```\n======="),
        BLOCK.replace("        float", "float").replace("        out", "out"),  # no indentation
        BLOCK.replace("        float", "      float")
        .replace("        out[i] = 2", "      out[i] = 2")
        .replace("        out[i] = x", "      out[i] = x"),
        BLOCK.replace("value = x[i];", "value = x[i];  "),  # blanks at the end of a line
        BLOCK.replace("<<<<<<< SEARCH", "<<<<<<<<< ORIGINAL").replace(">>>>>>> REPLACE", ">>>>>>>>> UPDATED"),
        BLOCK.replace("2.0f * value", "2.0f*value"),
        f"<think>\n<<<<<<< SEARCH\nnothing\n</think>\n{BLOCK}",
    ],
)
def test_a_block_applies_however_it_was_dressed(text: str) -> None:
    found = read(text)
    assert isinstance(found, Reading), found
    assert found.source == EDITED


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"Sure! Here it is.\n\n```cpp\n{WHOLE}```\n\nThe loop now runs in parallel (see `omp`).",
        f"Here it is:\n{WHOLE}\nThat is all. I hope it is fast",
        f"```c++\n{WHOLE}",
        WHOLE.replace("\n", "\r\n"),
        WHOLE.replace('"kevolve.h"', "“kevolve.h”").replace('"C"', "“C”"),
        f"First the line:\n```cpp\n#pragma omp parallel for\n```\nand now all of it:\n```cpp\n{WHOLE}```",
        WHOLE.replace('#include "kevolve.h"\n\n', ""),  # put back
        WHOLE.replace('extern "C" ', ""),
        WHOLE.replace("const VALUE *x, VALUE *out", "const float *x, float *out"),
    ],
)
def test_a_whole_program_is_found_in_the_talk_and_its_fixed_parts_are_put_back(text: str) -> None:
    found = read(text)
    assert isinstance(found, Reading), found
    assert found.source.replace("\n\n", "\n") == WHOLE.replace("\n\n", "\n")


def test_a_triton_program_loses_its_talk_and_gains_its_imports() -> None:
    parent = (
        "import triton\nimport triton.language as tl\n\n\ndef twice(x, out, count):\n    run[(1,)](x, out, count)\n"
    )
    program = "@triton.jit\ndef run(x, out, count):\n    pass\n\n\ndef twice(x, out, n):\n    run[(2,)](x, out, n)\n"
    found = read(f"Of course.\n\n{program}\nI hope that this is what you want.", language="triton", parent=parent)
    assert isinstance(found, Reading), found
    assert found.source == f"import triton\nimport triton.language as tl\n{program}"


def test_a_cuda_program_loses_its_talk_and_gains_its_header() -> None:
    parent = '#include "kevolve_cuda.h"\n\n' + PARENT.partition("// Plain.\n")[2]
    program = "__global__ void run(float *x) {}\n" + parent.partition("\n\n")[2].replace("x[i];", "x[i + 1];")
    found = read(f"Of course.\n\n{program}\nI hope that this is what you want.", language="cuda", parent=parent)
    assert isinstance(found, Reading), found
    assert found.source == f'#include "kevolve_cuda.h"\n{program}'


def test_the_idea_is_kept_in_one_line() -> None:
    found = read(f"**Idea:** add instead of multiplying\nMore words.\n{BLOCK}")
    assert isinstance(found, Reading)
    assert found.idea == "add instead of multiplying"


@pytest.mark.parametrize(
    ("text", "finish", "outcome", "reason"),
    [
        ("", "stop", "empty", "empty"),
        (" \n", "stop", "empty", "empty"),
        (WHOLE, "length", "cut off", "proposer.reply_tokens"),
        (WHOLE, "content_filter", "filtered", "filtered"),
        (f"```cpp\n{PARENT}```", "stop", "equal", "shown"),
        (SAME, "stop", "equal", "shown"),
        ("I cannot do that.", "stop", "no program", "neither"),
        ("Call twice(x, out, count) and see.", "stop", "no program", "no whole function"),
        (BLOCK.replace("2.0f", "3.0f"), "stop", "no match", "from line 6:\n        float value = x[i];"),
        (BLOCK.replace("\n>>>>>>> REPLACE", ""), "stop", "no match", "block 1 is not finished"),
        (BLOCK.replace("=======\n", ""), "stop", "no match", "not finished"),
        ("<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE", "stop", "no match", "searches for nothing"),
        (f"{BLOCK}\n{BLOCK}", "stop", "no match", "block 2"),
    ],
)  # fmt: skip
def test_what_is_no_program_is_told_for_what_it_is(text: str, finish: str, outcome: str, reason: str) -> None:
    found = read(text, finish)
    assert isinstance(found, Unusable), found
    assert (found.outcome, reason in found.reason) == (outcome, True), found


def test_a_quote_that_fits_twice_is_not_guessed() -> None:
    parent = PARENT.replace("        out", "        value += 0.0f;\n        value += 0.0f;\n        out")
    found = read("<<<<<<< SEARCH\n        value += 0.0f;\n=======\n>>>>>>> REPLACE", parent=parent)
    assert isinstance(found, Unusable)
    assert "fits at lines 7, 8" in found.reason


def test_no_reply_whatever_brings_the_parser_down() -> None:
    marks = [
        "<<<<<<< SEARCH",
        "=======",
        ">>>>>>> REPLACE",
        "```",
        "```cpp",
        "twice(",
        "{",
        "}",
        "Idea:",
        "",
        "\x00",
        "é",
    ]
    state = 1
    for _ in range(3000):
        words = []
        for _ in range(9):
            state = state * 6364136223846793005 % 2**61 + 1442695040888963407 % 97
            words.append(marks[state % len(marks)])
        assert isinstance(read("\n".join(words), language=("cpp", "triton")[state % 2]), Reading | Unusable)
