"""Annealing: walk from program to program; a slower one is accepted the less, the longer the search has gone on."""

from __future__ import annotations

import math
import random

from kevolve.search.policies.policy import Told
from kevolve.search.policies.tree import Node, TreePolicy

WARMTH = 0.5  # of a doubling that the first step may lose, by and large
COOLING = 0.97  # of the warmth is left after each verdict


class Annealing(TreePolicy):
    """One walker. Its place follows from what it was told, so a resumed run finds it where it was."""

    here: Node | None = None
    heard: int = 0

    def tell(self, told: Told) -> None:
        super().tell(told)  # keeps the tree of programs, and what edits brought
        self.heard += 1
        node = self.nodes.get(told.program)
        if node is not None and (self.here is None or self._accepts(node.gain - self.here.gain, told.program)):
            self.here = node

    def choose(self, draw: random.Random) -> Node | None:
        return self.here

    def _accepts(self, gain: float, program: str) -> bool:
        """A step that gains always; one that loses (log2) with a chance that the program's id decides."""
        warmth = WARMTH * COOLING**self.heard
        return gain >= 0 or random.Random(program).random() < math.exp(gain / warmth)
