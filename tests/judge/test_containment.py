"""What a program in the sandbox can reach: tried from inside, in every tier, as root and as an ordinary user.

The programs are loaded straight into a child, with no screen and no look at what they import.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kevolve.errors import UsageError
from kevolve.judge.judge import Judge
from kevolve.judge.lease import Survey
from kevolve.judge.sandbox import confinement
from kevolve.judge.sandbox.exits import ChildEnded, SandboxFault
from kevolve.judge.sandbox.process import ForkServer
from kevolve.judge.sandbox.tiers import TIERS, find_tier
from kevolve.judge.sandbox.worker import descendants
from kevolve.languages.cpp.build import Cpp
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.verdict import Fault, Rejected
from tests.judge.programs import program
from tests.judge.test_sandbox import Bench, compiled

OPENED, REFUSED = 1.0, 2.0
EPERM, EACCES = 1, 13
COLUMN = ("x86_64", "aarch64").index(os.uname().machine)
NEVER = confinement._numbers(confinement._ENDS, COLUMN)
NUMBERS = {**NEVER, **confinement._numbers(confinement._ALLOWED + confinement._CHECKED, COLUMN)}
NOBODY = confinement.NOBODY
VARIABLES = dict.fromkeys(("OPENAI_API_KEY", "RAY_AUTH_TOKEN", "RAY_ADDRESS", "MLFLOW_TRACKING_PASSWORD"), "secret")


@pytest.fixture(scope="module", params=TIERS)
def server(request: pytest.FixtureRequest) -> Iterator[ForkServer]:
    try:
        made = served(request.param)
    except UsageError as error:
        pytest.skip(f"this machine has no {request.param} tier: {error}")
    yield made
    made.close()


def served(name: str) -> ForkServer:
    """A fork server of this tier; UsageError where it cannot be had."""
    return ForkServer(find_tier(name), Cpp.load_path, {"OMP_NUM_THREADS": "2"}, imports=())


@pytest.fixture(params=TIERS)
def name_of_tier(request: pytest.FixtureRequest) -> str:
    if request.param in find_tier().why_not:
        pytest.skip(f"this machine has no {request.param} tier")
    return str(request.param)


@pytest.fixture
def nested() -> Iterator[ForkServer]:
    """A server whose children have nothing but namespaces of their own to hold them."""
    try:
        tier = find_tier("bwrap")
    except UsageError as error:
        pytest.skip(str(error))
    if not tier.nested:
        pytest.skip("namespaces do not nest here")
    made = ForkServer(replace(tier, landlock=False, seccomp=False), Cpp.load_path, {}, imports=())
    yield made
    made.close()


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that makes the system call that its inputs name."""
    body = """
        long a[5];
        for (int i = 0; i < 5; i++) a[i] = (long)in[i];
        errno = 0;
        out[0] = syscall(a[0], a[1], a[2], a[3], a[4]);
        out[1] = errno;
    """
    return compiled(tmp_path_factory.mktemp("caller"), body, "#include <cerrno>\n#include <unistd.h>")


def call(server: ForkServer, caller: Path, name: str, *arguments: int) -> tuple[float, float] | None:
    """(result, errno) of a system call made by a program; None if it ended the program with SIGSYS."""
    bench = Bench(server, caller)
    bench.given.tensor[:5] = 0
    for place, value in enumerate((NUMBERS[name], *arguments)):
        bench.given.tensor[place] = value
    try:
        bench.go()
    except ChildEnded:
        assert bench.end().signal == signal.SIGSYS, name
        return None
    result, error = bench.answer.tensor[:2].tolist()
    bench.end()
    return result, error


def test_what_no_honest_program_calls_ends_it_with_a_reason(server: ForkServer, caller: Path) -> None:
    assert [name for name in NEVER if call(server, caller, name) is not None] == []
    bench = Bench(server, caller)
    bench.given.tensor[0] = NUMBERS["shmget"]
    with pytest.raises(ChildEnded):
        bench.go()
    assert "share memory" in bench.end().describe()
    assert server.alive()


def test_system_calls_are_held_to_harmless_arguments(server: ForkServer, caller: Path) -> None:
    sequential, remove, pageout, set_seccomp, fork_flags, limit = 2, 9, 21, 22, 17, 4096
    assert call(server, caller, "madvise", 0, 0, sequential) == (0, 0)
    assert call(server, caller, "madvise", 0, 0, pageout) is None
    assert call(server, caller, "madvise", 0, 0, remove) is None
    assert call(server, caller, "prctl", set_seccomp) is None
    assert call(server, caller, "kill", 1, 0) is None
    assert call(server, caller, "clone", fork_flags) is None
    assert call(server, caller, "prlimit64", 0, 0, limit) == (-1, EPERM)
    assert call(server, caller, "openat", -100, 0, os.O_RDWR) == (-1, EACCES)


def test_threads_exceptions_clocks_and_big_allocations_are_let_be(server: ForkServer, tmp_path: Path) -> None:
    head = "#include <algorithm>\n#include <chrono>\n#include <stdexcept>\n#include <thread>\n#include <vector>"
    body = """
        float sum = 0;
        #pragma omp parallel for reduction(+ : sum) schedule(dynamic)
        for (long i = 0; i < count; i++) sum += in[i];
        std::vector<float> big(16 << 20, 1.0f);
        std::sort(big.begin(), big.begin() + 1000);
        std::thread([&] { big[0] = std::chrono::steady_clock::now().time_since_epoch().count() > 0; }).join();
        try { throw std::runtime_error("x"); } catch (const std::exception &) { out[1] = big[0]; }
        thread_local float mine = 3;
        out[2] = mine;
        out[0] = sum;
    """
    bench = Bench(server, compiled(tmp_path, body, head))
    bench.go()
    assert bench.answer.tensor[:3].tolist() == [120.0, 1.0, 3.0]
    bench.end()


def test_a_child_has_no_capability_and_the_judge_can_watch_it(server: ForkServer, caller: Path) -> None:
    bench = Bench(server, caller)
    proc = Path("/proc", str(bench.child.pid))
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb", *(["CapBnd"] if os.getuid() == 0 else [])):
        assert int(status[kind], 16) == 0, kind
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    limits = {line[:26].strip(): line[26:].split()[:2] for line in (proc / "limits").read_text().splitlines()}
    assert limits["Max core file size"] == ["0", "0"]
    for name in ("stat", "maps", "schedstat", f"task/{bench.child.pid}/stat"):
        assert (proc / name).read_text(), name
    bench.end()


def processes_beside(server: ForkServer, child: int) -> list[int]:
    """All processes in the PID namespace of a child; the first is the one that keeps it."""
    namespace = os.readlink(f"/proc/{child}/ns/pid")
    return sorted(pid for pid in descendants(server.process.pid) if os.readlink(f"/proc/{pid}/ns/pid") == namespace)


def test_the_kernel_ends_whatever_a_child_leaves_even_without_a_filter(nested: ForkServer, tmp_path: Path) -> None:
    head = "#include <unistd.h>\n#include <sys/ipc.h>\n#include <sys/shm.h>"
    body = """
        for (int i = 0; i < 5; i++) if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); }
        out[0] = shmget(4711, 4096, IPC_CREAT | 0600) >= 0 ? 1 : 2;
    """
    bench = Bench(nested, compiled(tmp_path, body, head))
    bench.go()
    assert bench.answer.tensor[0].item() == OPENED
    _, *inside = processes_beside(nested, bench.child.pid)
    assert len(inside) >= 6
    assert bench.end().orphans >= 5
    assert not [pid for pid in inside if Path(f"/proc/{pid}").exists()]
    bench = Bench(nested, compiled(tmp_path, "out[0] = shmget(4711, 4096, 0) >= 0 ? 1 : 2;", head))
    bench.go()
    assert bench.answer.tensor[0].item() == REFUSED
    bench.end()


def test_a_thread_bomb_is_bounded_and_the_next_child_starts(server: ForkServer, tmp_path: Path, caller: Path) -> None:
    if server.tier.name == "bwrap" and os.getuid() == 0 and confinement._kernel() < (6, 15):
        pytest.skip("this kernel cannot bound the threads of root")
    body = """
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 1 << 15);
        pthread_t thread;
        long made = 0;
        while (made < 12000 && !pthread_create(&thread, &small, [](void *) -> void * { for (;;) sleep(9); }, 0)) made++;
        out[0] = made;
    """
    bench = Bench(server, compiled(tmp_path, body, "#include <pthread.h>\n#include <unistd.h>"))
    bench.go(20)
    made = bench.answer.tensor[0].item()
    bench.end()
    assert 256 <= made < (1024 if server.tier.name == "bwrap" else 12000)
    assert call(server, caller, "getpid") is not None


def look_around(server: ForkServer, folder: Path) -> tuple[list[str], list[float]]:
    """What a program sees: the names of its variables, and whether it could open what is the user's or the judge's."""
    home = folder / server.tier.name
    (home / ".ssh").mkdir(parents=True)
    paths = [home, home / ".ssh/id_ed25519", home / "token", Path("/etc/passwd")]
    for path in paths[1:3]:
        path.write_text("secret")
    body = f"""
        for (char **e = environ; *e; e++) puts(*e);
        fflush(stdout);
        char paths[][200] = {{"", "", {", ".join(f'"{path}"' for path in paths)}}};
        sprintf(paths[0], "/proc/%d/mem", (int)in[0]);
        sprintf(paths[1], "/proc/%d/environ", (int)in[0]);
        for (int i = 0; i < {len(paths) + 2}; i++) out[i] = open(paths[i], O_RDONLY) >= 0 ? 1 : 2;
    """
    bench = Bench(server, compiled(folder, body, "#include <cstdio>\n#include <fcntl.h>\n#include <unistd.h>"))
    bench.given.tensor[0] = os.getpid()
    Path("/proc", str(bench.child.pid), "maps").read_text()  # which the judge needs
    bench.go()
    opened = bench.answer.tensor[: len(paths) + 2].tolist()
    return [line.partition("=")[0] for line in bench.end().output.splitlines()], opened


def assert_nothing_reached(variables: list[str], opened: list[float]) -> None:
    assert set(variables) <= {"PATH", "HOME", "LANG", "PWD", "OMP_NUM_THREADS", "LC_CTYPE"}
    assert "HOME" in variables
    assert set(opened) == {REFUSED}


@pytest.mark.parametrize("name", TIERS)
def test_no_secret_home_or_process_of_the_user_reaches_a_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    try:
        server = served(name)
    except UsageError as error:
        pytest.skip(str(error))
    if name == "process" and not server.tier.supervised:
        pytest.skip("this kernel cannot confine files in the process tier, which says so")
    assert_nothing_reached(*look_around(server, tmp_path))
    server.close()


def as_ordinary_user(folder: str) -> None:
    """What `look_around` finds in each tier that there is, as JSON; run in a process of its own."""
    for name in TIERS:
        try:
            server = served(name)
        except UsageError:
            continue
        if name != "process" or server.tier.supervised:
            print(json.dumps(look_around(server, Path(folder))), flush=True)
        server.close()


@pytest.mark.skipif(os.getuid() != 0, reason="the other tests show it")
def test_nor_does_it_for_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, NOBODY, NOBODY)
        code = f"from tests.judge.test_containment import as_ordinary_user; as_ordinary_user({folder!r})"
        paths = [str(Path(__file__).parents[2]), str(Path(torch.__file__).parents[1])]
        environment = {**os.environ, **VARIABLES, "HOME": folder, "TMPDIR": folder, "PYTHONPATH": ":".join(paths)}
        finished = None
        for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
            with contextlib.suppress(OSError):  # root's own, where nobody else can read it
                finished = subprocess.run(
                    [python, "-c", code], env=environment, cwd=folder, user=NOBODY, group=NOBODY, extra_groups=[],
                    capture_output=True, text=True, timeout=60,
                )  # fmt: skip
                break
    if finished is None or "No module named" in finished.stderr:
        pytest.skip("an ordinary user cannot read this installation")
    found = [json.loads(line) for line in finished.stdout.splitlines()]
    assert found, finished.stderr
    for variables, opened in found:
        assert_nothing_reached(variables, opened)


def main_process(server: ForkServer) -> int:
    """The fork server itself, above its children: in the bwrap tier, what was started is bubblewrap."""
    processes = [server.process.pid, *descendants(server.process.pid)]
    names = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in processes}
    return next(pid for pid, words in names.items() if b"-I" in words[1:2])  # parents come first; numbers start again


def test_a_killed_server_takes_its_child_along_and_is_a_fault(name_of_tier: str, tmp_path: Path) -> None:
    server = served(name_of_tier)
    bench = Bench(server, compiled(tmp_path, "*(volatile float *)out = 1; for (volatile long i = 0;; i = i + 1) {}"))
    child = bench.child.pid

    def kill() -> None:
        while bench.answer.tensor[0].item() != 1.0:
            time.sleep(0.001)
        os.kill(main_process(server), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(ChildEnded):
        bench.go(20)
    killer.join()
    with pytest.raises(SandboxFault):
        bench.end()
    server.process.wait(10)
    assert not server.alive()
    assert not os.path.exists(f"/proc/{child}/exe")
    server.close()


def test_after_a_killed_server_the_next_program_is_judged(judge: Judge, survey: Survey) -> None:
    endless = Program("jagged_sum", "cpp", program("    for (volatile int64_t i = 0;; i = i + 1) {}\n"))
    wrong = Program("jagged_sum", "cpp", program("    (void)out;\n"))
    built, built_wrong = judge.prepare(endless), judge.prepare(wrong)
    assert isinstance(built, Built)
    assert isinstance(built_wrong, Built)
    judge.measure(wrong, built_wrong, survey, seed=1)
    server = judge.servers["cpp"]

    def kill() -> None:
        while server.child is None:
            time.sleep(0.001)
        os.kill(main_process(server), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    verdict = judge.measure(endless, built, survey, seed=1).verdict
    killer.join()
    assert isinstance(verdict, Fault)
    assert verdict.kind == "sandbox"
    judgement = judge.measure(wrong, built_wrong, survey, seed=1)
    assert isinstance(judgement.verdict, Rejected)
    assert judgement.sandbox == judge.tier.name


def test_a_sandbox_weaker_than_required_is_refused_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"judge\.require=landlock refuses.*judge\.sandbox=process asks for.*Type"):
        find_tier("process", "landlock")
    assert find_tier("auto", None).name in TIERS
    monkeypatch.setattr("kevolve.judge.sandbox.tiers._probe_bwrap", lambda: ("", "no user namespaces"))
    with pytest.raises(UsageError, match=r"judge\.require=bwrap refuses.*no user namespaces.*judge\.require="):
        find_tier("auto", "bwrap")
