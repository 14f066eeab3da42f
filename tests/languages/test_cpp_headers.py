"""kevolve.h is read by every build: precompiled, and what it offers is right on every chip."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kevolve.devices.cpu import Cpu
from kevolve.languages.cpp.build import FLAGS
from kevolve.languages.cpp.headers import HEADER, include_folder

STREAMS = """
#include "kevolve.h"
#include <vector>

int main() {
    int wrong = 0;
    for (int count = 0; count < 300; count += 7) {
        for (int at = 0; at < 40; at += 3) {
            std::vector<VALUE> from(400), to(400, VALUE(-1.0f));
            for (int i = 0; i < 400; i++) from[i] = VALUE((float)(i % 100));
            for (int pass = 0; pass < 2; pass++) {
                if (pass == 0) stream_copy(&to[at], &from[5], count);
                else stream_zero(&to[at], count);
                for (int i = 0; i < 400; i++) {
                    bool inside = i >= at && i < at + count;
                    float wanted = !inside ? -1.0f : pass == 0 ? (float)from[5 + i - at] : 0.0f;
                    wrong += (float)to[i] != wanted;
                }
            }
        }
    }
    return wrong != 0;
}
"""


def test_a_build_takes_the_precompiled_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVOLVE_CACHE", str(tmp_path))
    target = Cpu().target
    folder = include_folder.__wrapped__(target.toolchain, (*FLAGS, *target.flags))
    assert (folder / "kevolve.h.gch").read_bytes()[:4] == b"gpch"
    source = tmp_path / "program.cpp"
    source.write_text('#include "kevolve.h"\nextern "C" void sum(const VALUE *x, const INDEX *o, VALUE *out) {}\n')
    strict = ["-Winvalid-pch", "-Werror", "-DVALUE=bfloat16", "-DINDEX=int32_t", f"-I{folder}"]
    subprocess.run(["g++", *FLAGS, *target.flags, *strict, str(source), "-o", str(tmp_path / "x.so")], check=True)


def test_without_a_cache_the_header_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVOLVE_CACHE", "/proc/none")
    assert include_folder.__wrapped__("g++ 0", FLAGS) == HEADER.parent


@pytest.mark.parametrize("architecture", ["native", "x86-64", "haswell"])
@pytest.mark.parametrize("value", ["float", "bfloat16"])
def test_streamed_blocks_arrive_whole_and_touch_nothing_else(tmp_path: Path, architecture: str, value: str) -> None:
    source, binary = tmp_path / "streams.cpp", tmp_path / "streams"
    source.write_text(STREAMS)
    options = ["-O2", f"-march={architecture}", f"-DVALUE={value}", "-DINDEX=int32_t", f"-I{HEADER.parent}"]
    subprocess.run(["g++", *options, str(source), "-o", str(binary)], check=True)
    assert subprocess.run([str(binary)]).returncode == 0
