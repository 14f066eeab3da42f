"""The sandbox holds when the screen is not there: hostile programs are loaded straight into a child, in every tier."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kevolve.errors import UsageError
from kevolve.judge.arena import Arena
from kevolve.judge.sandbox.child import Child
from kevolve.judge.sandbox.command import run_confined
from kevolve.judge.sandbox.exits import ChildEnded, ChildLate, Exit
from kevolve.judge.sandbox.process import ForkServer
from kevolve.judge.sandbox.tiers import TIERS, find_tier
from kevolve.judge.sandbox.worker import descendants
from kevolve.judge.slots import SLOTS_BYTES
from kevolve.languages.cpp.build import Cpp
from kevolve.languages.language import Built

ENTRY = 'extern "C" void f(const float *in, float *out, long count)'


@pytest.fixture(scope="module", params=TIERS)
def server(request: pytest.FixtureRequest) -> Iterator[ForkServer]:
    try:
        tier = find_tier(request.param)
    except UsageError as error:
        pytest.skip(f"this machine has no {request.param} tier: {error}")
    made = ForkServer(tier, Cpp.load_path, {"OMP_NUM_THREADS": "2"}, imports=())
    yield made
    made.close()


class Bench:
    """A child with a library loaded, and the memory that it shares with us."""

    def __init__(self, server: ForkServer, library: Path):
        self.server = server
        self.inputs = Arena(1 << 20, read_only=True, reserved=SLOTS_BYTES)
        self.outputs = Arena(1 << 20, read_only=False)
        self.given = self.inputs.place((16,), torch.float32)
        self.given.tensor.copy_(torch.arange(16.0))
        self.answer = self.outputs.place((16,), torch.float32)
        self.child: Child = server.spawn(self.inputs.fd, self.outputs.fd, (1 << 20, 1 << 20), 1 << 29, 20)
        with Built("", {"f": library.read_bytes()}, "f", {}).open("f", "f") as file:
            message = {"op": "load", "entry": "f", "arguments": 3, "calls": 1}
            assert self.child.ask(message, 10, [file.fileno()]) == {"ok": True}
        used = [self.inputs.next, self.outputs.next]
        assert self.child.ask({"op": "map", "used": used}, 10) == {"ok": True}
        places = zip(self.child.addresses, (self.given.offset, self.answer.offset), strict=True)
        numbers = [*(start + offset for start, offset in places), 16]
        self.inputs.bytes[:24].view(torch.int64).copy_(torch.tensor(numbers))

    def go(self, seconds: float = 5.0) -> None:
        self.child.go(seconds, 0, 1)

    def end(self) -> Exit:
        return self.server.kill()


def compiled(tmp_path: Path, body: str, head: str = "") -> Path:
    source, library = tmp_path / "p.cpp", tmp_path / "p.so"
    source.write_text(f"{head}\n{ENTRY} {{ {body} }}\n")
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-fopenmp", str(source), "-o", str(library)], check=True)
    return library


def ends(server: ForkServer, library: Path, seconds: float = 5.0) -> Exit:
    bench = Bench(server, library)
    with pytest.raises((ChildEnded, ChildLate)):
        bench.go(seconds)
    return bench.end()


def test_a_right_program_runs_and_its_output_is_seen(server: ForkServer, tmp_path: Path) -> None:
    bench = Bench(server, compiled(tmp_path, "for (long i = 0; i < count; i++) out[i] = 2 * in[i];"))
    window, times = bench.child.go(5, 0, 1)
    assert torch.equal(bench.answer.tensor, 2 * torch.arange(16.0))
    assert 0 < sum(times) * 1e-9 < window
    bench.end()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("#include <unistd.h>", "if (fork() == 0) { setsid(); for (;;) pause(); }"),
        ("#include <unistd.h>\n#include <sys/syscall.h>", "syscall(SYS_vfork);"),
        ("#include <unistd.h>", 'execl("/bin/true", "true", (char *)0);'),
        ("#include <sys/socket.h>", "socket(AF_INET, SOCK_STREAM, 0);"),
        ("#include <signal.h>\n#include <unistd.h>", "kill(getppid(), 9);"),
        ("#include <sys/ptrace.h>\n#include <unistd.h>", "ptrace(PTRACE_ATTACH, getppid(), 0, 0);"),
        ("#include <sched.h>", "unshare(CLONE_NEWUSER);"),
    ],
    ids=["fork", "vfork", "exec", "socket", "kill", "ptrace", "unshare"],
)
def test_forbidden_system_calls_end_the_child_and_say_so(
    server: ForkServer, tmp_path: Path, head: str, body: str
) -> None:
    ended = ends(server, compiled(tmp_path, body, head))
    assert ended.signal == signal.SIGSYS
    assert "system call" in ended.describe()
    assert ended.orphans == 0
    assert server.alive()


def test_printing_a_gigabyte_is_cut_short(server: ForkServer, tmp_path: Path) -> None:
    body = 'for (int i = 0; i < 1 << 26; i++) puts("0123456789abcdef");'
    ended = ends(server, compiled(tmp_path, body, "#include <cstdio>"), seconds=20)
    assert "printed or wrote more than" in ended.describe()
    assert len(ended.output) <= 2000


def test_an_early_clean_exit_is_not_an_answer(server: ForkServer, tmp_path: Path) -> None:
    ended = ends(server, compiled(tmp_path, "_exit(0);", "#include <unistd.h>"))
    assert "ended before it answered (exit status 0)" in ended.describe()


def test_running_out_of_memory_is_called_that(server: ForkServer, tmp_path: Path) -> None:
    body = "for (;;) { char *p = (char *)malloc(1 << 24); memset(p, 1, 1 << 24); }"
    ended = ends(server, compiled(tmp_path, body, "#include <cstdlib>\n#include <cstring>"), seconds=20)
    assert "out of memory" in ended.describe(1 << 29)


def test_files_can_neither_be_written_nor_private_ones_read(server: ForkServer, tmp_path: Path) -> None:
    if server.tier.name == "process" and not server.tier.supervised:
        pytest.skip("on this kernel the process tier does not confine files, and says so")
    secret = tmp_path / "secret"
    secret.write_text("token")
    body = f'out[0] = fopen("{secret}", "r") ? 1 : 2; out[1] = fopen("{tmp_path}/new", "w") ? 1 : 2;'
    bench = Bench(server, compiled(tmp_path, body, "#include <cstdio>"))
    bench.go()
    assert bench.answer.tensor[:2].tolist() == [2.0, 2.0]
    bench.end()


def test_the_environment_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server = ForkServer(find_tier(), Cpp.load_path, {}, imports=())
    bench = Bench(server, compiled(tmp_path, 'out[0] = getenv("OPENAI_API_KEY") ? 1 : 2;', "#include <cstdlib>"))
    bench.go()
    assert bench.answer.tensor[0].item() == 2.0
    bench.end()
    server.close()


def test_inputs_cannot_be_mapped_for_writing(server: ForkServer, tmp_path: Path) -> None:
    body = "out[0] = mprotect((void *)((long)in & ~4095L), 4096, PROT_READ | PROT_WRITE) == 0 ? 1 : 2;"
    bench = Bench(server, compiled(tmp_path, body, "#include <sys/mman.h>"))
    bench.go()
    assert bench.answer.tensor[0].item() == 2.0
    bench.end()


def test_a_background_thread_cannot_work_outside_the_window(server: ForkServer, tmp_path: Path) -> None:
    head = "#include <thread>\n#include <unistd.h>"
    body = "std::thread([=] { usleep(20000); for (long i = 0; i < count; i++) out[i] = 2 * in[i]; }).detach();"
    bench = Bench(server, compiled(tmp_path, body, head))
    bench.go()
    time.sleep(0.1)  # time in which the thread would finish, were it not stopped
    assert not torch.equal(bench.answer.tensor, 2 * torch.arange(16.0))
    bench.end()


def test_everything_ends_with_the_owner_even_when_it_is_killed() -> None:
    script = (
        "import os, sys, time\n"
        "from kevolve.judge.sandbox.process import ForkServer\n"
        "from kevolve.judge.sandbox.tiers import find_tier\n"
        "from kevolve.languages.cpp.build import Cpp\n"
        "server = ForkServer(find_tier(sys.argv[1]), Cpp.load_path, {}, imports=())\n"
        "print(server.process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    for tier in (name for name in TIERS if name not in find_tier().why_not):
        owner = subprocess.Popen([sys.executable, "-c", script, tier], stdout=subprocess.PIPE, text=True)
        assert owner.stdout is not None
        root = int(owner.stdout.readline())
        below = [root, *descendants(root)]
        owner.kill()
        owner.wait()
        deadline = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{pid}/exe") for pid in below) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not [pid for pid in below if os.path.exists(f"/proc/{pid}/exe")]


def test_a_weaker_tier_is_never_taken_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kevolve.judge.sandbox.tiers._probe_bwrap", lambda: ("", "no user namespaces"))
    with pytest.raises(UsageError, match=r"bwrap was asked for.*no user namespaces"):
        find_tier("bwrap")
    assert find_tier("auto").why_not["bwrap"] == "no user namespaces"


def test_a_compiler_sees_neither_home_nor_network(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("token")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    script = f"cat {secret} || echo hidden; echo out > {tmp_path}/escaped; echo done > here"
    finished = run_confined(find_tier(), ["/bin/sh", "-c", script], scratch, read=[], seconds=20, memory_bytes=1 << 30)
    assert "hidden" in finished.output
    assert (scratch / "here").exists()
    assert not (tmp_path / "escaped").exists()


def test_a_compiler_that_never_ends_is_ended(tmp_path: Path) -> None:
    finished = run_confined(find_tier(), ["/bin/sleep", "60"], tmp_path, read=[], seconds=1.0, memory_bytes=1 << 30)
    assert finished.timed_out
