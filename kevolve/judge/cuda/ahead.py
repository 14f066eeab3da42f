"""Compiles an operator's baselines side by side before they are surveyed, each process a share of them.

One after the other they take minutes. What remains of these processes is what the compiler keeps on disk; whatever goes
wrong in one is found by the survey. Run as `python -m kevolve.judge.cuda.ahead '{json}'` by `compile_ahead`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kevolve.judge.sandbox.confinement import PR_SET_PDEATHSIG, prctl
from kevolve.operators.custom.given import give, given
from kevolve.operators.operator import Operator

_MOST_PROCESSES = 8
_CORES_EACH = 2
_SECONDS = 600.0  # for all; what is not compiled by then is compiled by the survey


def processes_here(memory_bytes: int) -> int:
    """How many may compile at once: each wants cores, and device memory for a large workload."""
    return min(_MOST_PROCESSES, len(os.sched_getaffinity(0)) // _CORES_EACH, memory_bytes >> 34)


def compile_ahead(
    operator: Operator,
    baselines: Sequence[str],
    processes: int,
    environment: Mapping[str, str],
    device: str,
    memory: str = "cuda",
    seconds: float = _SECONDS,
) -> None:
    """Call every baseline on every workload that is surveyed, in that many processes; nothing for fewer than two."""
    workloads = [workload.name for workload in operator.workloads if workload.role != "adversarial"]
    wanted = [[workload, baseline] for workload in workloads for baseline in baselines]
    processes = min(processes, len(wanted))
    if processes < 2:
        return
    started = [
        _start(operator.name, wanted[number::processes], environment, device, memory) for number in range(processes)
    ]
    deadline = time.monotonic() + seconds
    try:
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
    finally:
        for process in started:
            process.kill()
            process.wait()


def _start(
    operator: str, share: list[list[str]], environment: Mapping[str, str], device: str, memory: str
) -> subprocess.Popen[bytes]:
    definitions = os.memfd_create("kevolve-definitions")
    with os.fdopen(definitions, "wb") as file:
        file.write(pickle.dumps(given([operator])))
        file.flush()
        file.seek(0)
        settings = {
            "definitions": definitions,
            "operator": operator,
            "share": share,
            "device": device,
            "memory": memory,
        }
        # One of its own threads is enough: there are as many of these processes as cores allow.
        environment = {**os.environ, **environment, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "kevolve.judge.cuda.ahead", json.dumps(settings)], env=environment,
            pass_fds=(definitions,), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def main(settings: Mapping[str, Any]) -> None:
    """Call each of a share twice, on different content: sizes that change are compiled for, too."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(settings["definitions"], "rb") as file:
        give(pickle.load(file))
    import torch
    import torch._inductor.config as compiler

    from kevolve.judge.streams import Streams
    from kevolve.operators.registry import load_operator

    compiler.autotune_local_cache = False  # which blocks are fastest is for a process to find that has the device alone
    operator = load_operator(settings["operator"], settings["device"])
    workloads = {workload.name: workload for workload in operator.workloads}
    baselines = operator.baselines(settings["device"])
    for workload, baseline in settings["share"]:
        for number in range(2):
            with contextlib.suppress(Exception), torch.no_grad():
                streams = Streams(b"", number)
                inputs = operator.make_inputs(workloads[workload], streams.next_call(), settings["memory"])
                baselines[baseline](inputs)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
