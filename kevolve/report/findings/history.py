"""The history of a run, read from its events: every program with what became of it, and what was spent on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kevolve.environment import lasting
from kevolve.errors import UsageError, nearest
from kevolve.events import Event, read_events
from kevolve.population import read_text
from kevolve.summary import Summary, Tally

NEEDED = ("judge", "operators", "policy", "proposer", "seed")  # of a configuration, or a version is too old
Place = tuple[str, str]  # operator, device
Record = Mapping[str, Any]


@dataclass
class Entry:
    """One program of a search. `at` is when its verdict came, in seconds of all sessions together.

    `number` is the evaluation it was (0 for a starting program), `measurements` are kept of the few programs that are
    shown in full. While `outcome` is empty it has no verdict; `reused` says that it was another program's.
    """

    id: str
    record: Record
    island: int | None = None
    number: int = 0
    at: float = 0.0
    outcome: str = ""  # Scored, Rejected, Fault
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    worst: float | None = None
    roofline: float | None = None
    stage: str = ""
    reason: str = ""
    seconds: float = 0.0
    reused: bool = False
    measurements: tuple[Record, ...] = ()

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(self.record["parents"])

    @property
    def proposer(self) -> str:
        """Who made it, and with which model."""
        origin = self.record["origin"]
        names = [str(origin[name]) for name in ("proposer", "model") if origin.get(name)]
        return " ".join(dict.fromkeys(names)) or "unknown"

    @property
    def why(self) -> str:
        """What the proposer says that it did."""
        origin = self.record["origin"]
        edits = ", ".join(map(str, origin.get("edits", ())))
        said = [origin.get("idea") or origin.get("kind"), edits or origin.get("file")]
        return ": ".join(str(part) for part in said if part)


@dataclass
class Confirmation:
    """A program measured again on fresh data, at `moment` (seconds since 1970)."""

    program: str
    moment: float
    judgement: Record
    reason: str

    @property
    def verdict(self) -> Record:
        verdict: Record = self.judgement["verdict"]
        return verdict


@dataclass
class SearchHistory:
    """One operator on one device. Times of baselines are in microseconds, by workload and name.

    `workloads` says what each is, `call` how the operator is called from Python; earlier versions of kevolve did not
    write that down, and then they are empty.
    """

    operator: str
    device: str
    times_us: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    dropped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    workloads: Mapping[str, Record] = field(default_factory=dict)
    call: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    confirmations: dict[str, Confirmation] = field(default_factory=dict)
    champion: str | None = None
    leader: str | None = None  # of the first looks
    refused: Counter[str] = field(default_factory=Counter)
    reused: int = 0
    faults: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # by what the device was used for
    tokens: int = 0
    cost_usd: float = 0.0
    operator_version: str = ""  # of the last verdict

    @property
    def best(self) -> Entry | None:
        """The program that the search has to show: its champion, or else what looked best."""
        found = self.champion or self.leader
        return self.entries[found] if found else None


@dataclass
class Session:
    """One time that the command was typed, at `started` (seconds since 1970).

    `ended` is empty if it was killed or still goes on.
    """

    config: Record
    environment: Mapping[str, Record]
    started: float
    ended: str = ""
    trouble: str = ""


@dataclass
class History:
    """A run. `summary` is what `summary.json` says."""

    name: str
    folder: Path
    sessions: list[Session] = field(default_factory=list)
    searches: dict[Place, SearchHistory] = field(default_factory=dict)
    summary: Summary = field(default_factory=Summary)
    judge_versions: set[str] = field(default_factory=set)

    @property
    def config(self) -> Record:
        return self.sessions[-1].config

    @property
    def environment(self) -> Mapping[str, Record]:
        return self.sessions[-1].environment

    def source(self, entry: Entry) -> str | None:
        """The program's text; None if it is not to be had (lost, damaged or no text at all)."""
        try:
            return read_text(self.folder, entry.record["source"])
        except (UsageError, UnicodeDecodeError):
            return None


def find_run(given: str, runs_dir: Path) -> Path:
    """The folder of the run that somebody named. UsageError if there is none, with the names that there are."""
    for folder in (runs_dir / given, Path(given)):
        if (folder / "events.jsonl").is_file():
            return folder
    runs = sorted(path.parent.name for path in runs_dir.glob("*/events.jsonl"))
    listed = f"Runs there: {', '.join(runs)}." if runs else "There are none."
    raise UsageError(
        f"{given}: no such run in {runs_dir}.{nearest(given, runs)}\n  {listed} --runs-dir DIR looks elsewhere."
    )


def read_history(folder: Path) -> History:
    """The history of the run in `folder`.

    UsageError if nothing has happened in it, its log is damaged, or a version wrote it that this one cannot read.
    """
    return history_of(folder, read_events(folder / "events.jsonl"))


def history_of(folder: Path, events: Iterable[Event]) -> History:
    """The same from events that are at hand."""
    reader, last = _Reader(History(folder.resolve().name, folder)), 0
    try:
        for event in events:
            reader.heard(event)
            last = event.seq
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise UsageError(
            f"{folder / 'events.jsonl'}: event {last + 1} is not what this version of kevolve writes "
            f"({type(error).__name__}: {error}).\n  Read the run with the version that made it (its MLflow run or "
            "record.json names it). Nothing was changed."
        ) from None
    if not reader.history.sessions:
        raise UsageError(
            f"{folder.name}: nothing has happened in this run yet: its event log is empty.\n"
            f"  If nobody drives it any more, remove {folder}."
        )
    reader.history.summary = reader.tally.summary()
    return reader.history


class _Reader:
    """Takes one event after the other."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.tally = Tally(history.name)
        self._before = 0.0  # when the event before this one was, in seconds of all sessions

    def heard(self, event: Event) -> None:
        self.tally.heard(event)
        now = self.tally.seconds
        match event.kind:
            case "opened":
                self._opened(event.data, event.data.get("started", event.time))
            case "closed":
                session = self.history.sessions[-1]
                session.ended, session.trouble = event.data["reason"], event.data.get("trouble", "")
            case "surveyed" | "called" | "proposed" | "refused" | "judged" | "confirmed":
                place = (event.data["operator"], event.data["device"])
                search = self.history.searches.setdefault(place, SearchHistory(*place))
                if event.kind == "confirmed":
                    self._confirmed(search, event.data, event.time)
                else:
                    getattr(self, f"_{event.kind}")(search, event.data, now)
        self._before = now

    def _opened(self, data: Record, started: float) -> None:
        for section in NEEDED:
            data["config"][section]
        if self.history.sessions:
            before = self.history.environment
            for search in self.history.searches.values():
                if lasting(data["environment"].get(search.device)) != lasting(before.get(search.device)):
                    # Measured with another toolchain or sandbox: the driver confirms anew, too.
                    search.confirmations, search.champion = {}, None
        self.history.sessions.append(Session(data["config"], data["environment"], started))

    def _surveyed(self, search: SearchHistory, data: Record, now: float) -> None:
        search.times_us, search.dropped = data["times_us"], data["dropped"]
        search.workloads, search.call = data.get("workloads", {}), data.get("call", "")
        search.seconds["baselines"] += now - self._before

    def _called(self, search: SearchHistory, data: Record, now: float) -> None:
        call = data["call"]
        search.tokens += call["prompt_tokens"] + call["reply_tokens"]
        search.cost_usd += call["cost_usd"] or 0.0

    def _proposed(self, search: SearchHistory, data: Record, now: float) -> None:
        search.tokens += data["tokens"]
        search.cost_usd += data["cost_usd"]
        program = data["program"]
        search.entries.setdefault(program["id"], Entry(program["id"], program, data["island"]))

    def _refused(self, search: SearchHistory, data: Record, now: float) -> None:
        search.refused[data["reason"]] += 1

    def _judged(self, search: SearchHistory, data: Record, now: float) -> None:
        judgement, entry = data["judgement"], search.entries[data["program"]]
        verdict = judgement["verdict"]
        search.reused += data["reused"]
        search.faults += verdict["verdict"] == "Fault"
        if data["reused"] and entry.outcome in ("Scored", "Rejected"):
            return
        if not data["reused"]:
            search.seconds["programs"] += judgement["seconds"]
            self.history.judge_versions.add(judgement["key"]["judge_version"])
            search.operator_version = judgement["key"]["operator_version"]
        entry.reused, entry.number, entry.at = data["reused"], data["number"] or 0, now
        entry.seconds, entry.outcome = judgement["seconds"], verdict["verdict"]
        entry.stage, entry.reason = verdict.get("stage") or verdict.get("kind", ""), verdict.get("reason", "")
        if verdict["verdict"] == "Scored":
            self._scored(search, entry, verdict)

    def _scored(self, search: SearchHistory, entry: Entry, verdict: Record) -> None:
        fitness = verdict["fitness"]
        entry.speedup, entry.worst, entry.roofline = fitness["speedup"], fitness["worst"], fitness["roofline"]
        entry.interval = (fitness["interval"][0], fitness["interval"][1])
        leader = search.entries[search.leader] if search.leader else None
        if leader is None or (leader.speedup or 0.0) < entry.speedup:
            if leader is not None and leader.parents:
                leader.measurements = ()
            search.leader = entry.id
            entry.measurements = tuple(verdict["measurements"])
        elif not entry.parents:
            entry.measurements = tuple(verdict["measurements"])

    def _confirmed(self, search: SearchHistory, data: Record, moment: float) -> None:
        judgement = data["judgement"]
        search.seconds["confirmations"] += judgement["seconds"]
        if judgement["verdict"]["verdict"] == "Fault":
            search.faults += 1
        search.confirmations[data["program"]] = Confirmation(data["program"], moment, judgement, data.get("reason", ""))
        if data["champion"]:
            search.champion = data["program"]
