"""What is on disk survives, and what is damaged is said to be damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset
import pytest

from kevolve.errors import UsageError
from kevolve.events import SCHEMA, EventLog, read_events
from kevolve.parts import schema
from kevolve.population import Population, open_run, read_text

PLACE = {"operator": "jagged_sum", "device": "cpu", "asked": None, "island": None}


def judge(population: Population, number: int) -> None:
    """One program, proposed and judged."""
    program = f"program{number}"
    source = population.put(f"// {number}\n" * 50)
    record = {"id": program, "language": "cpp", "source": source, "parents": [], "origin": {"edits": ["tile"]}}
    population.append("proposed", {**PLACE, "program": record})
    fitness = {"speedup": 1.0 + number, "worst": 0.5, "interval": [0.9, 1.1], "roofline": 0.3}
    verdicts: list[dict[str, Any]] = [
        {"verdict": "Scored", "fitness": fitness, "measurements": []},
        {"verdict": "Rejected", "stage": "build", "reason": "no", "detail": ""},
        {"verdict": "Fault", "kind": "lost", "reason": "gone", "detail": ""},
    ]
    judgement = {"verdict": verdicts[number % 3], "key": {"program": program}, "environment": {}}
    judgement |= {"artefact": "", "sandbox": "bwrap", "seed": 1, "seconds": 0.1}
    population.append(
        "judged", {**PLACE, "program": program, "number": number, "reused": False, "judgement": judgement}
    )


def log_of(folder: Path) -> Path:
    return folder / "events.jsonl"


def test_events_come_back_as_they_were_stored(tmp_path: Path) -> None:
    with Population(tmp_path) as population:
        stored = [population.append("asked", {"text": "ü\n\u2028", "number": number / 3}) for number in range(5)]
    assert list(read_events(log_of(tmp_path))) == stored
    assert [event.seq for event in stored] == [1, 2, 3, 4, 5]
    assert json.loads(log_of(tmp_path).read_bytes().splitlines()[0])["schema"] == SCHEMA


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_torn_last_line_is_dropped_and_the_log_goes_on(tmp_path: Path, kept: int) -> None:
    with Population(tmp_path) as population:
        for number in range(3):
            population.append("asked", {"number": number})
    lines = log_of(tmp_path).read_bytes().splitlines(keepends=True)
    log_of(tmp_path).write_bytes(b"".join(lines[:2]) + lines[2][:kept])
    assert [event.data["number"] for event in read_events(log_of(tmp_path))] == [0, 1]
    with Population(tmp_path) as population:
        assert population.append("asked", {"number": 7}).seq == 3
    assert [event.data["number"] for event in read_events(log_of(tmp_path))] == [0, 1, 7]


@pytest.mark.parametrize(
    ("damage", "line", "problem"),
    [
        (lambda lines: [lines[0], lines[1].replace(b'"number":1', b'"number":9'), lines[2]], 2, "checksum"),
        (lambda lines: [lines[0], lines[1][:30] + b"\n", lines[2]], 2, "not a whole JSON object"),
        (lambda lines: [lines[0], lines[2]], 2, "3, but 2 should come"),
        (lambda lines: [*lines[:2], lines[2].replace(b'"number":2', b'"number":9')], 3, "checksum"),
    ],
)
def test_a_damaged_line_is_refused_by_its_number_and_nothing_is_changed(
    tmp_path: Path, damage: Any, line: int, problem: str
) -> None:
    with Population(tmp_path) as population:
        for number in range(3):
            population.append("asked", {"number": number})
    content = b"".join(damage(log_of(tmp_path).read_bytes().splitlines(keepends=True)))
    log_of(tmp_path).write_bytes(content)
    with pytest.raises(UsageError, match=rf"line {line}: .*{problem}"):
        Population(tmp_path)
    assert log_of(tmp_path).read_bytes() == content


def test_a_full_disk_leaves_a_log_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.append("asked", {"number": 0})
    write = os.write
    with monkeypatch.context() as full:
        full.setattr("os.write", lambda handle, line: write(handle, line[:10]))
        with pytest.raises(OSError, match="No space left on device"):
            log.append("asked", {"number": 1})
    log.append("asked", {"number": 2})
    assert [event.data["number"] for event in read_events(log.path)] == [0, 2]


def test_a_number_that_is_none_is_not_stored(tmp_path: Path) -> None:
    with Population(tmp_path) as population, pytest.raises(ValueError, match="JSON"):
        population.append("asked", {"speedup": float("nan")})


def test_texts_are_stored_once_and_checked_when_read(tmp_path: Path) -> None:
    with Population(tmp_path) as population:
        name = population.put("int main() {}\n" * 1000)
        assert population.put("int main() {}\n" * 1000) == name
    (path,) = (tmp_path / "blobs").glob("*/*")
    assert path == tmp_path / "blobs" / name[:2] / name
    assert path.stat().st_size < 200
    assert read_text(tmp_path, name) == "int main() {}\n" * 1000
    path.write_bytes(b"rubbish")
    with pytest.raises(UsageError, match=name):
        read_text(tmp_path, name)


OPEN = """
import os, sys
from pathlib import Path
from kevolve.population import Population
held = Population(Path(sys.argv[1]))
os.kill(os.getpid(), 9)
"""


def test_a_second_driver_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    with Population(tmp_path):
        second = subprocess.run([sys.executable, "-c", OPEN, tmp_path], capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"process {os.getpid()} on" in second.stderr


def test_the_lock_of_a_killed_driver_is_free(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", OPEN, tmp_path], check=False).returncode == -9
    with Population(tmp_path):
        pass


def test_parts_hold_every_verdict_once_and_can_be_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kevolve.population.SEAL_EVERY", 4)
    for first in (0, 5):  # the second session goes on from what the first sealed
        with Population(tmp_path) as population:
            for number in range(first, first + 5):
                judge(population, number)
    folder = tmp_path / "population"
    table = dataset.dataset(folder).to_table()
    assert table.schema == schema()
    assert table["program"].to_pylist() == [f"program{number}" for number in range(10)]
    assert table["speedup"].to_pylist()[:3] == [1.0, None, None]
    assert table["outcome"].to_pylist()[:3] == ["Scored", "Rejected", "Fault"]
    assert table["source"].to_pylist()[3] == "// 3\n" * 50

    parts = sorted(folder.iterdir())
    parts[1].write_bytes(b"torn")
    with Population(tmp_path):
        pass
    assert dataset.dataset(folder).to_table().sort_by("seq").equals(table.combine_chunks())


def test_parts_beyond_the_log_are_made_again(tmp_path: Path) -> None:
    with Population(tmp_path) as population:
        for number in range(4):
            judge(population, number)
    lines = log_of(tmp_path).read_bytes().splitlines(keepends=True)
    log_of(tmp_path).write_bytes(b"".join(lines[:4]))
    with Population(tmp_path):
        pass
    assert dataset.dataset(tmp_path / "population").to_table()["program"].to_pylist() == ["program0", "program1"]


def test_a_run_of_that_name_is_not_overwritten(tmp_path: Path) -> None:
    with open_run(tmp_path, "trial", resume=False) as population:
        population.append("opened", {})
    with pytest.raises(UsageError, match="resume=true to go on"):
        open_run(tmp_path, "trial", resume=False)
    open_run(tmp_path, "trial", resume=True).close()


def test_resuming_what_is_not_there_lists_what_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no runs in"):
        open_run(tmp_path, "trial", resume=True)
    with open_run(tmp_path, "trial-1", resume=False) as population:
        population.append("opened", {})
    with pytest.raises(UsageError, match=r"Did you mean trial-1\?\n  Runs here: trial-1"):
        open_run(tmp_path, "trial", resume=True)
    assert not (tmp_path / "trial").exists()


def test_a_log_of_a_version_that_stored_no_elapsed_seconds_is_still_read(tmp_path: Path) -> None:
    def line(seq: int, **fields: object) -> bytes:
        body = json.dumps({**({"schema": 1} if seq == 1 else {}), "seq": seq, **fields}, separators=(",", ":")).encode()
        return body[:-1] + f',"checksum":"{zlib.crc32(body):08x}"}}\n'.encode()

    log = tmp_path / "events.jsonl"
    log.write_bytes(
        line(1, time=105.0, kind="opened", data={"started": 100.0})
        + line(2, time=110.0, kind="closed", data={})
        + line(3, time=905.0, kind="opened", data={"started": 900.0})
    )
    assert [event.elapsed for event in read_events(log)] == [5.0, 10.0, 5.0]
