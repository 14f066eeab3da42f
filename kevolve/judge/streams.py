"""Streams: the judge's randomness, of which no program can know more than the content it is shown.

PyTorch's CPU generator is a Mersenne Twister seeded with 32 bits: its seed can be guessed from a few values, and its
whole state solved from some thousand. So no seed is ever used. Every stream gets a state of its own from a secret of
this process, every call's content has its own stream, and what decides (order of turns, which calls are checked, when
a block is stopped) comes from a generator that no content is made with.
"""

from __future__ import annotations

import hashlib
import os
import random

import torch

_WORDS = 624  # of a Mersenne Twister's state
_HEAD_BYTES = 24  # of a torch.Generator's state before these words, each of which takes 8 bytes there


def new_secret() -> bytes:
    """What no program can guess."""
    return os.urandom(32)


class Streams:
    """All randomness of one judging. The same `secret` and `seed` give the same streams."""

    def __init__(self, secret: bytes, seed: int):
        self.seed = seed
        self._key = hashlib.sha256(secret + str(seed).encode()).digest()
        self._calls = 0
        self.decisions = self.chooser("decisions")

    def chooser(self, name: str) -> random.Random:
        """What to choose with, from its beginning."""
        return random.Random(self._expand(f"chooser {name}", 64))

    def of(self, name: str) -> torch.Generator:
        """The stream called `name`, from its beginning."""
        words = torch.frombuffer(bytearray(self._expand(name, 4 * _WORDS)), dtype=torch.int32)
        generator = torch.Generator().manual_seed(0)  # which also makes it draw a new block of values first
        state = generator.get_state()
        state[_HEAD_BYTES : _HEAD_BYTES + 8 * _WORDS].view(torch.int64).copy_(words.long() & 0xFFFF_FFFF)
        return generator.set_state(state)

    def next_call(self) -> torch.Generator:
        """A stream for the content of one more call."""
        self._calls += 1
        return self.of(f"call {self._calls}")

    def _expand(self, name: str, count: int) -> bytes:
        return hashlib.shake_256(self._key + name.encode()).digest(count)
