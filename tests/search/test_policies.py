"""Each policy chooses as it says, over the same tree of programs."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from annealing import Annealing
from landscape_runs import played, wanted

from kevolve.config import PolicyConfig
from kevolve.propose.proposer import Credit, Request
from kevolve.search.policies import registry
from kevolve.search.policies.policy import Policy, Told


def made(name: str, **changes: object) -> Policy:
    plain = {"drafts": 0, "draft_rate": 0.0, "crossover_rate": 0.0, **changes}
    return registry.policy(PolicyConfig(name=name, **plain), "0/jagged_sum/cpu/0")  # type: ignore[arg-type]


def told(program: str, speedup: float | None, *parents: str, edits: tuple[str, ...] = ()) -> Told:
    return Told(program, None if speedup is None else (speedup, speedup), parents, edits)


def asked(policy: Policy, times: int = 1) -> list[Request]:
    return [policy.ask() for _ in range(times)]


@pytest.mark.parametrize("name", ["mcts", "greedy", "best_of_n", "sequential", "random", "islands"])
def test_a_policy_that_knows_no_right_program_drafts_and_begins_with_as_many_drafts_as_asked(name: str) -> None:
    assert {request.kind for request in asked(made(name), 5)} == {"draft"}
    two = made(name, drafts=5)
    two.tell(told("seed", 1.0))
    kinds = [request.kind for request in asked(two, 8)]
    assert kinds[:5] == ["draft"] * 5
    assert name == "best_of_n" or set(kinds[5:]) == {"improve"}


def test_greedy_leaves_the_best_program_after_enough_fruitless_children() -> None:
    policy = made("greedy", patience=2)
    for message in (told("seed", 1.0), told("good", 2.0, "seed"), told("best", 3.0, "seed")):
        policy.tell(message)
    assert policy.ask().parents == ("best",)
    policy.tell(told("wrong", None, "best"))
    policy.tell(told("worse", 2.5, "best"))
    assert policy.ask().parents == ("worse",)
    policy.tell(told("found", 3.5, "best"))
    assert policy.ask().parents == ("found",)


def test_tree_search_follows_what_gained_below_and_turns_from_what_only_failed() -> None:
    policy = made("mcts", exploration=0.5, widening=0.3)
    for message in (told("seed", 1.0), told("dull", 1.5, "seed"), told("rich", 1.2, "seed"), told("gem", 4.0, "rich")):
        policy.tell(message)
    for number in range(4):  # the seed has had its share of children
        policy.tell(told(f"no{number}", None, "seed"))
    assert policy.ask().parents in {("rich",), ("gem",)}
    for number in range(60):
        policy.tell(told(f"bad{number}", None, policy.ask().parents[0]))
    nodes = policy.nodes  # type: ignore[attr-defined]
    assert nodes["dull"].tried > 0, "failed children are counted, so that others get their turn"


def test_tree_search_widens_a_program_only_as_its_subtree_is_visited() -> None:
    policy = made("mcts", widening=0.5)
    policy.tell(told("seed", 1.0))
    for number in range(40):
        policy.tell(told(f"p{number}", 1.0 + number / 100, policy.ask().parents[0]))
    nodes = policy.nodes  # type: ignore[attr-defined]
    assert all(node.tried <= node.visits**0.5 + 1 for node in nodes.values())
    assert nodes["seed"].visits == 41
    assert max(len(list(node.line())) for node in nodes.values()) >= 4, "it goes deep"


def test_the_controls_do_not_select() -> None:
    chain, walk, drafts = made("sequential"), made("random"), made("best_of_n", draft_rate=1.0)
    for policy in (chain, walk, drafts):
        for message in (told("seed", 1.0), told("best", 9.0, "seed"), told("newest", 0.5, "best"), told("no", None)):
            policy.tell(message)
    assert {request.parents for request in asked(chain, 10)} == {("newest",)}
    assert {request.parents for request in asked(walk, 60)} == {("seed",), ("best",), ("newest",)}
    assert {request.kind for request in asked(drafts, 10)} == {"draft"}


@pytest.mark.parametrize("name", ["mcts", "greedy", "sequential", "random", "islands"])
def test_every_policy_passes_on_what_edits_brought(name: str) -> None:
    policy = made(name)
    policy.tell(told("seed", 1.0))
    policy.tell(told("twice", 2.0, "seed", edits=("tile",)))
    policy.tell(told("wrong", None, "twice", edits=("tile", "unroll")))
    assert policy.ask().credit == {"tile": Credit(2, 0.0), "unroll": Credit(1, -1.0)}


def test_a_policy_of_one_file_is_found_by_its_entry_point_and_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = metadata.EntryPoint("annealing", "annealing:Annealing", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    summary = played(wanted(tmp_path, "greedy", "policy.name=annealing", "budget.evaluations=60"))
    assert summary.policy == "annealing"
    best = summary.results[0].best
    assert best is not None
    assert best.speedup > 1.2
    lines = Path(__file__).with_name("annealing.py").read_text().splitlines()
    assert len(lines) <= 60
    assert isinstance(registry.policy(PolicyConfig(name="annealing"), "0"), Annealing)
