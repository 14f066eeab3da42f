"""Random, a control: any right program may be the next parent, as likely as any other."""

from __future__ import annotations

import random

from kevolve.search.policies.tree import Node, TreePolicy


class RandomWalk(TreePolicy):
    """Growth without selection."""

    def choose(self, draw: random.Random) -> Node | None:
        return draw.choice(list(self.nodes.values()))
