"""Best of n, a control: independent drafts, never improved. Whatever a search finds beyond this, it has earned."""

from __future__ import annotations

import random

from kevolve.search.policies.tree import Node, TreePolicy


class BestOfN(TreePolicy):
    """Learns nothing but what edits brought, which every policy passes on."""

    def choose(self, draw: random.Random) -> Node | None:
        return None
