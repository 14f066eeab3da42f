"""Ray: where a run's workers would live, who may talk to them, and what earlier runs have left behind."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from kevolve.config import Config
from kevolve.doctor.finding import Finding

KNOCK_SECONDS = 1.0
SOCKET_PATH = 107  # bytes that a path of a Unix socket may have
SESSION_PATH = 70  # of which Ray needs these below its temporary folder
FULL = 0.95  # of the disk, from where on Ray stores no more objects


def ray_cluster(config: Config) -> Iterator[Finding]:
    asked, variable = config.cluster.address, os.environ.get("RAY_ADDRESS")
    address = asked or variable
    where = f"cluster.address={asked}" if asked else f"RAY_ADDRESS={variable}" if variable else "cluster.address=null"
    if address == "local":
        address = None
    if not address:
        yield Finding("ray", f"{version('ray')}, started for each run on this machine ({where})")
    elif trouble := _knock(address):
        mend = "ray start --head there, or cluster.address=null" if asked else "unset RAY_ADDRESS"
        yield Finding("ray", f"{version('ray')}, {where} {trouble}", mend, needed=bool(asked))
    else:
        yield Finding("ray", f"{version('ray')}, joins {where}")
    yield _token()
    yield _temporary_folder()


def leftovers() -> Iterator[Finding]:
    """Processes of ours whose driver is gone: they hold memory and disturb every timing."""
    running = {pid: (parent, command) for pid, parent, command in processes()}
    found = {pid: command[0] for pid, (parent, command) in running.items() if parent == 1 and _is_ours(command)}
    if 1 in running and _is_python(running[1][1]):
        found = {}  # in a container whose first process is a program: its children have a driver
    if found:
        listed = ", ".join(f"{pid} ({Path(program).name})" for pid, program in found.items())
        yield Finding("left over", f"without a driver: {listed}", f"kill {' '.join(map(str, found))}")
    else:
        yield Finding("left over", "no process of an earlier run")


def _is_ours(command: list[str]) -> bool:
    """A raylet that kevolve started (on the loopback address, with its own object store), or a judge's server."""
    from kevolve.search.cluster import OBJECT_STORE_BYTES

    name = Path(command[0]).name
    if name == "raylet":
        return "--node_ip_address=127.0.0.1" in command and f"--object_store_memory={OBJECT_STORE_BYTES}" in command
    if name.startswith("ray::DeviceActor"):
        return True
    is_server = any("kevolve/judge/" in word or word.startswith("kevolve.judge.") for word in command[1:])
    return is_server and (name == "bwrap" or _is_python(command))


def _is_python(command: list[str]) -> bool:
    return Path(command[0]).name.startswith("python")


def processes() -> Iterator[tuple[int, int, list[str]]]:
    """This user's processes: number, parent's number, command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            command = folder.joinpath("cmdline").read_text().split("\0")
            parent = int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        if command[0]:
            yield int(folder.name), parent, command


def _knock(address: str) -> str:
    """Why nobody answers at `address`; empty if somebody does, or if only Ray can tell (`auto`)."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return ""
    try:
        socket.create_connection((host, int(port)), KNOCK_SECONDS).close()
    except OSError as error:
        return f"does not answer ({error.strerror or error})"
    return ""


def _token() -> Finding:
    """Whoever has Ray's token can run code as this user: where it is and who can read it, never what it is."""
    if os.environ.get("RAY_AUTH_MODE", "token").lower() == "disabled":
        mend = "unset RAY_AUTH_MODE: without tokens, whoever reaches a Ray port can run code here"
        return Finding("ray token", "switched off by RAY_AUTH_MODE", mend)
    if os.environ.get("RAY_AUTH_TOKEN"):
        return Finding("ray token", "given by RAY_AUTH_TOKEN")
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if file.exists():
        is_open = bool(file.stat().st_mode & 0o077)
        return Finding("ray token", f"{file}{', which others can read' * is_open}", f"chmod 600 {file}" * is_open)
    above = next(folder for folder in file.absolute().parents if folder.exists())
    if os.access(above, os.W_OK):
        return Finding("ray token", "none yet: the first run makes one")
    mend = 'export RAY_AUTH_TOKEN="$(openssl rand -hex 32)", or HOME=FOLDER with a folder that can be written'
    return Finding("ray token", f"{file} cannot be made: {above} cannot be written", mend, needed=True)


def _temporary_folder() -> Finding:
    folder = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    usage = shutil.disk_usage(folder)
    used = 1 - usage.free / usage.total
    sessions = len(list(folder.glob("ray/session_2*")))
    state = f"{folder}/ray, {sessions} sessions, disk {used:.0%} full"
    if len(str(folder)) > SOCKET_PATH - SESSION_PATH:
        return Finding("ray folder", f"{folder} is too long a path for Ray's sockets", "TMPDIR=/tmp", needed=True)
    full = used > FULL
    return Finding("ray folder", state, f"make room: from {FULL:.0%} on, Ray stores nothing more" if full else "")
