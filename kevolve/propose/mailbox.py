"""The mailbox proposer: requests are readable files, and whoever likes (a person, a coding agent) answers them.

In the run's folder `mailbox/` each request has a folder: `request.md` says everything, `reply.md` is the answer, in
the same forms as a model's: SEARCH/REPLACE blocks or a whole program (`skip` declines). An answer that cannot be read
is moved aside and `problem.md` says why; `verdict.md` comes when the judge has spoken. Nothing is kept elsewhere, so a
request outlives the run and is answered when the run goes on.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.durable import write_atomically
from kevolve.program import Program
from kevolve.propose.context.prompt import Prompt, Prompts, Task, task_of
from kevolve.propose.desk import Call, Desk
from kevolve.propose.diagnosis import diagnose
from kevolve.propose.llm.retrieval import documents_of
from kevolve.propose.proposer import Context, Proposal, PutOff, Refusal, Request
from kevolve.propose.replies import Reading, Unusable, read_reply
from kevolve.secrets import scrubbed
from kevolve.verdict import Scored, Verdict

if TYPE_CHECKING:
    from kevolve.config import ProposerConfig

FOLDER = "mailbox"
LOOK_SECONDS = 0.5  # between looks for an answer; one that is still being written changes from look to look
_README = """\
Each folder here is a request for a program. Read its request.md, then write reply.md beside it: SEARCH/REPLACE blocks
or a whole program, as request.md says at its end, or the word skip. Save it at once, or write it elsewhere and move it.

problem.md says why a reply could not be used (it is then called reply-1.md, and another reply.md is awaited).
verdict.md says what the judge thinks of the program. Agents: python -m kevolve.mcp offers the same as tools.
"""


class Mailbox:
    """Waits for files. A `Resident`."""

    attempts = 3

    def __init__(self, settings: ProposerConfig) -> None:
        self._settings = settings
        self.repairs = settings.repairs

    def begin(self, desk: Desk) -> None:
        """Put the mailbox up in the run's folder."""
        self._desk = desk
        self._prompts = Prompts(self._settings, documents_of(desk.config))
        self._folder = desk.folder / FOLDER
        self._folder.mkdir(exist_ok=True)
        write_atomically(self._folder / "README.md", _README.encode())

    async def close(self) -> None:
        """Nothing is held."""

    async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
        """Whatever is answered. PutOff, with the request left where it is, when the run ends first."""
        task = task_of(request, context, self._settings.port_rate)
        prompt = self._prompts.write(task, request, context)
        again = f"-{request.attempt + 1}" if request.attempt else ""
        folder = self._folder / f"{context.number:04d}-{task.kind}{again}"
        if not (folder / "request.md").exists():
            folder.mkdir(exist_ok=True)
            write_atomically(folder / "request.md", f"{prompt.system}\n{prompt.request}".encode())
        while True:
            text = await self._reply(folder)
            if text.strip().lower() == "skip":
                return Refusal("whoever read the request declined it")
            read = read_reply(text, "stop", prompt.shown, task.language, context.operator)
            record = self._desk.record(context, _call(task, prompt, text, read))
            if isinstance(read, Reading):
                origin = {"proposer": "mailbox", "kind": task.kind, "model": "mailbox", "calls": [record]}
                parents = tuple(dict.fromkeys(program.id for program, _ in task.programs))
                program = Program(context.operator, task.language, read.source, parents, {**origin, "idea": read.idea})
                return Proposal(program)
            _send_back(folder, read)

    def judged(self, number: int, verdict: Verdict) -> None:
        """Say so in the request's folder."""
        folders = sorted(self._folder.glob(f"{number:04d}-*"))
        if folders:
            write_atomically(folders[-1] / "verdict.md", f"{verdict_text(verdict)}\n".encode())

    async def _reply(self, folder: Path) -> str:
        """The text of `reply.md`, once it is there and does not change any more."""
        file, before = folder / "reply.md", ""
        async with self._desk.away():
            while True:
                text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
                if text and text == before:
                    return text
                before = text
                if not text and self._desk.is_over():
                    raise PutOff(f"the run ends; {folder} can be answered until it goes on")
                await asyncio.sleep(LOOK_SECONDS)


def verdict_text(verdict: Verdict) -> str:
    """A verdict in words and, if there are any, the times by workload."""
    rows = verdict.measurements if isinstance(verdict, Scored) else ()
    listed = [f"- {m.workload}: {m.us:.0f} us, {m.speedup:.2f}x over {m.baseline}" for m in rows if m.role == "search"]
    return "\n".join([scrubbed(diagnose(verdict).paragraph), *listed])


def _call(task: Task, prompt: Prompt, text: str, read: Reading | Unusable) -> Call:
    outcome, reason = (read.outcome, read.reason) if isinstance(read, Unusable) else ("program", "")
    documents = tuple({"name": one.name, "because": one.because} for one in prompt.documents)
    said = f"### system\n{prompt.system}\n### user\n{prompt.request}"
    return Call("mailbox", task.kind, said, scrubbed(text), outcome, reason, documents=documents)


def _send_back(folder: Path, why: Unusable) -> None:
    """Move the reply aside and say what is wrong with it."""
    aside = next(path for n in itertools.count(1) if not (path := folder / f"reply-{n}.md").exists())
    (folder / "reply.md").rename(aside)  # first: whoever reads of the problem may answer anew at once
    write_atomically(folder / "problem.md", f"{aside.name}: {why.outcome}: {why.reason}\n".encode())
