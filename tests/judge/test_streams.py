"""The judge's randomness follows from a secret, and one stream tells nothing of another."""

from __future__ import annotations

import torch

from kevolve.judge.streams import Streams, new_secret


def values(streams: Streams, name: str) -> torch.Tensor:
    return torch.randn(4096, generator=streams.of(name))


def test_the_same_secret_and_seed_give_the_same_streams_and_nothing_else_does() -> None:
    known = values(Streams(b"secret", 1), "draw main")
    assert torch.equal(known, values(Streams(b"secret", 1), "draw main"))
    for streams, name in (
        (Streams(b"secret", 2), "draw main"),
        (Streams(b"Secret", 1), "draw main"),
        (Streams(new_secret(), 1), "draw main"),
        (Streams(b"secret", 1), "draw small"),
    ):
        assert not (known == values(streams, name)).any()


def test_a_stream_is_none_that_a_seed_of_32_bits_could_give() -> None:
    """As long as PyTorch's generator keeps its state where we write it, the whole state is the secret's."""
    generator = Streams(b"secret", 1).of("draw main")
    words = generator.get_state()[24 : 24 + 8 * 624].view(torch.int64)
    seeded = torch.Generator().manual_seed(generator.initial_seed()).get_state()[24 : 24 + 8 * 624].view(torch.int64)
    assert len(set(words.tolist())) > 620
    assert int((words == seeded).sum()) == 0
    assert int(words.min()) >= 0
    assert int(words.max()) < 2**32


def test_values_are_as_normal_as_those_of_a_seeded_generator() -> None:
    drawn = torch.cat([values(Streams(b"secret", seed), "draw") for seed in range(20)])
    assert abs(float(drawn.mean())) < 0.02
    assert abs(float(drawn.std()) - 1) < 0.02


def test_every_call_has_a_stream_of_its_own() -> None:
    streams = Streams(b"secret", 1)
    first, second = (torch.rand(100, generator=streams.next_call()) for _ in range(2))
    assert not (first == second).any()
