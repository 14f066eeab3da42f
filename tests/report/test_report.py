"""What a report says of a run, whatever the run is like, and that nothing in a run can break it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kevolve.config import Config
from kevolve.program import Program
from kevolve.report.__main__ import main
from kevolve.report.findings.history import find_run, read_history
from kevolve.report.findings.review import Review, review_of
from kevolve.report.listener import Reporter
from kevolve.screen import percent
from kevolve.verdict import Fitness, Measurement, Rejected, Scored
from tests.run_story import DEVICE, SOURCE, WINNER, Story, scored

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(operators=["jagged_sum"], name="story", runs_dir=str(tmp_path / "runs"))


def tell(config: Config, *, confirmed: Scored | None = None, end: str = "evaluations") -> Path:
    """A whole run on disk; returns its folder."""
    story = Story(config)
    for _ in story.search():
        pass
    if confirmed is not None:
        story.confirmed(WINNER, confirmed, reason="confirmed: 1.9 on fresh data")
    if end:
        story.closed(end)
    story.population.close()
    return Path(config.runs_dir) / str(config.name)


def review(folder: Path) -> Review:
    return review_of(read_history(folder))


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The command's exit status, output and errors."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, captured.err


class Tags(HTMLParser):
    """The tags of a page, and how many of each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)


def test_a_report_says_what_won_by_how_much_over_what_and_whether_to_believe_it(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tell(config, confirmed=scored(1.9))
    status, out, _ = printed(capsys, "story", "--runs-dir", config.runs_dir)
    assert (status, out.strip()) == (0, str(folder / "report.html"))
    page = (folder / "report.html").read_text()
    for expected in ("1.90x", "1.71 to 2.09", "embedding_bag", "✓ confirmed", WINNER.id, SOURCE.strip()):
        assert expected in page
    status, out, _ = printed(capsys, folder, "--text")  # a folder is as good as a name
    assert status == 0
    for expected in ("1.90x", "1.71 to 2.09", "confirmed on fresh data", "3.80x over the plain cpp program"):
        assert expected in out


def test_how_the_champion_is_used_is_said_and_what_was_measured_again_too(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(config)
    for _ in story.search():
        pass
    luckier = Program("jagged_sum", "cpp", "// looked best\n")
    story.proposed(luckier)
    story.judged(luckier, scored(2.5), 5)
    story.confirmed(luckier, Rejected("timing", "wrong on main in a timed call"), champion=False)
    story.confirmed(WINNER, scored(1.9))
    story.closed("evaluations")
    story.population.close()
    folder = Path(config.runs_dir) / str(config.name)
    status, out, _ = printed(capsys, folder, "--text")
    assert status == 0
    snippet = ("pip install ./my_kernel", "import jagged_sum", "out = jagged_sum(values, offsets)")
    for line in snippet:
        assert line in out
    (finding,) = review(folder).findings
    assert [(found.id, found.found, found.confirmed) for found in finding.candidates] == [
        (luckier.id, 2.5, None),
        (WINNER.id, 2.0, 1.9),
    ]
    assert printed(capsys, folder)[0] == 0
    page = (folder / "report.html").read_text()
    for expected in (*snippet, "Rejected on fresh data (timing): wrong on main", "champion: the best on fresh data"):
        assert expected in page


def test_a_champion_that_nothing_confirmed_is_not_offered_for_use(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = printed(capsys, tell(config, end=""), "--text")
    assert status == 0
    assert "pip install" not in out


def test_what_speaks_against_a_number_is_said_plainly(config: Config) -> None:
    told = review(tell(config, end=""))
    (finding,) = told.findings
    assert finding.state == "unconfirmed"
    for doubt in ("has not ended", "self-test", "failed 1 times"):
        assert any(doubt in said for said in told.doubts), doubt
    assert any("not confirmed" in said for said in finding.doubts)
    assert any("left out as wrong" in said and "nested on main" in said for said in finding.doubts)

    sure = Measurement("main", "search", 1.0, "bag", 100.0, 50.0, 2.0, (1.95, 2.05), 10.0)
    slow = replace(sure, workload="tall", role="holdout", us=125.0, speedup=0.8, interval=(0.78, 0.82))
    other = replace(config, name="other")
    told = review(tell(other, confirmed=Scored(Fitness.of([sure]), (sure, slow))))
    (finding,) = told.findings
    assert finding.state == "faster"
    assert finding.slower_on == ("tall",)
    assert any("Slower than the fastest baseline on tall (holdout, 0.80x)" in said for said in finding.doubts)
    assert any("gains less on sizes that the search never saw: 0.80x" in said for said in finding.doubts)

    within = replace(sure, interval=(0.9, 2.2))
    told = review(tell(replace(config, name="third"), confirmed=Scored(Fitness.of([within]), (within,))))
    assert told.findings[0].state == "unsure"


def test_what_was_not_measured_is_not_shown_as_won(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    main = scored(2.0).measurements[0]
    folder = begun(config, Scored(Fitness.of([main]), (main, replace(main, workload="half"))))
    (finding,) = review(folder).findings
    assert finding.slower_told == "no search workload; holdout not measured"
    assert any("Not measured on odd" in said for said in finding.doubts)
    assert finding.plain_told == "it is the plain program"
    assert finding.over_plain is None
    told = " ".join(review(folder).told)
    assert "0 of 1 champions are confirmed" in told
    assert "No program was found by search (none was tried)" in told
    page = write(config, folder)
    for expected in ("holdout not measured", "it is the<br>plain program", "not measured: odd", "value first"):
        assert expected in page
    for absent in ("value sure", "Every program, by evaluation", "Where rejects came from", "evaluation 0"):
        assert absent not in page
    assert "python -m kevolve.run resume=true name=story" in page  # what to type to have it confirmed
    status, out, _ = printed(capsys, folder, "--text")
    assert status == 0
    assert "holdout not measured" in out


def test_workloads_and_the_baselines_that_count_there_are_said_beside_the_headline(config: Config) -> None:
    sure = Measurement("main", "search", 1.0, "bag", 100.0, 50.0, 2.0, (1.95, 2.05), 10.0)
    half = replace(sure, workload="half", us=12.5, speedup=8.0, interval=(7.8, 8.2))
    loss = replace(sure, workload="odd", role="holdout", us=500.0, speedup=0.2, interval=(0.19, 0.21))
    folder = begun(
        config, Scored(Fitness.of([sure, half]), (sure, half)), Scored(Fitness.of([sure]), (sure, half, loss))
    )
    (finding,) = review(folder).findings
    assert finding.where_none_is_wrong == pytest.approx(2.0)  # a wrong baseline is left out on `half`
    assert finding.by_dtype == pytest.approx({"float32": 2.0, "bfloat16": 8.0})
    assert (finding.worst_on, finding.worst_holdout, finding.worst_holdout_on) == ("main", 0.2, "odd")
    assert "slower on odd (0.20x)" in finding.claim
    page = write(config, folder)
    for expected in (
        "batch 8, max_length 4; bfloat16; offsets int64; lengths full",
        "with losses",
        "0.20x",
    ):
        assert expected in page


def test_a_program_is_compared_with_the_plain_one_of_its_own_language(config: Config) -> None:
    story = Story(config)
    programs = [
        Program("jagged_sum", "cpp", "// plain\n", origin={"proposer": "seed", "file": "plain.cpp"}),
        Program("jagged_sum", "triton", "# plain\n", origin={"proposer": "seed", "file": "plain.py"}),
        Program("jagged_sum", "triton", "# tuned\n", origin={"proposer": "seed", "kind": "tuned"}),
        Program("jagged_sum", "triton", "# drafted\n", origin={"proposer": "llm", "kind": "draft"}),
    ]
    opening(story)
    for program, speedup in zip(programs, (1.0, 0.5, 2.0, 1.5), strict=True):
        tell_program(story, program, scored(speedup))
    story.population.close()
    (finding,) = review(Path(config.runs_dir) / "story").findings
    assert finding.over_plain == pytest.approx(4.0)
    assert finding.written == "starting program tuned by hand"
    assert finding.tried == 1  # the draft: it has no parents, but was not there before


def begun(config: Config, found: Scored, confirmed: Scored | None = None) -> Path:
    """A run that was interrupted after its only starting program, with or without a confirmation."""
    story = Story(config)
    opening(story)
    plain = Program("jagged_sum", "cpp", "// plain\n", origin={"proposer": "seed", "file": "plain.cpp"})
    tell_program(story, plain, found)
    if confirmed is not None:
        story.confirmed(plain, confirmed, reason="confirmed")
    story.closed("interrupted")
    story.population.close()
    return Path(config.runs_dir) / str(config.name)


def opening(story: Story) -> None:
    """The beginning of a run on three workloads, with a baseline that is wrong in half precision."""
    story.event("opened", config=asdict(story.config), environment={DEVICE: {}}, started=1.8e9)
    facts = {"sizes": {"batch": 8, "max_length": 4}, "index_dtype": "int64", "lengths": "full"}
    facts |= {"values": "normal", "layout": "contiguous"}
    dtypes = {"main": "float32", "half": "bfloat16", "odd": "float32"}
    story.event(
        "surveyed",
        operator="jagged_sum",
        device=DEVICE,
        times_us={name: {"bag": 100.0} for name in dtypes},
        dropped={"half": {"nested": "wrong: out is further from the reference than rounding explains"}},
        workloads={name: facts | {"dtype": dtype} for name, dtype in dtypes.items()},
    )


def tell_program(story: Story, program: Program, verdict: Scored) -> None:
    """A program with its origin, and its verdict."""
    told = {"id": program.id, "language": program.language, "source": story.population.put(program.source)}
    told |= {"parents": [], "origin": dict(program.origin)}
    place = {"operator": "jagged_sum", "device": DEVICE, "island": None}
    story.event("proposed", asked=None, **place, program=told, tokens=0, cost_usd=0.0)
    story.judged(program, verdict, 0)


def test_a_share_below_one_percent_is_not_rounded_to_it() -> None:
    assert [percent(share) for share in (0.0, 0.0004, 0.006, 0.22, 1.3)] == ["0%", "<0.1%", "0.6%", "22%", "130%"]


def test_a_hostile_program_stays_text(config: Config) -> None:
    story = Story(config)
    for _ in story.search():
        pass
    evil = Program("jagged_sum", "cpp", f"// {EVIL}\n", parents=(WINNER.id,), origin={"edits": [EVIL]})
    story.proposed(evil)
    story.judged(evil, scored(3.0), 5)
    worse = Program("jagged_sum", "cpp", f"// worse {EVIL}\n")
    story.proposed(worse)
    story.judged(worse, Rejected("build", EVIL, EVIL), 6)
    story.confirmed(evil, scored(3.0), reason=EVIL)
    story.closed("evaluations")
    story.population.close()
    Reporter(config, pytest.fail).closed(story.summary())
    page = (Path(config.runs_dir) / "story" / "report.html").read_text()
    assert Tags(page).found.count("script") == 2
    assert "img" not in Tags(page).found
    assert "onerror" in page  # it is there to be read


def test_sources_that_are_lost_huge_or_no_text_cost_nothing_but_themselves(config: Config) -> None:
    story = Story(config)
    for _ in story.search():
        pass
    programs = [Program("jagged_sum", "cpp", f"// {n}\n{'x = 1;' * 180_000}", parents=(WINNER.id,)) for n in (1, 2)]
    for number, program in enumerate(programs, start=5):
        story.proposed(program)
        story.judged(program, scored(number), number)
    story.closed("evaluations")
    story.population.close()
    folder = Path(config.runs_dir) / "story"
    page = write(config, folder)
    assert len(page) < 1_000_000
    assert "too large to compare" in page
    history = read_history(folder)
    name = history.searches["jagged_sum", "cpu-test"].entries[WINNER.id].record["source"]
    (folder / "blobs" / name[:2] / name).write_bytes(b"\xff\xfe no text and no zstd")
    assert "cannot be read (lost or damaged)" in write(config, folder)


def write(config: Config, folder: Path) -> str:
    """The page, written anew."""
    assert main([str(folder)]) == 0
    return (folder / "report.html").read_text()


def test_the_data_behind_the_page_is_had_as_json_and_csv(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tell(config, confirmed=scored(1.9))
    _, out, _ = printed(capsys, folder, "--json")
    told = json.loads(out)
    assert told["findings"][0]["speedup"] == pytest.approx(1.9)
    assert told["schema"] == 1
    _, out, _ = printed(capsys, folder, "--csv")
    rows = {row["program"]: row for row in csv.DictReader(out.splitlines())}
    assert len(rows) == len(told["programs"]) == 4
    assert (rows[WINNER.id]["speedup"], rows[WINNER.id]["outcome"]) == ("2.0", "Scored")
    assert {row["speedup"] for row in rows.values() if row["outcome"] != "Scored"} == {""}  # a failure is no number


def test_two_runs_are_shown_beside_each_other_with_a_warning(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(config, confirmed=scored(1.5))
    tell(replace(config, name="other", seed=7), confirmed=scored(3.0))
    status, out, _ = printed(capsys, "--compare", "story", "other", "--runs-dir", config.runs_dir)
    assert status == 0
    assert "seed: 0 (1), 7 (2)" in out
    assert "2.00" in out  # times as fast
    assert "kevolve.champions --operator jagged_sum --from other" in out


def test_bad_input_is_one_message(config: Config, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tell(config)
    status, _, err = printed(capsys, "stroy", "--runs-dir", config.runs_dir)
    assert status == 2
    assert "Did you mean story?" in err
    assert printed(capsys, folder, "--out", tmp_path / "runs" / "story" / "config")[0] == 0
    status, _, err = printed(capsys, folder, "--out", folder / "events.jsonl" / "page.html")  # a folder that is a file
    assert status == 4
    assert "--out FILE" in err

    log = folder / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])  # killed while it wrote
    assert printed(capsys, folder)[0] == 0
    log.write_bytes(whole.replace(b'"Scored"', b'"Sc0red"', 1))
    status, _, err = printed(capsys, folder)
    assert status == 2
    assert "checksum" in err
    log.write_bytes(b"")
    status, _, err = printed(capsys, folder)
    assert status == 2
    assert "nothing has happened" in err
    old = Story(replace(config, name="old"))
    old.event("opened", config={"seed": 0}, started=1.0)  # from a version that told less
    old.population.close()
    status, _, err = printed(capsys, "old", "--runs-dir", config.runs_dir)
    assert status == 2
    assert "event 1 is not what this version of kevolve writes" in err


def test_a_page_that_cannot_be_written_costs_one_warning(config: Config) -> None:
    folder = tell(config)
    (folder / "report.html").mkdir()
    (folder / "report.html" / "in the way").touch()
    warnings: list[str] = []
    Reporter(config, warnings.append).closed(read_history(folder).summary)
    assert len(warnings) == 1
    assert "python -m kevolve.report story" in warnings[0]
    assert sorted(path.name for path in folder.iterdir()) == [
        "blobs",
        "events.jsonl",
        "lock",
        "population",
        "report.html",
    ]


def test_a_run_is_found_by_its_folder_too(config: Config, tmp_path: Path) -> None:
    folder = tell(config)
    assert find_run(str(folder), tmp_path / "nowhere") == folder


def test_listening_imports_nothing_heavy() -> None:
    heavy = "{'jinja2', 'mlflow', 'numpy', 'ray', 'torch'}"
    code = f"import sys, kevolve.report, kevolve.report.__main__; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
