"""Starting programs that torch.compile wrote: its kernels for an operator's compiled baselines, each as a program.

A search that starts from them starts where torch.compile is, and its edits apply to their block sizes and warps. What
the generator leaves to a library (a matrix product, embedding_bag) stands in no program: then there is none, and a
reason.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from kevolve.cache import cache_dir, remember
from kevolve.operators.registry import load_operator

_SECONDS = 300.0


@cache
def programs_of(operator: str) -> tuple[dict[str, str], dict[str, str]]:
    """Sources by the baseline's name, and by name why there is none.

    Takes some ten seconds and no device the first time, and is remembered in the cache.
    """
    ours = sorted(Path(__file__).parent.glob("*.py"))
    facts = [version("torch"), load_operator(operator, "cuda").version, *(path.read_text() for path in ours)]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    file = cache_dir() / f"inductor-{operator}-{digest}.json"
    try:
        told = json.loads(file.read_text())
    except (OSError, ValueError):
        told = _generated(operator)
        if told["programs"]:
            remember(file, json.dumps(told).encode())
    return told["programs"], told["failures"]


def _generated(operator: str) -> dict[str, dict[str, str]]:
    command = [sys.executable, "-m", f"{__name__}.generating", operator]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return {"programs": {}, "failures": {"compiled": f"PyTorch's generator took more than {_SECONDS:.0f} s"}}
    try:
        told: dict[str, dict[str, str]] = json.loads(ended.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = ended.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        return {"programs": {}, "failures": {"compiled": f"PyTorch's generator ended: {last[0][:300]}"}}
    return told
