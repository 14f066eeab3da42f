"""Choosing an edit: in proportion to what it brought so far, with a share kept for exploring."""

from __future__ import annotations

import random
from collections.abc import Mapping

from kevolve.propose.proposer import Credit

EXPLORATION = 0.25  # share of choices by first weights alone, whatever was learned
BELIEF = 2.0  # tries that an edit's first weight counts for
HOPE = 0.5  # gain (log2) that an edit is expected to bring before it was tried
LEAST = 0.05  # of HOPE that a harmful edit keeps


def choose(names: list[str], weights: list[float], generator: random.Random, credit: Mapping[str, Credit]) -> str:
    """One of `names` by probability matching: first weight times expected gain, with a share for exploring."""
    hopes = []
    for name in names:
        found = credit.get(name, Credit(0, 0.0))
        mean = (BELIEF * HOPE + found.tries * found.gain) / (BELIEF + found.tries)
        hopes.append(max(mean, LEAST * HOPE))
    learned = [weight * hope for weight, hope in zip(weights, hopes, strict=True)]
    total, plain = sum(learned), sum(weights)
    shares = [
        (1 - EXPLORATION) * gained / total + EXPLORATION * weight / plain
        for gained, weight in zip(learned, weights, strict=True)
    ]
    return generator.choices(names, shares)[0]
