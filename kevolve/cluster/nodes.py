"""Nodes: the machines of the Ray cluster that this process is connected to."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kevolve.errors import UsageError

_LABEL = re.compile(r"(?P<key>[A-Za-z0-9][A-Za-z0-9._/-]*)=(?P<value>[A-Za-z0-9][A-Za-z0-9._-]*)")
_HIDDEN = "ray.io/node-id"  # a label that every node has, and of no use to a reader


LOOK_SECONDS = 15.0  # between looks at whether a node that owes an answer is alive


class NodeLost(Exception):
    """A node died that may have had a task to answer."""


@dataclass(frozen=True)
class Node:
    """A node. `cores` are those that Ray may use there; `is_own`: the driver is connected through it."""

    id: str
    address: str
    host: str
    cores: float
    labels: Mapping[str, str]
    is_own: bool
    is_alive: bool

    def __str__(self) -> str:
        return f"{self.host} ({self.address}, node {self.id[:8]})"

    def has(self, wanted: Mapping[str, str]) -> bool:
        """Does it carry all of these labels?"""
        return wanted.items() <= self.labels.items()

    def pin(self) -> dict[str, Any]:
        """Ray options for a task or an actor that runs on this node or not at all."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(self.id, soft=False)}


def alive_nodes() -> list[Node]:
    """The living nodes."""
    return [node for node in all_nodes() if node.is_alive]


def all_nodes() -> list[Node]:
    """Every node, also those lost; first those that the driver is not on: its own work would disturb a timing."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    nodes = [
        Node(
            node["NodeID"],
            node["NodeManagerAddress"],
            node["NodeManagerHostname"],
            node["Resources"].get("CPU", 0.0),
            {key: value for key, value in node["Labels"].items() if key != _HIDDEN},
            node["NodeID"] == own,
            node["Alive"],
        )
        for node in ray.nodes()  # type: ignore[no-untyped-call]
    ]
    return sorted(nodes, key=lambda node: (node.is_own, node.address, node.id))


async def nodes_within(seconds: float) -> list[Node] | None:
    """Every node, or None if the cluster does not say so in time: without its head, Ray would ask for ever."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Node] | None] = loop.create_future()

    def tell(found: list[Node] | None) -> None:
        if not answer.done():
            answer.set_result(found)

    def ask() -> None:
        try:
            found: list[Node] | None = all_nodes()
        except Exception:  # of many kinds: whatever it is, there is no answer
            found = None
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, found)

    # A thread that nobody waits for: one of asyncio's would keep the process from ending.
    threading.Thread(target=ask, daemon=True).start()
    try:
        return await asyncio.wait_for(answer, seconds)
    except TimeoutError:
        return None


async def answer_of(reference: Any, nodes: Collection[str]) -> Any:
    """A task's answer. Raises NodeLost when one of these nodes (ids) has died and there is still none.

    Ray tells at once when a task's process is gone, but may take minutes when its whole machine is.
    """

    async def answer() -> Any:
        return await reference

    waiting = asyncio.create_task(answer())
    try:
        while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
            found = await nodes_within(LOOK_SECONDS)
            dead = {node.id: node for node in found or () if not node.is_alive}
            lost = [str(dead[id]) for id in nodes if id in dead]
            if lost:
                raise NodeLost(f"{', '.join(lost)} was lost")
        return waiting.result()
    finally:
        waiting.cancel()


def selector(labels: str | None) -> dict[str, str]:
    """`pool=h200,zone=a` as Ray takes it. UsageError if it is something else."""
    pairs: dict[str, str] = {}
    for part in labels.split(",") if labels else ():
        match = _LABEL.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"{part.strip() or 'an empty part'} is no label."
                " Type cluster.labels=KEY=VALUE, several with commas between: cluster.labels=pool=h200,zone=a"
            )
        pairs[match["key"]] = match["value"]
    return pairs


def listing(nodes: Iterable[Node]) -> str:
    """A line per node with its labels and cores."""
    return "\n".join(f"  {node}: {_labels(node)}, {node.cores:g} cores" for node in nodes)


def _labels(node: Node) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(node.labels.items())) or "no labels"
