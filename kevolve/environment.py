"""Environments: what a judgement was made with on a device, and whether two of them are the same for its times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_ID_OF_NODE = re.compile(r", node [0-9a-f]+\)$")  # Ray gives every node another in every cluster


def lasting(environment: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What of a device's environment says something about times: the machine, but not its node's id in this session."""
    if environment is None:
        return None
    kept = dict(environment)
    if "node" in kept:
        kept["node"] = _ID_OF_NODE.sub(")", str(kept["node"]))
    return kept
