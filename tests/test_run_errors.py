"""`kevolve run` as a user types it: mistakes cost a second and a message, and exit statuses can be relied on."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from kevolve import run
from kevolve.config import Config
from kevolve.errors import FaultsStopped, UsageError
from kevolve.quiet import VARIABLES
from kevolve.search.listener import Listener
from kevolve.summary import Best, Result, Summary
from tests.run_story import WINNER, Story, scored

Evolve = Callable[..., Summary]


def typed(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "kevolve.run", *arguments], capture_output=True, text=True, cwd=cwd)


def test_a_mistake_costs_a_second_and_a_message(tmp_path: Path) -> None:
    begun = time.monotonic()
    told = typed("+experiment=jaged_ops", "budget.minuts=3", cwd=tmp_path)
    assert time.monotonic() - begun < 5  # about 0.6 s on an idle machine
    assert told.returncode == 2
    assert told.stderr.startswith("kevolve: 2 things are wrong")
    assert "Traceback" not in told.stderr
    assert told.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_help_and_mistakes_import_nothing_heavy() -> None:
    code = (
        "import sys, kevolve.run\n"
        "assert kevolve.run.main(['--help']) == 0\n"
        "assert kevolve.run.main(['--cfg', '+experiment=jagged_ops']) == 0\n"
        "assert kevolve.run.main(['lanes=0']) == 2\n"
        "heavy = {'torch', 'ray', 'mlflow', 'deap', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "budget.evaluations=60" in told.stdout
    assert "experiment: jagged_ops" in told.stdout


@pytest.mark.skipif(find_spec("litellm") is None, reason="the extra `llm` is not installed")
@pytest.mark.parametrize(
    ("model", "before", "told"),
    [
        ("openai/m", "os.environ.pop('OPENAI_API_KEY', None)", "lacks OPENAI_API_KEY. Type export OPENAI_API_KEY="),
        ("openai/m", "sys.modules['litellm'] = None", "Type python -m pip install 'kevolve[llm]'"),
        ("m", "pass", "names no provider. Type proposer.models=[openai/m]"),
    ],
)
def test_what_a_model_lacks_is_told_before_anything_heavy_is_imported(
    tmp_path: Path, model: str, before: str, told: str
) -> None:
    code = (
        "import os, sys, kevolve.run\n"
        f"{before}\n"
        f"asked = ['proposer=llm', 'proposer.models=[{model}]', f'runs_dir={{sys.argv[1]}}']\n"
        "assert kevolve.run.main(asked) == 2\n"
        "heavy = {name for name in ('torch', 'ray', 'mlflow', 'litellm') if sys.modules.get(name)}\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--hlep"], ["--experiment", "jagged_ops"], ["--config-dir"], ["-x"]])
def test_a_flag_that_does_not_exist_is_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(arguments) == 2
    assert "--config-dir DIR" in capsys.readouterr().err


def test_the_console_script_hands_over_and_knows_its_verbs() -> None:
    def script(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "kevolve", *arguments], capture_output=True, text=True)

    assert script("run", "lanes=0").returncode == 2
    assert "lanes=0: must be at least 1" in script("run", "lanes=0").stderr
    assert script("rum").returncode == 2
    assert "Did you mean run?" in script("rum").stderr
    assert script().returncode == 0


@pytest.fixture
def evolving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Evolve], None]]:
    """Puts something else in the place of the search."""

    def install(evolve: Evolve) -> None:
        from kevolve.search import evolution

        monkeypatch.setattr(evolution, "evolve", evolve)

    for name in VARIABLES:
        monkeypatch.setenv(name, os.environ.get(name, ""))  # so that what a run sets ends with the test
    yield install
    logging.captureWarnings(False)


def raising(error: BaseException) -> Evolve:
    def evolve(*_: object, **__: object) -> Summary:
        raise error

    return evolve


ARGUMENTS = ["+experiment=jagged_ops", "tracking=none", "name=story"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(UsageError("device=cuda: none here"), 2), (FaultsStopped("5 faults in a row"), 4), (KeyboardInterrupt(), 130)],
)
def test_what_stops_a_run_has_its_own_status(
    error: BaseException, status: int, evolving: Callable[[Evolve], None], capsys: pytest.CaptureFixture[str]
) -> None:
    evolving(raising(error))
    assert run.main(ARGUMENTS) == status
    assert str(error) in capsys.readouterr().err


def result(speedup: float, low: float, *, confirmed: bool) -> Result:
    best = Best("0123456789abcdef", "cpp", speedup, (low, speedup + 0.1), low, 0.5, confirmed)
    return Result("jagged_sum", "cpu-test", best)


@pytest.mark.parametrize(
    ("summary", "require", "status"),
    [
        (Summary(stopped="finished", results=(result(0.9, 0.8, confirmed=True),)), None, 0),
        (Summary(stopped="finished", results=(result(1.5, 1.4, confirmed=True),)), "better", 0),
        (Summary(stopped="finished", results=(result(1.1, 0.9, confirmed=True),)), "better", 3),
        (Summary(stopped="finished", results=(result(1.5, 1.4, confirmed=False),)), "better", 3),
        (Summary(stopped="finished", results=(Result("jagged_sum", "cpu-test"),)), "better", 3),
        (Summary(stopped="finished"), "better", 3),
        (Summary(stopped="interrupted", results=(result(1.5, 1.4, confirmed=True),)), "better", 130),
        (Summary(stopped="faults"), None, 4),
    ],
)
def test_the_exit_status_says_what_was_found(summary: Summary, require: str | None, status: int) -> None:
    assert run.status(summary, Config(operators=["jagged_sum"], require=require)) == status


def test_a_run_says_what_it_does_first_and_what_to_type_next_last(
    tmp_path: Path, evolving: Callable[[Evolve], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def evolve(config: Config, listeners: list[Listener], **_: object) -> Summary:
        story = Story(replace(config))
        champion = Path(config.runs_dir, str(config.name), "champions", "jagged_sum", "cpu-test")
        champion.mkdir(parents=True)
        (champion / "program.cpp").write_text(WINNER.source)
        for event in story.search():
            for listener in listeners:
                listener.heard(event)
        story.confirmed(WINNER, scored(1.9))
        story.closed()
        summary = story.summary()
        for listener in listeners:
            listener.closed(summary)
        story.population.close()
        return summary

    evolving(evolve)
    assert run.main([*ARGUMENTS, f"runs_dir={tmp_path}", "tracking=none"]) == 0
    told = capsys.readouterr().out
    first, last = told[: len(told) // 2], told[len(told) // 2 :]
    assert first.startswith("kevolve ")
    assert f"starts story in {tmp_path}/story" in first
    assert "genetic (no model is configured)" in first
    assert "jagged_sum 3/60  2.00x" in told
    assert "jagged_sum on cpu-test: 1.90x [1.71, 2.09] over the fastest baseline" in told
    assert "confirmed on fresh data" in told
    assert "embedding_bag" in told
    assert f"resume=true name=story runs_dir={tmp_path}" in last
    assert f"kevolve.judge {tmp_path}/story/champions/jagged_sum/cpu-test/program.cpp --operator jagged_sum" in last
    assert (tmp_path / "story" / "run.log").exists()
