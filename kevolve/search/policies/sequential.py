"""Sequential refinement, a control: one chain, in which the newest right program is the next parent, better or not."""

from __future__ import annotations

import random

from kevolve.search.policies.tree import Node, TreePolicy


class Sequential(TreePolicy):
    """No selection but that a program is right."""

    def choose(self, draw: random.Random) -> Node | None:
        return next(reversed(self.nodes.values()))
