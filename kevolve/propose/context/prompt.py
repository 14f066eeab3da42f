"""The prompt: one request, written out for whoever is to write the program."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kevolve.errors import FaultsStopped
from kevolve.knowledge import Need
from kevolve.program import Program
from kevolve.propose.context import blocks
from kevolve.propose.context.fitting import CHARACTERS_PER_TOKEN, Block, TooLong, fitted
from kevolve.propose.context.relatives import relatives
from kevolve.propose.context.templates import Templates
from kevolve.propose.diagnosis import Diagnosis, diagnose
from kevolve.propose.llm.retrieval import Documents, Picked
from kevolve.secrets import scrubbed
from kevolve.verdict import Measurement, Scored, Verdict

if TYPE_CHECKING:
    from kevolve.config import ProposerConfig
    from kevolve.operators.operator import Operator
    from kevolve.propose.proposer import Context, Kind, Request

_AGAIN = "Your last answer was a program that has been judged already. Do something else this time."


@dataclass(frozen=True)
class Task:
    """What is to be done: a kind of request, the programs it starts from, and the language of the result.

    Edits apply to the first program, unless the result is in another language.
    """

    kind: Kind
    programs: tuple[tuple[Program, Verdict | None], ...]
    language: str

    @property
    def is_rewrite(self) -> bool:
        """Must the answer be a whole program?"""
        return self.programs[0][0].language != self.language


@dataclass(frozen=True)
class Prompt:
    """The words, and what an answer is read with: `shown` is the source that edits apply to."""

    system: str
    request: str
    shown: str
    documents: tuple[Picked, ...] = ()


def task_of(request: Request, context: Context, port_rate: float) -> Task:
    """What the request comes to. Drafts start from a starting program; some improvements change the language."""
    generator = random.Random(f"{request.seed}/{request.attempt}/task")
    if request.kind == "draft" or not context.parents:
        seed = generator.choice(context.seeds)
        return Task("draft", ((seed, context.seed_verdicts.get(seed.id)),), seed.language)
    language = context.parents[0][0].language
    others = [name for name in context.languages if name != language]
    if request.kind == "port" or (request.kind == "improve" and others and generator.random() < port_rate):
        return Task("port", context.parents[:1], generator.choice(others or [language]))
    return Task(request.kind, context.parents, language)


class Prompts:
    """Writes prompts by a run's settings."""

    def __init__(self, settings: ProposerConfig, documents: Documents) -> None:
        self._settings = settings
        self._documents = documents
        self._templates = Templates(settings.templates)

    def write(self, task: Task, request: Request, context: Context) -> Prompt:
        """The prompt for a task. FaultsStopped if not even what must be in it fits the budget."""
        diagnoses = [diagnose(verdict) for _, verdict in task.programs]
        picked = tuple(self._documents.documents(_need(task, context, diagnoses)))
        operator = _operator(context.operator, tuple(context.survey.times_us if context.survey else ()))
        parts = [
            blocks.contract(operator),
            blocks.workloads(operator, context.survey, _measured(task)),
            blocks.device(context.device, context.environment),
            blocks.documents(picked),
            *relatives(context.history, self._settings.memory),
            blocks.parents(task.programs, diagnoses),
            *self._said(task, request, context),
        ]
        budget = int(self._settings.context_tokens * CHARACTERS_PER_TOKEN)
        system = self._templates.text("system", {})
        try:
            kept = fitted(parts, budget - len(system))
        except TooLong as much:
            least = int((much.characters + len(system)) / CHARACTERS_PER_TOKEN) + 1
            raise FaultsStopped(
                f"proposer.context_tokens={self._settings.context_tokens}: a request for {context.operator} takes"
                f" {least} tokens without any history or documents. Type proposer.context_tokens={2 * least}, or more"
            ) from None
        text = self._templates.text("request", {block.name: block.text for block in kept})
        shown = _frame(task, context)
        in_it = next(block for block in kept if block.name == "documents")
        return Prompt(system, scrubbed(text), shown, picked[: len(in_it.items)])

    def mend(self, reason: str) -> str:
        """What is said to a reply that could not be applied."""
        return scrubbed(self._templates.text("mend", {"reason": reason}))

    def _said(self, task: Task, request: Request, context: Context) -> list[Block]:
        """What is to be done, in which language, and in which form."""
        about = {"operator": context.operator, "language": task.language, "device": context.device}
        best = context.history.best_speedup
        what = self._templates.text(task.kind, about) + (
            f"The best program so far is at {best:.2f}x.\n" if best else ""
        )
        rules = f"language_{task.language}"
        form = "format_whole" if task.is_rewrite else "format_edits"
        return [
            Block("task", f"{what}{_AGAIN if request.attempt else ''}"),
            Block("language", self._templates.text(rules, about) if self._templates.has(rules) else ""),
            Block("format", self._templates.text(form, {})),
        ]


def _frame(task: Task, context: Context) -> str:
    """The source that an answer is read against: the first program, or one in the language of the result."""
    if not task.is_rewrite:
        return task.programs[0][0].source
    return next((seed.source for seed in context.seeds if seed.language == task.language), "")


def _need(task: Task, context: Context, diagnoses: list[Diagnosis]) -> Need:
    concerns = tuple(dict.fromkeys(concern for one in diagnoses for concern in one.concerns))
    words = " ".join([task.kind, context.operator.replace("_", " "), *(one.words for one in diagnoses)])
    return Need(context.device, task.language, context.operator, concerns, words)


def _measured(task: Task) -> Mapping[str, Measurement]:
    found: dict[str, Measurement] = {}
    for _, verdict in task.programs:
        if isinstance(verdict, Scored):
            found |= {m.workload: m for m in verdict.measurements}
    return found


@cache
def _operator(name: str, surveyed: tuple[str, ...]) -> Operator:
    """The operator with the workloads that were surveyed: those of a GPU are others."""
    from kevolve.operators.registry import OWN_SECTIONS, load_operator

    for device in ("cpu", *OWN_SECTIONS):
        operator = load_operator(name, device)
        if {w.name for w in operator.workloads if w.role == "search"} <= set(surveyed):
            return operator
    return load_operator(name)
