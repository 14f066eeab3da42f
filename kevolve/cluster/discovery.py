"""Discovery: which node of the cluster has which device?

Every node is asked once, by a task that runs there: the driver may be where there is no device, compiler or PyTorch.
A node that cannot answer is named with the reason, and nothing here waits without a deadline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

import kevolve
from kevolve.cluster.nodes import Node, alive_nodes, listing, selector
from kevolve.config import Config
from kevolve.devices.device import Device
from kevolve.devices.registry import find_devices
from kevolve.errors import UsageError
from kevolve.judge.sandbox.tiers import Tier, find_tier
from kevolve.languages.language import Target

ANSWER_SECONDS = 90.0  # for a node to say what it has: a worker has to start there, and compilers are asked


@dataclass(frozen=True)
class Offer:
    """A device on a node. `options` are what its lease asks Ray for."""

    name: str
    key: str
    target: Target
    tier: Tier
    options: dict[str, Any]
    node: Node

    def is_like(self, other: Offer) -> bool:
        """May work that was begun on the other go on here: same chip, toolchain, flags and sandbox tier?"""
        mine, theirs = (self.name, self.key, self.target, self.tier.name), (other.name, other.key, other.target)
        return mine == (*theirs, other.tier.name)


@dataclass(frozen=True)
class Report:
    """What a node says of itself. `lacks` is why it has no device; `trouble` why it cannot be used at all.

    `refusal` is all that there is to say where the sandbox that was asked for is not to be had.
    """

    node: Node
    offers: tuple[Offer, ...] = ()
    lacks: str = ""
    trouble: str = ""
    refusal: str = ""

    def __str__(self) -> str:
        offered = ", ".join(offer.key for offer in self.offers)
        return f"  {self.node}: {offered or self.trouble or _first_line(self.lacks)}"


@dataclass(frozen=True)
class Found:
    """The answer of a node, which does not know what it is called in the cluster."""

    version: str
    devices: tuple[tuple[str, str, Target, dict[str, Any]], ...]
    tier: Tier | None
    lacks: str


def find_offers(config: Config) -> dict[str, list[Offer]]:
    """Per device key, who offers what the configuration asks for. UsageError if no node does, or if one is unfit."""
    reports = survey_nodes(config, alive_nodes())
    unfit = [report for report in reports if report.trouble]
    if unfit:
        raise UsageError(
            f"cluster: {unfit[0].node} cannot be used: {unfit[0].trouble}\n"
            "  Every node needs the same Python, Ray and kevolve as the driver. Mend it, or leave the node out:"
            " cluster.labels=KEY=VALUE takes only nodes with that label."
        )
    wanted = config.device.name
    offers = [offer for report in reports for offer in report.offers if wanted in ("auto", offer.name)]
    if not offers and all(report.refusal for report in reports):
        raise UsageError(reports[0].refusal)
    if not offers:
        what = "no device" if wanted == "auto" else f"no device={wanted}"
        only = f" with cluster.labels={config.cluster.labels}" if config.cluster.labels else ""
        lines = "\n".join(map(str, reports))
        told = dict.fromkeys(report.lacks for report in reports)
        reasons = "".join(f"\n  {why}" for why in told if why.startswith(f"device={wanted} "))
        raise UsageError(
            f"device={wanted}: the Ray cluster has {what}{only}. Its nodes:\n{lines}{reasons}\n"
            "  Type device=auto to use what is there, or add a node that has one."
        )
    if wanted == "auto":  # a CPU only where the cluster has nothing else, as on one machine
        offers = [offer for offer in offers if offer.name != "cpu"] or offers
    keys = dict.fromkeys(offer.key for offer in offers)
    return {key: [offer for offer in offers if offer.key == key] for key in keys}


def survey_nodes(config: Config, alive: Sequence[Node]) -> list[Report]:
    """Ask every one of these nodes that has the labels. UsageError if none has them."""
    wanted = selector(config.cluster.labels)
    nodes = [node for node in alive if node.has(wanted)]
    if not nodes:
        raise UsageError(
            f"cluster.labels={config.cluster.labels}: no node of the Ray cluster has these labels. Its nodes:\n"
            f"{listing(alive)}\n"
            "  Type labels that one has, or start a node with them: ray start --address=... --labels KEY=VALUE"
        )
    idle = [Report(node, lacks="Ray may use no core there (num-cpus=0)") for node in nodes if node.cores < 1]
    return [*_ask([node for node in nodes if node.cores >= 1], config), *idle]


def _ask(nodes: Sequence[Node], config: Config) -> list[Report]:
    # No cores: a node at work answers, too.
    task = ray.remote(num_cpus=0, max_retries=0)(look)
    judge = config.judge
    asked = [task.options(**node.pin()).remote(config.device.name, judge.sandbox, judge.require) for node in nodes]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=ANSWER_SECONDS) if asked else ([], [])
    return [
        _report(node, reference)
        if reference in answered
        else Report(node, trouble=f"it did not say within {ANSWER_SECONDS:.0f} s what it has.")
        for node, reference in zip(nodes, asked, strict=True)
    ]


def _report(node: Node, reference: Any) -> Report:
    try:
        found: Found = ray.get(reference)
    except RayError as error:
        return Report(node, trouble=f"kevolve does not run there ({last_line(error)}).")
    if found.version != version():
        return Report(node, trouble=f"it has another kevolve ({found.version}, and here is {version()}).")
    if found.tier is None:
        return Report(node, lacks=found.lacks.partition("\n")[0], refusal=found.lacks)
    offers = [Offer(*device[:3], found.tier, device[3], node) for device in found.devices]
    return Report(node, tuple(offers), found.lacks)


def look(device_name: str, sandbox: str, require: str | None) -> Found:
    """Runs on the node: what is here?"""
    try:
        tier, lacks = find_tier(sandbox, require), ""
    except UsageError as error:
        return Found(version(), (), None, str(error))
    devices: list[Device] = []
    for name in dict.fromkeys((device_name, "auto")):
        try:
            devices += [device for device in find_devices(name) if device.key not in [kept.key for kept in devices]]
        except UsageError as error:
            lacks = lacks or str(error)
    described = tuple((device.name, device.key, device.target, device.ray_options()) for device in devices)
    return Found(version(), described, tier, lacks)


@cache
def version() -> str:
    """kevolve's version with a hash of its source: what is judged must not depend on which node judges."""
    package = Path(kevolve.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{kevolve.__version__}+{digest.hexdigest()[:8]}"


def last_line(error: BaseException) -> str:
    """Of Ray's errors from another process, the line that says what happened: it ends the traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _first_line(told: object) -> str:
    return str(told).partition("\n")[0]
