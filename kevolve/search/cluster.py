"""Ray, started or joined for one run, quietly and for this machine only unless an address says otherwise."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.errors import UsageError

if TYPE_CHECKING:
    from kevolve.config import ClusterConfig

OBJECT_STORE_BYTES = 512 * 2**20  # programs and built binaries are small; the default takes a third of the memory
NAMESPACE = "kevolve"
KNOCK_SECONDS = 5.0


@contextlib.contextmanager
def cluster(config: ClusterConfig) -> Iterator[None]:
    """Ray is up inside. If the process has it up already, that one is used and left as it is."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    # Ray starts workers at niceness 15: whatever else runs on the machine would win against a program being timed.
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    if ray.is_initialized():
        _check_cores()
        yield
        return
    _connect(config)
    try:
        _check_cores()
        yield
    finally:
        ray.shutdown()


def is_alive() -> bool:
    """Has the cluster a node left? Where it has none, what is asked of Ray may never be answered."""
    import ray

    return any(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]


def _connect(config: ClusterConfig) -> None:
    import ray

    options: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR"}
    if config.address is not None:
        try:
            _knock(config.address)
            ray.init(address=config.address, **options)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UsageError(
                f"cluster.address={config.address}: no Ray cluster could be joined there ({reason}).\n"
                "  Type cluster.address=null to start Ray on this machine, or `ray start --head` to have one to join."
            ) from None
        return
    with _private_files():
        ray.init(
            num_cpus=config.cpus,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            # The loopback address: nobody else on the network can reach this cluster.
            _node_ip_address="127.0.0.1",
            **options,
        )


def _knock(address: str) -> None:
    """OSError at once if nobody listens at `host:port`: Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()


@contextlib.contextmanager
def _private_files() -> Iterator[None]:
    """Ray makes its token (`~/.ray/auth_token`: whoever reads it can run code here) under the umask as it stands."""
    token = Path.home() / ".ray" / "auth_token"
    if token.exists() and token.stat().st_mode & 0o077:
        with contextlib.suppress(PermissionError):
            token.chmod(0o600)
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _check_cores() -> None:
    """A task that asks for more than every node has waits for ever, without a word: say so at once."""
    import ray

    cores = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    if not cores or max(cores) < 1:
        raise UsageError(
            f"cluster: no node of the Ray cluster offers a core (nodes here: {len(cores)}, cores: {cores}).\n"
            "  Proposing and building take one: type cluster.cpus=1 or more, or add a node with cores."
        )
