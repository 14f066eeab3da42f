"""Ray, started or joined for one run, quietly and for this machine only unless an address says otherwise."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevolve.cluster.nodes import alive_nodes, nodes_within, selector
from kevolve.errors import UsageError

if TYPE_CHECKING:
    from kevolve.config import ClusterConfig

OBJECT_STORE_BYTES = 512 * 2**20  # programs and built binaries are small; the default takes a third of the memory
NAMESPACE = "kevolve"
KNOCK_SECONDS = 5.0
PATIENCE_SECONDS = 20.0  # with a cluster that does not answer: after 60, Ray ends the driver, and nothing is saved
VARIABLES = {
    # Ray starts workers at niceness 15: whatever else runs on the machine would win against a program being timed.
    "RAY_worker_niceness": "0",
    # What is smaller goes by message and not through the object store: a driver that touches that after its raylet has
    # died is ended without a word. Ray's own limit is 100 kB; that of a whole message is 10 MB.
    "RAY_max_direct_call_object_size": str(8 * 2**20),
}
LOCAL = "local"  # the address that stands for a Ray of our own, wherever the process runs


@contextlib.contextmanager
def cluster(config: ClusterConfig) -> Iterator[None]:
    """Ray is up inside. If the process has it up already, that one is used and left as it is."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    for variable, value in VARIABLES.items():
        os.environ.setdefault(variable, value)
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


def address_of(config: ClusterConfig) -> tuple[str, str] | None:
    """The cluster to join and the setting that says so, or None to start Ray here. A Ray job finds itself in one."""
    if config.address is not None:
        return None if config.address == LOCAL else (config.address, f"cluster.address={config.address}")
    address = os.environ.get("RAY_ADDRESS")
    return (address, f"RAY_ADDRESS={address}") if address else None


def in_a_job() -> bool:
    """Was this process started by `ray job submit`?"""
    return "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ


def cores() -> int:
    """What Ray may use of all nodes."""
    return int(sum(node.cores for node in alive_nodes()))


async def loss(config: ClusterConfig) -> str | None:
    """What of the cluster is gone that the run cannot do without, or None. What is asked of Ray then may never come."""
    nodes = await nodes_within(PATIENCE_SECONDS)
    if nodes is None:
        return "the head of the Ray cluster does not answer any more"
    alive = [node for node in nodes if node.is_alive]
    if not alive:
        return "no node of the Ray cluster is alive"
    if not any(node.is_own for node in alive):
        return "the node of the Ray cluster that the driver is connected through was lost"
    usable = [node for node in nodes if node.has(selector(config.labels))]
    if not any(node.is_alive and node.cores >= 1 for node in usable):
        labels = f" with cluster.labels={config.labels}" if config.labels else ""
        lost = ", ".join(str(node) for node in usable if not node.is_alive)
        return f"no node of the Ray cluster{labels} that has a core is left; lost: {lost}. Start one, then go on"
    return None


def is_alive() -> bool:
    """Has the cluster a node left? Where it has none, what is asked of Ray may never be answered."""
    return bool(alive_nodes())


def _connect(config: ClusterConfig) -> None:
    import ray

    # Ray prints what befalls its processes into the middle of the screen; what it means for the run is said by the run.
    ray._private.worker._worker_logs_enabled = False
    options: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR"}
    joined = address_of(config)
    if joined is not None:
        address, setting = joined
        try:
            _knock(address)
            ray.init(address=address, runtime_env={"env_vars": VARIABLES}, **options)
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UsageError(
                f"{setting}: no Ray cluster could be joined there ({reason}).\n"
                f"  Type cluster.address={LOCAL} to start Ray on this machine, or have one there: `ray start --head`.\n"
                "  A cluster with tokens wants RAY_AUTH_MODE=token and its token here, too: see cluster/README.md"
            ) from None
        return
    with _private_files():
        ray.init(
            address="local",  # in so many words, or Ray joins whatever the environment names
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
    cores = [node.cores for node in alive_nodes()]
    if max(cores, default=0) < 1:
        raise UsageError(
            f"cluster: no node of the Ray cluster offers a core (nodes here: {len(cores)}, cores: {cores}).\n"
            "  Proposing and building take one: type cluster.cpus=1 or more, or add a node with cores."
        )
