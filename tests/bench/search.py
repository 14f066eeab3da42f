"""What a policy is worth: evaluations until 95 % of the best speedup there is, on recorded landscapes.

    python tests/bench/search.py [--seeds 30] [--landscapes ...] [--policies ...] [--evaluations 400]

Every policy is played by the real driver, with the grid proposer and one lane, from the program as it is declared,
which is not counted; neither is a point that was judged before. Beside them: uniform random points without repetition,
and Optuna's TPE (`pip install optuna`, or the extra `bench`; left out with a word where it is missing). A cell is the
median over the seeds with its 95 % interval; a search that did not get there counts as the whole budget.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

from kevolve.config import Config
from kevolve.configuration import load_config
from kevolve.events import read_events
from kevolve.intervals import interval_of_median
from kevolve.judge.landscape import Landscape, landscape_names
from kevolve.propose.parameters import declared, points
from kevolve.search.evolution import evolve

TABLES = Path(__file__).parent.parent / "landscapes"
ENOUGH = 0.95  # of the best speedup
POLICIES = ("islands", "mcts", "greedy", "best_of_n", "sequential", "random")


@cache
def table(name: str) -> Landscape:
    return Landscape.read(TABLES / f"{name}.parquet")


@cache
def settings(policy: str, evaluations: int, more: tuple[str, ...] = ()) -> Config:
    """A run on a landscape that stops as soon as it has come far enough."""
    landscape = ("judge=landscape", f"judge.landscape={TABLES}", "proposer=grid", "tracking=none", "name=trial")
    budget = (f"budget.evaluations={evaluations}", f"budget.roofline={ENOUGH}", "budget.minutes=60")
    return load_config([*landscape, *budget, f"policy={policy}", "lanes=1", *more])


def played(policy: str, landscape: str, seed: int, evaluations: int, more: tuple[str, ...] = ()) -> int:
    """Evaluations that the policy took."""
    with tempfile.TemporaryDirectory() as folder:
        config = replace(settings(policy, evaluations, more), operators=[landscape], seed=seed, runs_dir=folder)
        evolve(config)
        events = list(read_events(Path(folder, "trial", "events.jsonl")))
    if events[-1].data["reason"] != "roofline":
        return evaluations
    return max(event.data["number"] for event in events if event.kind == "judged")


def uniform(landscape: str, seed: int, evaluations: int) -> int:
    """Points in random order."""
    chosen = table(landscape)
    wanted = ENOUGH * chosen.speedup(chosen.best)
    rows = list(chosen.rows.values())
    random.Random(seed).shuffle(rows)
    found = (number for number, row in enumerate(rows, start=1) if chosen.speedup(row) >= wanted)
    return min(next(found), evaluations)


def tpe(landscape: str, seed: int, evaluations: int) -> int:
    """Optuna's default sampler on the places of values in their domains; points that come again are not counted."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    chosen, parameters = table(landscape), declared(table(landscape).template)
    start = tuple(parameter.value for parameter in parameters)
    wanted, tried = ENOUGH * chosen.speedup(chosen.best), {start}
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.enqueue_trial({parameter.name: parameter.domain.index(parameter.value) for parameter in parameters})
    for _ in range(20 * evaluations):
        trial = study.ask()
        places = [trial.suggest_int(parameter.name, 0, len(parameter.domain) - 1) for parameter in parameters]
        point = tuple(parameter.domain[place] for parameter, place in zip(parameters, places, strict=True))
        speedup = chosen.speedup(chosen.rows[point])
        study.tell(trial, speedup)
        tried.add(point)
        if speedup >= wanted or len(tried) > evaluations:
            break
    return min(len(tried) - 1, evaluations)


def cell(counts: Sequence[int], evaluations: int) -> str:
    low, high = interval_of_median(counts)
    middle = median(counts)
    return f"> {evaluations}" if middle >= evaluations else f"{middle:g} ({low:g} to {high:g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--evaluations", type=int, default=400)
    parser.add_argument("--landscapes", nargs="+", default=landscape_names(str(TABLES)))
    parser.add_argument("--policies", nargs="*", default=POLICIES)
    parser.add_argument("--with", nargs="*", default=[], dest="more", help="further settings of the policies")
    arguments = parser.parse_args()
    more = tuple(arguments.more)
    players: dict[str, Callable[[str, int, int], int]] = {
        policy: lambda landscape, seed, most, policy=policy: played(policy, landscape, seed, most, more)  # type: ignore[misc]
        for policy in arguments.policies
    }
    if "islands" in arguments.policies:
        one = ("policy.islands=1", "policy.migration_every=0", *more)
        players["one island"] = lambda landscape, seed, most: played("islands", landscape, seed, most, one)
    players["uniform random"] = uniform
    try:
        import optuna  # noqa: F401
    except ImportError:
        print("Optuna is not here: pip install optuna, for a row of its TPE")
    else:
        players["TPE (Optuna)"] = tpe
    print(f"| {arguments.seeds} seeds | " + " | ".join(arguments.landscapes) + " |")
    print("| --- " * (len(arguments.landscapes) + 1) + "|")
    sizes = [(len(list(points(table(name).template))), near(name)) for name in arguments.landscapes]
    print("| points, of which good enough | " + " | ".join(f"{size}, {good}" for size, good in sizes) + " |")
    for name, play in players.items():
        cells = [
            cell(
                [play(landscape, seed, arguments.evaluations) for seed in range(arguments.seeds)], arguments.evaluations
            )
            for landscape in arguments.landscapes
        ]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def near(landscape: str) -> int:
    """How many points are good enough."""
    chosen = table(landscape)
    return sum(chosen.speedup(row) >= ENOUGH * chosen.speedup(chosen.best) for row in chosen.rows.values())


if __name__ == "__main__":
    main()
