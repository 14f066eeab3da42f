"""Policies by name. A new policy is one file beside this one and one line below."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kevolve.errors import UsageError, nearest

if TYPE_CHECKING:
    from kevolve.config import PolicyConfig
    from kevolve.search.policies.policy import Policy

_POLICIES = {"islands": "kevolve.search.policies.islands:IslandPolicy"}


def policy_names() -> list[str]:
    """Every name that `policy=` accepts."""
    return sorted(_POLICIES)


def policy(config: PolicyConfig, identity: str) -> Policy:
    """The policy called `config.name`. Equal `identity` (run seed, search and island) makes equal random choices."""
    if config.name not in _POLICIES:
        known = ", ".join(policy_names())
        raise UsageError(f"policy={config.name}: no such policy.{nearest(config.name, _POLICIES)} Policies: {known}.")
    module, _, name = _POLICIES[config.name].partition(":")
    made: Policy = getattr(import_module(module), name)(config, identity)
    return made
