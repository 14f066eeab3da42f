"""The fork server of programs on a GPU: sandboxed like the CPU's, with the GPU's device files in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kevolve.judge.cuda import beside
from kevolve.judge.cuda.peer import Peer
from kevolve.judge.cuda.waiting import compiled_wait
from kevolve.judge.sandbox.process import ForkServer, Life
from kevolve.judge.sandbox.tiers import Tier
from kevolve.languages.registry import language

_INHERITED = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")  # which GPU, and where its driver's library is


def fork_server(
    tier: Tier, language_name: str, architecture: str, environment: Mapping[str, str], workspace_bytes: int
) -> ForkServer:
    """It imports nothing: a program's child needs the driver's library only. Raises SandboxFault."""
    spoken: Any = language(language_name)
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    life = Life(
        file=Path(beside.__file__),
        others=(*spoken.beside, beside.DRIVER),
        nodes=device_files(),
        message={
            "workspace_bytes": workspace_bytes,
            "write": ["/dev/null", "/proc", *device_files()],
            "wait": compiled_wait(architecture),
        },
        peer=Peer,
    )
    return ForkServer(tier, spoken.load_path, {**inherited, **environment}, imports=(), life=life)


def device_files() -> list[str]:
    """The files in /dev that a CUDA context needs."""
    return sorted(str(path) for path in Path("/dev").glob("nvidia*") if not path.is_dir())
