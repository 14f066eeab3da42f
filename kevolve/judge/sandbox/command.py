"""A confined command: a compiler on hostile input, with what it needs to read, one folder to write and one deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kevolve.judge.sandbox import confinement, worker
from kevolve.judge.sandbox.tiers import Tier, namespaces, python_folders, system_mounts, variables_of_its_own

_FILE_BYTES = 32 << 20  # of anything that a compiler writes: a kernel is a thousand times smaller


@dataclass(frozen=True)
class Finished:
    """A confined command's end."""

    status: int
    output: str
    timed_out: bool


def run_confined(
    tier: Tier, command: Sequence[str], scratch: Path, *, read: Sequence[str], seconds: float, memory_bytes: int
) -> Finished:
    """Run a compiler on hostile input: reads the system and `read`, writes `scratch` only, no network, one deadline."""
    settings = {
        "memory_bytes": memory_bytes,
        "file_bytes": _FILE_BYTES,
        "cpu_seconds": int(seconds) + 1,
        "landlock": tier.landlock,
        "seccomp": tier.seccomp,
        "read": [
            "/usr",
            "/bin",
            "/lib",
            "/lib64",
            "/etc/ld.so.cache",
            "/etc/alternatives",
            "/proc",
            *read,
            *python_folders(),
        ],
        "write": [str(scratch), "/dev/null"],
    }
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TMPDIR": str(scratch),
        "HOME": str(scratch),
    }
    whole = [sys.executable, "-I", confinement.__file__, json.dumps(settings), "--", *command]
    if tier.name == "bwrap":
        mounts = system_mounts([*python_folders(), confinement.__file__, *read])
        whole = [
            tier.bwrap,
            *namespaces(),
            *mounts,
            "--bind",
            str(scratch),
            str(scratch),
            *variables_of_its_own(variables),
            "--",
            *whole,
        ]
    process = subprocess.Popen(
        whole,
        env=variables,
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return Finished(process.returncode, output[-20000:].decode(errors="replace"), False)
    except subprocess.TimeoutExpired:
        _kill_session(process)
        return Finished(-1, "", True)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    for pid in [process.pid, *worker.descendants(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
