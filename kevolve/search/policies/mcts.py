"""Tree search: UCT over the lineage, with progressive widening.

From the starting programs down, the child is followed whose subtree has brought most for how often it was tried:
its value is the best speedup in it (log2, scaled to what the search has seen), and to that comes the bonus for
being tried little. A program is improved once more instead of followed further down while it has had fewer children
than `visits ** widening`. Rejected children are visits that brought nothing, and so make a program less worth it.
"""

from __future__ import annotations

import math
import random

from kevolve.search.policies.tree import Node, TreePolicy


class Mcts(TreePolicy):
    """Upper confidence bounds on trees."""

    def choose(self, draw: random.Random) -> Node | None:
        roots = [node for node in self.nodes.values() if node.parent is None]
        node = self._followed(roots, sum(root.visits for root in roots))
        while node.children and node.tried >= node.visits**self.config.widening:
            node = self._followed(node.children, node.visits)
        return node

    def _followed(self, nodes: list[Node], visits: int) -> Node:
        """The node with the highest upper bound; of equals the newest."""
        gains = [node.gain for node in self.nodes.values()]
        least, span = min(gains), max(gains) - min(gains) or 1.0

        def bound(node: Node) -> float:
            bonus = math.sqrt(math.log(visits) / node.visits)
            return (node.best - least) / span + self.config.exploration * bonus

        return max(reversed(nodes), key=bound)
