"""Selection on one island, and what crosses between islands."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from search_stubs import DEVICE, LOCAL, StubLease, StubProposer, config, events_of

from kevolve.config import Config, PolicyConfig
from kevolve.errors import UsageError
from kevolve.events import Event
from kevolve.propose.proposer import Credit
from kevolve.search.evolution import evolve
from kevolve.search.island import Island, Memory
from kevolve.search.policies.credit import REJECTED_GAIN
from kevolve.search.policies.individual import Individual, drawing_from
from kevolve.search.policies.islands import IslandPolicy
from kevolve.search.policies.migration import ring
from kevolve.search.policies.policy import Arrival, Member, Search, Stirred, Told
from kevolve.search.policies.registry import policy

SEARCH = Search("jagged_sum", DEVICE)


def island(**changes: object) -> IslandPolicy:
    return IslandPolicy(
        PolicyConfig(**{"population": 3, "draft_rate": 0.0, "drafts": 0, **changes}), "0/jagged_sum/cpu/0"
    )  # type: ignore[arg-type]


def names(chosen: IslandPolicy) -> set[str]:
    return {member.program for member in chosen.members()}


def test_an_island_without_scored_programs_asks_for_drafts_only() -> None:
    chosen = island()
    chosen.tell(Told("wrong", None))
    requests = [chosen.ask() for _ in range(20)]
    assert {request.kind for request in requests} == {"draft"}
    assert not any(request.parents for request in requests)


def test_only_scored_programs_are_parents() -> None:
    chosen = island(crossover_rate=0.5)
    for number in range(8):
        chosen.tell(Told(f"p{number}", (1.0 + number, 1.0) if number % 2 else None, (), ()))
    parents = {parent for _ in range(60) for parent in chosen.ask().parents}
    assert parents
    assert all(int(parent[1:]) % 2 for parent in parents)


def test_the_fastest_on_the_worst_workload_survives_beside_the_fastest_on_average() -> None:
    chosen = island(population=2)
    for told in (Told("mean", (3.0, 0.5)), Told("worst", (1.5, 1.4)), Told("neither", (1.2, 0.4))):
        chosen.tell(told)
    assert names(chosen) == {"mean", "worst"}


def test_the_best_of_another_kind_survives_many_better_ones_of_one_kind() -> None:
    chosen = island(population=4, elite_share=0.5)
    for number in range(6):
        chosen.tell(Told(f"tiled{number}", (3.0 + number / 10, 3.0), niche="block=64"))
    chosen.tell(Told("streaming", (1.5, 1.0), niche="block=1"))
    for number in range(6, 12):
        chosen.tell(Told(f"tiled{number}", (3.0 + number / 10, 3.0), niche="block=64"))
    assert {"streaming", "tiled11"} <= names(chosen)
    plain = island(population=4, elite_share=0.0)
    for number in range(6):
        plain.tell(Told(f"tiled{number}", (3.0 + number / 10, 3.0), niche="block=64"))
    plain.tell(Told("streaming", (1.5, 1.0), niche="block=1"))
    assert "streaming" not in names(plain)


def test_a_stirred_island_drafts_more_until_it_finds_better_or_starts_again() -> None:
    chosen = island()
    chosen.tell(Told("a", (2.0, 1.0)))
    chosen.stir(Stirred("widen"))
    kinds = Counter(chosen.ask().kind for _ in range(200))
    assert 60 < kinds["draft"] < 140
    chosen.tell(Told("b", (2.5, 1.0)))
    assert {chosen.ask().kind for _ in range(40)} == {"improve", "crossover"}
    chosen.stir(Stirred("import", Arrival(Member("guest", (9.0, 2.0)), "a")))
    assert names(chosen) == {"b", "guest"}
    chosen.stir(Stirred("restart"))
    assert chosen.ask().kind == "draft"
    assert not chosen.members()


def test_a_crossover_has_two_different_parents() -> None:
    chosen = island(crossover_rate=1.0)
    chosen.tell(Told("a", (1.0, 1.0)))
    assert chosen.ask().kind == "improve"
    chosen.tell(Told("b", (2.0, 1.0)))
    for _ in range(20):
        request = chosen.ask()
        assert request.kind == "crossover"
        assert set(request.parents) == {"a", "b"}


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    first, second = island(), island()
    for chosen in (first, second):
        for number in range(3):
            chosen.tell(Told(f"p{number}", (1.0 + number, 1.0)))
    random.seed(1)
    before = random.getstate()
    wanted = [first.ask() for _ in range(10)]
    assert random.getstate() == before
    random.seed(2)
    assert [second.ask() for _ in range(10)] == wanted


def test_lending_a_generator_moves_it_as_if_it_had_been_used_itself() -> None:
    lent, same = random.Random(5), random.Random(5)
    outside = random.getstate()
    with drawing_from(lent):
        assert random.random() == same.random()
    assert lent.getstate() == same.getstate()
    assert random.getstate() == outside


def test_an_edit_is_credited_with_the_gain_over_the_better_parent_and_fined_for_a_wrong_child() -> None:
    chosen = island()
    chosen.tell(Told("slow", (1.0, 1.0)))
    chosen.tell(Told("fast", (2.0, 1.0)))
    chosen.tell(Told("child", (4.0, 1.0), ("slow", "fast"), ("tile", "tile")))
    assert chosen.ask().credit == {"tile": Credit(1, 1.0)}
    chosen.tell(Told("broken", None, ("fast",), ("tile", "unroll")))
    expected = {"tile": Credit(2, (1.0 + REJECTED_GAIN) / 2), "unroll": Credit(1, REJECTED_GAIN)}
    assert chosen.ask().credit == expected


def test_an_island_made_of_its_memories_goes_on_as_the_one_that_died() -> None:
    settings = PolicyConfig(islands=1, population=3)
    living = Island(0, settings, 7, {SEARCH: Memory((), 0)})
    heard: list[Told | Arrival] = [Told("seed", (1.0, 1.0))]
    living.hear(SEARCH, heard[0])
    for number in range(12):
        request, asks = living.ask(SEARCH)
        heard.append(Told(f"p{number}", (1.0 + number % 5, 1.0) if number % 3 else None, request.parents, ("tile",)))
        if number == 6:
            heard.append(Arrival(Member("guest", (9.0, 2.0)), "p5"))
        for message in heard[len(heard) - 1 - (number == 6) :]:
            living.hear(SEARCH, message)
        rebuilt = Island(0, settings, 7, {SEARCH: Memory(tuple(heard), asks)})
        assert rebuilt.members(SEARCH) == living.members(SEARCH)
        again = Island(0, settings, 7, {SEARCH: Memory(tuple(heard), asks)})
        assert again.ask(SEARCH) == rebuilt.ask(SEARCH)


def test_a_fitness_that_is_no_number_cannot_take_over_an_island() -> None:
    with pytest.raises(ValueError, match="no number"):
        Individual.of(Member("nan", (float("nan"), 1.0)))


def test_the_best_go_round_the_ring_stay_at_home_and_replace_the_worst() -> None:
    islands = [
        [Member("a1", (3.0, 1.0)), Member("a2", (1.0, 1.0))],
        [],
        [Member("b1", (2.0, 1.0)), Member("b2", (1.5, 1.0))],
    ]
    moves = ring(islands, migrants=1, capacity=2)
    assert {(m.source, m.target, m.arrival.member.program, m.arrival.replaced) for m in moves} == {
        (0, 2, "a1", "b2"),
        (2, 0, "b1", "a2"),
    }


def test_a_migrant_displaces_nobody_where_there_is_room_and_does_not_come_twice() -> None:
    islands = [[Member("a", (3.0, 1.0))], [Member("b", (2.0, 1.0)), Member("a", (3.0, 1.0))]]
    (move,) = [move for move in ring(islands, migrants=1, capacity=4) if move.target == 1] or [None]
    assert move is None
    assert [m.arrival.replaced for m in ring([[Member("a", (3.0, 1.0))], [Member("b", (2.0, 1.0))]], 1, 4)] == [
        None,
        None,
    ]


def test_an_unknown_policy_is_named_with_its_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean islands"):
        policy(PolicyConfig(name="islnds"), "0")


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Config:
    wanted = config(
        tmp_path_factory.mktemp("islands"), evaluations=40, lanes=3, operators=["jagged_sum", "jagged_softmax"]
    )
    wanted.policy.islands = 3
    evolve(wanted, leases=[StubLease()], proposer=StubProposer(), workers=LOCAL)
    return wanted


def homes(events: list[Event]) -> dict[str, set[tuple[str, int]]]:
    """On which islands each program lives, by birth or by migration."""
    found: dict[str, set[tuple[str, int]]] = {}
    for event in events:
        operator = event.data.get("operator", "")
        if event.kind == "told":
            found.setdefault(event.data["program"], set()).add((operator, event.data["island"]))
        for move in event.data.get("moves", ()):
            found.setdefault(move["program"], set()).add((operator, move["target"]))
    return found


def test_parents_and_children_share_an_island(long_run: Config) -> None:
    events = events_of(long_run)
    living: list[Event] = []
    for event in events:
        living.append(event)
        if event.kind == "asked":
            home = (event.data["operator"], event.data["island"])
            known = homes(living)
            assert all(home in known[parent] for parent in event.data["request"]["parents"])
    islands = {event.data["asked"]: event.data["island"] for event in events if event.kind == "asked"}
    for event in events:
        if event.kind in ("proposed", "judged", "told") and event.data["asked"] is not None:
            assert event.data["island"] == islands[event.data["asked"]]


def test_every_island_of_every_search_advances(long_run: Config) -> None:
    told = Counter(
        (event.data["operator"], event.data["island"])
        for event in events_of(long_run)
        if event.kind == "told" and event.data["asked"] is not None
    )
    assert len(told) == 6
    assert min(told.values()) >= 10


def test_searches_take_turns_so_that_none_waits_for_the_end(long_run: Config) -> None:
    asked = [event.data["operator"] for event in events_of(long_run) if event.kind == "asked"]
    counts: Counter[str] = Counter()
    for operator in asked[:60]:
        counts[operator] += 1
        assert abs(counts["jagged_sum"] - counts["jagged_softmax"]) <= 1
