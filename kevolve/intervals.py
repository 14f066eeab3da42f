"""Intervals: how sure is a median of paired ratios, and a weighted mean of several of them?

Both are about ratios of timings taken in turns (evaluators.md 6.4): no distribution is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CONFIDENCE = 0.95
FEWEST_TO_RESAMPLE = 9  # below that, resampling shows less than the spread that there is
_RESAMPLES = 400
_RESAMPLED_CONFIDENCE = 0.98  # resampled medians of a few dozen values spread a little too little: this gives 95 %


def interval_of_median(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Distribution-free interval of the median from order statistics; the whole range below six values."""
    ordered = sorted(values)
    count = len(ordered)
    rank, outside = 0, 0.0
    while rank < count // 2:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - confidence:
            break
        rank += 1
    low = max(rank - 1, 0)
    return ordered[low], ordered[count - 1 - low]


def interval_of_mean(groups: Sequence[Sequence[float]], weights: Sequence[float]) -> tuple[float, float]:
    """Bootstrap interval of the weighted geometric mean of the groups' medians.

    Each group is resampled by itself. The same groups always give the same interval. Not for groups of fewer than
    `FEWEST_TO_RESAMPLE` values.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    total = np.zeros(_RESAMPLES)
    for group, weight in zip(groups, weights, strict=True):
        logs = np.log(np.asarray(group))
        chosen = rng.integers(len(logs), size=(_RESAMPLES, len(logs)))
        total += weight / sum(weights) * np.median(logs[chosen], axis=1)
    outside = (1 - _RESAMPLED_CONFIDENCE) / 2
    low, high = np.quantile(total, (outside, 1 - outside))
    return math.exp(float(low)), math.exp(float(high))
