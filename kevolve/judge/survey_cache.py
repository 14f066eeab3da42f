"""Which baseline is the fastest where, remembered per machine: the one thing about baselines that may be cached.

Their times are not: a program is always timed against a baseline that runs beside it. The key holds everything that
could change the choice: device, pinned environment, operator, baselines at hand, torch, and the judge.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

import torch

from kevolve.cache import cache_dir, remember
from kevolve.devices.device import Device
from kevolve.judge.lease import Survey
from kevolve.operators.operator import Operator


class SurveyCache:
    """One file per key under the user's cache folder."""

    def __init__(self, device: Device, operator: Operator, baselines: Iterable[str], judge_version: str):
        facts = [
            device.key,
            sorted(device.environment().items()),
            operator.name,
            operator.version,
            sorted(baselines),
            torch.__version__,
            judge_version,
        ]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        self.path = cache_dir() / f"survey-{operator.name}-{digest}.json"

    def load(self) -> Survey | None:
        """What was found before; None if nothing was, or if the file cannot be read."""
        try:
            record: Mapping[str, object] = json.loads(self.path.read_text())
            return Survey(**record)  # type: ignore[arg-type]
        except (OSError, ValueError, TypeError):
            return None

    def save(self, survey: Survey) -> None:
        """Remember it, if the cache can be written."""
        remember(self.path, json.dumps(asdict(survey)).encode())
