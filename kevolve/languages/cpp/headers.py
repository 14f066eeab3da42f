"""The folder that programs include from: kevolve.h, precompiled once per machine and compiler.

Reading it took half a second for each of a program's binaries, more than all else for a plain one.
The precompiled header is made by us from our own text, never by or from a program. Where it cannot be made, or does not
fit the compiler, g++ reads the header itself.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kevolve.cache import cache_dir

HEADER = Path(__file__).parent / "include" / "kevolve.h"
_SECONDS = 60.0


@cache
def include_folder(toolchain: str, flags: tuple[str, ...]) -> Path:
    """A folder with kevolve.h for compilations by `toolchain` with `flags`."""
    facts = "\0".join([toolchain, *flags, HEADER.read_text()])
    folder = cache_dir() / f"headers-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"
    try:
        return folder if folder.is_dir() else _made(folder, flags)
    except (OSError, subprocess.SubprocessError):
        return HEADER.parent


def _made(folder: Path, flags: Sequence[str]) -> Path:
    """Built beside and moved there in one step: another process may be doing the same."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headers-", dir=folder.parent) as temporary:
        made = Path(temporary, folder.name)
        made.mkdir()
        header = shutil.copyfile(HEADER, made / HEADER.name)
        compiling = [flag for flag in flags if flag != "-shared" and not flag.startswith("-Wl,")]  # else g++ links
        command = ["g++", "-w", "-x", "c++-header", *compiling, str(header), "-o", f"{header}.gch"]
        subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder
