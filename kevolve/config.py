"""The schema of conf/: every key that a command accepts, with its type, default, limits and meaning.

Plain dataclasses, so that any room can build a `Config` without Hydra. `kevolve.configuration` composes one
from conf/ and the command line and checks it against the limits given here; `--help` prints the meanings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def key(default: Any, meaning: str, **limits: Any) -> Any:
    """A field of the schema. Limits: `least`, `most` (inclusive), `above` (exclusive), `choices`."""
    return field(default=default, metadata={"meaning": meaning, **limits})


@dataclass
class Budget:
    evaluations: int = key(60, "new judgements per operator and device; reused verdicts are free", least=1)
    minutes: float = key(9.0, "wall clock of the whole run, set-up included", above=0)
    confirmations: int = key(
        3, "how many of the best programs per operator and device are measured again to find the champion", least=1
    )
    target: float | None = key(None, "an operator's search stops at this speedup", above=0)
    roofline: float | None = key(None, "and at this share of the roofline", above=0)
    plateau: int | None = key(None, "and after so many new judgements without anything better", least=1)
    tokens: int | None = key(None, "tokens of models' calls, prompts included; null: no limit", least=1)
    cost_usd: float | None = key(None, "what models' calls may cost, in US dollars; null: no limit", above=0)


@dataclass
class DeviceConfig:
    name: str = key("auto", "auto: a GPU where there is one, else the CPU")


@dataclass
class ProposerConfig:
    name: str = key("genetic", "who makes child programs")
    structure_rate: float = key(
        0.3, "share of mutations that change the genome's edits rather than a parameter", least=0, most=1
    )
    models: list[str] = field(
        default_factory=list,
        metadata={"meaning": "llm: who writes programs, PROVIDER/MODEL; of several, MODEL*WEIGHT for its share"},
    )
    api_base: str | None = key(
        None, "llm: an OpenAI-compatible server, http://HOST:PORT/v1; null: the provider's own address"
    )
    key_variable: str | None = key(
        None, "llm: the environment variable that holds the key; null: the provider's own, such as OPENAI_API_KEY"
    )
    prices: list[str] = field(
        default_factory=list,
        metadata={"meaning": "llm: US dollars per million tokens, MODEL@PROMPT/REPLY, where they are not known"},
    )
    temperature: float | None = key(None, "llm: null for the model's own", least=0)
    context_tokens: int = key(
        24000, "llm, mailbox: what a request may hold; the least important goes first", least=2000
    )
    reply_tokens: int = key(8000, "llm: what a reply may hold, thinking included", least=256)
    concurrency: int = key(16, "llm: calls of one model at the same time; lanes limit them, too", least=1)
    timeout_seconds: float = key(120.0, "llm: until a reply is complete", above=0)
    stall_seconds: float = key(30.0, "llm: between two pieces of a reply that has begun", above=0)
    stream: bool = key(True, "llm: take replies in pieces, so that one that stalls is noticed")
    grammar: bool = key(
        False, "llm: hold replies to edits that apply, for small models behind a llama.cpp server, which takes grammars"
    )
    retries: int = key(3, "llm: of a call that fails for a passing reason (429, 5xx, time-outs)", least=0)
    repairs: int = key(2, "llm, mailbox: in a row, of a program that does not build or is wrong", least=0)
    memory: str = key(
        "both",
        "llm, mailbox: whose outcomes a request tells of: the parents' own line, their other children, both, none",
        choices=("both", "parent", "siblings", "none"),
    )
    port_rate: float = key(
        0.1, "llm, mailbox: share of improvements that change the language, where a device has several", least=0, most=1
    )
    templates: str | None = key(
        None, "llm, mailbox: a folder with texts of your own in place of those of kevolve/propose/templates"
    )


@dataclass
class PolicyConfig:
    name: str = key("islands", "how the next parents are chosen")
    islands: int = key(2, "subpopulations, each evolving by itself", least=1)
    population: int = key(4, "programs an island keeps as possible parents; history keeps all", least=2)
    tournament: int = key(2, "programs drawn for each parent, of which the best wins", least=1)
    crossover_rate: float = key(0.25, "share of requests with two parents", least=0, most=1)
    draft_rate: float = key(0.1, "share of requests that start again from a starting program", least=0, most=1)
    migration_every: int = key(12, "verdicts per operator between migrations; 0 turns migration off", least=0)
    migrants: int = key(1, "programs that an island sends to the next one at a migration", least=1)
    drafts: int = key(2, "independent drafts that each island begins with, before anything is improved", least=0)
    elite_share: float = key(
        0.5, "share of an island's places for the best of each behaviour, the rest goes by fitness", least=0, most=1
    )
    stagnant_after: int = key(
        16, "verdicts of an island without a better program until it is stirred; 0: never", least=0
    )
    patience: int = key(12, "greedy: children in a row that bring nothing, before the next best is improved", least=1)
    exploration: float = key(0.5, "mcts: weight of trying what was tried little", least=0)
    widening: float = key(0.5, "mcts: a program has at most visits ** widening children", above=0, most=1)


@dataclass
class JudgeConfig:
    sandbox: str = key("auto", "never silently weaker than asked", choices=("auto", "bwrap", "landlock", "process"))
    require: str | None = key(
        None, "refuse to judge in a weaker sandbox than this, whatever sandbox says", choices=("bwrap", "landlock")
    )
    build_seconds: float = key(30.0, "the compiler's time for one program", above=0)
    run_seconds: float = key(30.0, "one program on the device, all workloads together", above=0)
    memory_gib: float = key(4.0, "memory that one program may use", above=0)
    max_pairs: int = key(9, "paired timings per workload, at most; fewer when the interval is narrow", least=6)
    confirm_pairs: int = key(30, "the same when a champion is confirmed", least=6)
    self_test: bool = key(
        True, "before a run, find out whether the judge's promises hold on this machine: some seconds"
    )
    baselines: str = key("all", "eager leaves out what torch.compile has to compile first", choices=("all", "eager"))
    landscape: str | None = key(None, "a folder of recorded timings that stand for the device: to try out policies")


@dataclass
class ClusterConfig:
    address: str | None = key(
        None,
        "a Ray cluster to join: HOST:PORT, auto or ray://HOST:PORT; null: RAY_ADDRESS, or else local, Ray for this run",
    )
    cpus: int | None = key(
        None, "cores that Ray may use on this machine; null: all. A cluster's nodes have their own", least=1
    )
    labels: str | None = key(None, "only nodes of the cluster with these Ray labels: pool=h200,zone=a")


@dataclass
class KnowledgeConfig:
    learned: str | None = key("knowledge/learned", "the folder of lessons that runs add to and read; null: none")
    earlier: int = key(2, "programs of earlier runs that a new search starts from too, judged afresh; 0: none", least=0)


@dataclass
class TrackingConfig:
    enabled: bool = key(True, "write the run to MLflow")
    uri: str = key("sqlite:///mlflow.db", "MLflow's store: a database URI or a server's address")
    experiment: str | None = key(
        None, "the MLflow experiment that runs go to; null: kevolve-<experiment>, or kevolve for a run without one"
    )
    traces: bool = key(False, "write each call of a model as an MLflow trace too: prompt, reply, tokens, cost")


@dataclass
class Config:
    operators: list[str] = field(
        default_factory=lambda: ["jagged_sum", "jagged_softmax"], metadata={"meaning": "what to make faster"}
    )
    languages: list[str] = field(
        default_factory=list,
        metadata={"meaning": "what programs are written in; none: every language that the device takes"},
    )
    operator_file: str | None = key(None, "a Python file with an operator of your own, instead of operators=[...]")
    experiment: str | None = key(None, "set by +experiment=NAME")
    name: str | None = key(None, "the run's name and folder; null: <experiment>-<date>-<time>")
    seed: int = key(0, "one lane with the same seed replays the same search", least=0)
    seeds: list[str] = field(
        default_factory=lambda: ["plain"],
        metadata={
            "meaning": "what searches start from: plain, the simplest right programs; tuned, those written by hand to"
            " be fast; inductor, torch.compile's own kernels as Triton programs; each where an operator has them"
        },
    )
    resume: bool = key(False, "go on with the run called name, with the configuration it was started with")
    require: str | None = key(
        None, "better: exit with 3 unless every operator beats its best baseline", choices=("better",)
    )
    runs_dir: str = key("populations/runs", "where run folders are")
    lanes: int | None = key(
        None, "programs under way at the same time, one replays exactly; null: 4, more where a GPU waits for builds",
        least=1,
    )  # fmt: skip
    budget: Budget = field(default_factory=Budget)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    proposer: ProposerConfig = field(default_factory=ProposerConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    knowledge: KnowledgeConfig = field(default_factory=KnowledgeConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
