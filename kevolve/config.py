"""The schema of conf/: every key that a command accepts, with its type, default and meaning."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Budget:
    evaluations: int = 60  # new judgements per operator and device; reused verdicts are free
    minutes: float = 9.0  # wall clock of the whole run, set-up included


@dataclass
class DeviceConfig:
    name: str = "auto"  # auto: every device that this machine has


@dataclass
class ProposerConfig:
    name: str = "genetic"
    structure_rate: float = 0.3  # share of mutations that change the genome's edits rather than a parameter


@dataclass
class PolicyConfig:
    name: str = "islands"
    islands: int = 4
    population: int = 8  # programs an island keeps as possible parents; history keeps all
    tournament: int = 2
    crossover_rate: float = 0.25
    draft_rate: float = 0.1  # share of requests that start again from a starting program
    migration_every: int = 12  # verdicts per operator between migrations; 0 turns migration off
    migrants: int = 1


@dataclass
class JudgeConfig:
    sandbox: str = "auto"  # auto | bwrap | landlock | process: never silently weaker than asked
    build_seconds: float = 30.0
    run_seconds: float = 30.0  # one program on the device, all workloads together
    memory_gib: float = 4.0
    max_pairs: int = 15  # paired timings per workload, at most; fewer when the interval is narrow
    confirm_pairs: int = 30  # the same when a champion is confirmed


@dataclass
class ClusterConfig:
    address: str | None = None  # None starts Ray on this machine
    cpus: int | None = None  # None: all of this machine's


@dataclass
class TrackingConfig:
    enabled: bool = True
    uri: str = "sqlite:///mlflow.db"
    experiment: str = "kevolve"


@dataclass
class Config:
    operators: list[str] = field(default_factory=lambda: ["jagged_sum", "jagged_softmax"])
    experiment: str | None = None  # set by conf/experiment/<name>.yaml
    name: str | None = None  # None: <experiment>-<date>-<time>
    seed: int = 0
    resume: bool = False
    require: str | None = None  # better: exit 3 unless every operator beats its best baseline
    runs_dir: str = "populations/runs"
    lanes: int = 4  # programs under way at the same time; one lane replays exactly
    budget: Budget = field(default_factory=Budget)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    proposer: ProposerConfig = field(default_factory=ProposerConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
