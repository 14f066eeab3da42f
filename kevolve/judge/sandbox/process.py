"""The judge's side of the sandbox: start the fork server, spawn children and kill them."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevolve.judge.sandbox import confinement, opens, worker
from kevolve.judge.sandbox.child import PACKET, Child
from kevolve.judge.sandbox.exits import OUTPUT_BYTES, ChildEnded, ChildLate, Exit, SandboxFault
from kevolve.judge.sandbox.tiers import Tier, namespaces, python_folders, system_mounts, variables_of_its_own


@dataclass(frozen=True)
class Life:
    """What a child does on a device that is not the CPU: `child` of the file `file`, which also reads `others`.

    `nodes` are the device files that it needs, `message` is what else it is told, `peer` talks to it.
    """

    file: Path
    others: Sequence[Path]
    nodes: Sequence[str]
    message: Mapping[str, Any]
    peer: Callable[[socket.socket, int], Any]


class ForkServer:
    """A sandboxed process that forks disposable children. Everything in it ends with this object, or with its owner.

    Raises SandboxFault when the server does not start or does not answer.
    """

    def __init__(
        self,
        tier: Tier,
        load_path: Path,
        environment: Mapping[str, str],
        imports: Sequence[str] = ("torch",),
        life: Life | None = None,
    ):
        self.tier = tier
        self.life = life
        self.read = [*python_folders(), "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/sys/devices/system/cpu"]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kernel_settings = os.open("/proc/sys/kernel", os.O_PATH)
        settings = {
            "control": theirs.fileno(),
            "kernel_settings": kernel_settings,
            "confinement": confinement.__file__,
            "opens": opens.__file__,
            "load": str(load_path.resolve()),
            "life": str(life.file.resolve()) if life else "",
            "own_namespace": tier.name == "bwrap",
            "namespaces": tier.nested and life is None,
            "imports": list(imports),
        }
        command = [sys.executable, "-I", worker.__file__, json.dumps(settings)]
        variables = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", **environment}
        if tier.name == "bwrap":
            files = [confinement.__file__, opens.__file__, worker.__file__, str(load_path.resolve())]
            files += [str(path.resolve()) for path in (life.file, *life.others)] if life else []
            command = [
                tier.bwrap,
                *namespaces(),
                *system_mounts([*python_folders(), *files]),
                *(word for node in (life.nodes if life else ()) for word in ("--dev-bind", node, node)),
                *variables_of_its_own(variables),
                "--",
                *command,
            ]
        self.process = subprocess.Popen(
            command,
            env=variables,
            pass_fds=(theirs.fileno(), kernel_settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        theirs.close()
        os.close(kernel_settings)
        self.control = ours
        self.child: Any = None
        self._expect(60.0)

    def _expect(self, seconds: float) -> dict[str, Any]:
        if select.select([self.control], [], [], seconds)[0]:
            try:
                packet = self.control.recv(PACKET)
            except ConnectionResetError:  # it died with our message unread
                packet = b""
            if packet:
                answer: dict[str, Any] = json.loads(packet)
                return answer
        self.close()
        raise SandboxFault(f"the sandbox ({self.tier.name}) did not answer: {self._last_words()}")

    def _last_words(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode(errors="replace").strip()[-2000:] or "it said nothing"

    def spawn(self, inputs: int, outputs: int, sizes: tuple[int, int], memory_bytes: int, cpu_seconds: int) -> Child:
        """A fresh child that sees the memory behind the descriptors `inputs` (read-only) and `outputs`."""
        if self.child is not None:
            self.kill()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        log = os.memfd_create("program-output")
        message = {
            "op": "spawn",
            "inputs_bytes": sizes[0],
            "outputs_bytes": sizes[1],
            "landlock": self.tier.landlock,
            "seccomp": self.tier.seccomp,
            "supervised": self.tier.supervised and self.life is None,
            "read": self.read,
            "limits": {"memory_bytes": memory_bytes, "file_bytes": OUTPUT_BYTES, "cpu_seconds": cpu_seconds},
            **(self.life.message if self.life else {}),
        }
        try:
            socket.send_fds(self.control, [json.dumps(message).encode()], [theirs.fileno(), inputs, outputs, log])
        except OSError as error:
            raise SandboxFault(f"the sandbox ({self.tier.name}) is gone: {error}") from error
        theirs.close()
        child: Child = self.life.peer(ours, log) if self.life else Child(ours, log)
        self.child = child
        try:
            child.greet()
        except (ChildEnded, ChildLate) as error:
            ended = self.kill()
            raise SandboxFault(f"a sandboxed child did not start: {ended.describe()} {ended.output}") from error
        return child

    def kill(self) -> Exit:
        """End the child with everything it started, and say how it ended."""
        child, self.child = self.child, None
        if child is None:
            raise SandboxFault("there is no child to end")
        try:
            self.control.send(b'{"op": "kill"}')
        except OSError as error:
            raise SandboxFault(f"the sandbox ({self.tier.name}) is gone: {error}") from error
        answer = self._expect(30.0)
        return Exit(**answer, output=child.close())

    def alive(self) -> bool:
        """Is the server there to fork the next child?"""
        return self.process.poll() is None

    def close(self) -> None:
        """End the server and, in the bwrap tier, its whole PID namespace."""
        self.control.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
