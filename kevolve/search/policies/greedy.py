"""Greedy: improve the best program until `patience` children in a row bring nothing better, then the next best."""

from __future__ import annotations

import random

from kevolve.search.policies.tree import Node, TreePolicy


class Greedy(TreePolicy):
    """Best first. When nothing is left that is worth another try, a new draft."""

    def choose(self, draw: random.Random) -> Node | None:
        worth = [node for node in self.nodes.values() if node.fruitless < self.config.patience]
        return max(worth, key=lambda node: node.member.fitness, default=None)
