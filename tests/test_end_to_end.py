"""The main job as a user types it: real Ray, compiler, judge, store and MLflow; stopped half way, and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from kevolve.events import read_events


def command(folder: Path, *arguments: str) -> list[str]:
    fixed = (f"runs_dir={folder}/runs", f"tracking.uri=sqlite:///{folder}/mlflow.db", "judge.confirm_pairs=6")
    return [sys.executable, "-m", "kevolve.run", *fixed, "judge.max_pairs=6", "budget.confirmations=1", *arguments]


def test_a_run_stopped_half_way_goes_on_and_ends_with_a_champion(tmp_path: Path) -> None:
    options = ["operators=[jagged_sum]", "name=trial", "budget.evaluations=4", "lanes=2", "seed=3"]
    environment = {**os.environ, "CI": "true", "TORCHDYNAMO_DISABLE": "1"}  # compiling baselines is torch's business
    first = subprocess.Popen(
        command(tmp_path, "+experiment=jagged_ops", *options),
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert first.stdout is not None
    for line in first.stdout:
        if "jagged_sum 1/4" in line:
            first.send_signal(signal.SIGINT)
    assert first.wait(timeout=120) == 130
    events = tmp_path / "runs" / "trial" / "events.jsonl"
    before = [event for event in read_events(events) if event.kind == "judged"]
    assert len(before) >= 2
    assert "interrupted" in (tmp_path / "runs" / "trial" / "report.html").read_text()

    again = subprocess.run(
        command(tmp_path, "resume=true", "name=trial"),
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=300,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert "jagged_sum" in again.stdout
    assert "Traceback" not in again.stdout + again.stderr
    after = [event for event in read_events(events) if event.kind == "judged"]
    assert [event.data for event in after[: len(before)]] == [event.data for event in before]
    judged = Counter(event.data["program"] for event in after if not event.data["reused"])
    assert set(judged.values()) == {1}

    summary = json.loads((tmp_path / "runs" / "trial" / "summary.json").read_text())
    (result,) = summary["results"]
    assert summary["stopped"] == "finished"
    assert result["best"]["confirmed"]
    assert {row["role"] for row in result["workloads"]} == {"search", "holdout"}
    (champion,) = (tmp_path / "runs" / "trial" / "champions").glob("jagged_sum/*/program.cpp")
    kept = json.loads(champion.with_name("record.json").read_text())
    assert kept["confirmed"]["environment"]["self_test"] == "passed"
    judged_alone = subprocess.run(
        [sys.executable, "-m", "kevolve.judge", str(champion), "--operator", "jagged_sum", "--json"],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert judged_alone.returncode == 0, judged_alone.stdout + judged_alone.stderr
    record = json.loads(judged_alone.stdout)
    assert record["key"]["program"] == result["best"]["program"]
    assert record["verdict"]["verdict"] == "Scored"


def test_judging_from_the_command_line_tells_a_bad_file_from_a_bad_program(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cpp"
    bad.write_text('extern "C" void jagged_sum() { return 1; }\n')
    base = [sys.executable, "-m", "kevolve.judge"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*base, *arguments], capture_output=True, text=True, timeout=60)

    rejected = run(str(bad), "--operator", "jagged_sum")
    assert rejected.returncode == 1
    assert "Rejected at build" in rejected.stdout
    for wrong in (
        [str(tmp_path / "none.cpp"), "--operator", "jagged_sum"],
        [str(bad), "--operator", "jaged_sum"],
        [str(bad.with_suffix(".txt")), "--operator", "jagged_sum"],
        [str(bad), "--operator", "jagged_sum", "--sandbox", "bwarp"],
    ):
        refused = run(*wrong)
        assert refused.returncode == 2, wrong
        assert "Traceback" not in refused.stderr
    assert "Did you mean jagged_sum?" in run(str(bad), "--operator", "jaged_sum").stderr
