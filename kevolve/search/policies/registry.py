"""Policies by name. A new policy is one file beside this one and one line below.

Another package brings one under the entry point group `kevolve.policies`: a callable that takes the policy's
configuration and the identity, and gives a `Policy`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from kevolve.errors import UsageError, nearest

if TYPE_CHECKING:
    from kevolve.config import PolicyConfig
    from kevolve.search.policies.policy import Policy

GROUP = "kevolve.policies"
_HERE = "kevolve.search.policies"
_POLICIES = {
    "islands": f"{_HERE}.islands:IslandPolicy",
    "mcts": f"{_HERE}.mcts:Mcts",
    "greedy": f"{_HERE}.greedy:Greedy",
    "best_of_n": f"{_HERE}.best_of_n:BestOfN",
    "sequential": f"{_HERE}.sequential:Sequential",
    "random": f"{_HERE}.random_walk:RandomWalk",
}


def policy_names() -> list[str]:
    """Every name that `policy=` accepts, those of other packages included."""
    return sorted({*_POLICIES, *(point.name for point in entry_points(group=GROUP))})


def policy(config: PolicyConfig, identity: str) -> Policy:
    """The policy called `config.name`. Equal `identity` (run seed, search and island) makes equal random choices."""
    kinds = {point.name: point.load() for point in entry_points(group=GROUP) if point.name == config.name}
    if config.name in _POLICIES:
        module, _, name = _POLICIES[config.name].partition(":")
        kinds[config.name] = getattr(import_module(module), name)
    if config.name not in kinds:
        names = policy_names()
        raise UsageError(
            f"policy={config.name}: no such policy.{nearest(config.name, names)} Policies: {', '.join(names)}."
        )
    made: Policy = kinds[config.name](config, identity)
    return made
