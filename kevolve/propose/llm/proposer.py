"""The llm proposer: one request becomes a prompt, a model's reply becomes a program, and every call is on record."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from kevolve.program import Program
from kevolve.propose.context.prompt import Prompt, Prompts, Task, task_of
from kevolve.propose.desk import Call, Desk
from kevolve.propose.llm.breaker import Breaker
from kevolve.propose.llm.checking import refuse_unpriced
from kevolve.propose.llm.failures import CallFailed
from kevolve.propose.llm.grammar import edits_of
from kevolve.propose.llm.models import Price, chosen, prices, shares
from kevolve.propose.llm.retrieval import documents_of
from kevolve.propose.llm.spending import Spending
from kevolve.propose.proposer import Context, Proposal, Refusal, Request
from kevolve.propose.replies import Reading, Unusable, read_reply
from kevolve.secrets import scrubbed
from kevolve.verdict import Verdict

if TYPE_CHECKING:
    from kevolve.config import ProposerConfig
    from kevolve.propose.llm.client import Client, Messages, Reply

TALKS = 4  # that may fail before a request does: one more than the breaker bears of a model in a row
MENDABLE = ("no match", "no program")  # what is wrong with a reply that one more turn may put right


class Llm:
    """Asks models. A `Resident`: it holds the keys, the budget and the connections."""

    attempts = 2

    def __init__(self, settings: ProposerConfig) -> None:
        self._settings = settings
        self.repairs = settings.repairs
        self._weights = shares(settings.models)
        self._prices = prices(settings.prices)
        self._breaker = Breaker(self._weights)
        self._client: Client | None = None

    def begin(self, desk: Desk) -> None:
        """Import litellm and look at keys and prices; UsageError if something is missing."""
        from kevolve.propose.llm.client import Client

        self._desk, budget = desk, desk.config.budget
        self._prompts = Prompts(self._settings, documents_of(desk.config))
        self._client = client = Client(self._settings, list(self._weights), self._prices)
        refuse_unpriced(desk.config, client, self._weights)
        self._spending = Spending(budget.tokens, budget.cost_usd, desk.tokens, desk.cost_usd)

    async def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            await self._client.close()

    def judged(self, number: int, verdict: Verdict) -> None:
        """The next request tells it, if it matters."""

    async def propose(self, request: Request, context: Context) -> Proposal | Refusal:
        """A child by a model, or a refusal with what was wrong with its reply. See `Resident` for what it raises."""
        generator = random.Random(f"{request.seed}/{request.attempt}")
        task = task_of(request, context, self._settings.port_rate)
        prompt = self._prompts.write(task, request, context)
        for _ in range(TALKS):
            model = chosen(self._breaker.usable(), generator)
            talk = _Talk(self, model, task, prompt, context)
            try:
                read = await talk.run()
            except CallFailed as error:
                failure = error  # the breaker counts it, too: it may be the model's trouble and not the request's
            else:
                return self._answer(read, talk, task, context)
        raise failure

    def _answer(self, read: Reading | Unusable, talk: _Talk, task: Task, context: Context) -> Proposal | Refusal:
        if isinstance(read, Unusable):
            return Refusal(f"{talk.model}: {read.outcome}: {read.reason.splitlines()[0]}")
        origin: dict[str, Any] = {"proposer": "llm", "kind": task.kind, "model": talk.model, "calls": talk.calls}
        if read.idea:
            origin["idea"] = scrubbed(read.idea)
        parents = tuple(dict.fromkeys(program.id for program, _ in task.programs))
        return Proposal(Program(context.operator, task.language, read.source, parents, origin))

    async def call(self, model: str, messages: Messages, grammar: str) -> tuple[Reply, float | None]:
        """A reply and its cost (None where no price is known), with what it may take set aside before."""
        from kevolve.propose.llm.client import tokens_of

        assert self._client is not None
        price = self._client.price(model)
        asked = sum(tokens_of(message["content"]) for message in messages)
        most = self._settings.reply_tokens
        # Waiting for room in the budget is waiting for other calls, so it must not keep them from coming back, either.
        async with (
            self._desk.away(),
            self._spending.reserved(asked + most, cost(price, asked, most) or 0.0) as reserved,
        ):
            try:
                reply = await self._client.complete(model, messages, grammar)
            except CallFailed as failure:
                wasted = failure.prompt_tokens + failure.reply_tokens
                reserved.spend(wasted, cost(price, failure.prompt_tokens, failure.reply_tokens) or 0.0)
                self._breaker.failed(model, failure)
                raise
            spent = cost(price, reply.prompt_tokens, reply.reply_tokens)
            reserved.spend(reply.prompt_tokens + reply.reply_tokens, spent or 0.0)
        self._breaker.succeeded(model)
        return reply, spent

    def price(self, model: str) -> Price | None:
        """See `Client.price`."""
        assert self._client is not None
        return self._client.price(model)

    def record(self, context: Context, call: Call) -> dict[str, Any]:
        """Store a call; returns its record."""
        return self._desk.record(context, call)

    def grammar(self, prompt: Prompt, task: Task, context: Context) -> str:
        """What replies are held by; empty where they are free."""
        if not self._settings.grammar or task.is_rewrite:
            return ""
        return edits_of(prompt.shown, task.language, context.operator)

    def mend(self, reason: str) -> str:
        """See `Prompts.mend`."""
        return self._prompts.mend(reason)


class _Talk:
    """One request's conversation with one model: at most two turns. `calls` are the records of what was stored."""

    def __init__(self, llm: Llm, model: str, task: Task, prompt: Prompt, context: Context) -> None:
        self._llm, self.model, self._task, self._prompt, self._context = llm, model, task, prompt, context
        self.calls: list[dict[str, Any]] = []
        self._grammar = llm.grammar(prompt, task, context)
        system, user = prompt.system, prompt.request
        self._messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]

    async def run(self) -> Reading | Unusable:
        """What came of it. Raises CallFailed."""
        text, read = await self._turn(self._task.kind)
        if isinstance(read, Unusable) and read.outcome in MENDABLE:
            self._messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": self._llm.mend(read.reason)},
            ]
            try:
                _, read = await self._turn("edit")
            except CallFailed:
                return read  # to begin anew would pay for the first turn again
        return read

    async def _turn(self, purpose: str) -> tuple[str, Reading | Unusable]:
        try:
            reply, cost_usd = await self._llm.call(self.model, self._messages, self._grammar)
        except CallFailed as failure:
            tokens = (failure.prompt_tokens, failure.reply_tokens)
            lost = cost(self._llm.price(self.model), *tokens) if any(tokens) else 0.0
            self._store(purpose, "", Unusable("failed", str(failure)), tokens, lost)
            raise
        text = scrubbed(reply.text)
        shown, language = self._prompt.shown, self._task.language
        read = read_reply(text, reply.finish, shown, language, self._context.operator)
        self._store(purpose, text, read, (reply.prompt_tokens, reply.reply_tokens), cost_usd, reply.seconds)
        return text, read

    def _store(
        self,
        purpose: str,
        text: str,
        read: Reading | Unusable,
        tokens: tuple[int, int],
        cost_usd: float | None,
        seconds: float = 0.0,
    ) -> None:
        documents = tuple({"name": one.name, "because": one.because} for one in self._prompt.documents)
        prompt = "\n".join(f"### {message['role']}\n{message['content']}" for message in self._messages)
        outcome, reason = (read.outcome, read.reason) if isinstance(read, Unusable) else ("program", "")
        call = Call(self.model, purpose, prompt, text, outcome, reason, *tokens, cost_usd, round(seconds, 3), documents)
        self.calls.append(self._llm.record(self._context, call))


def cost(price: Price | None, prompt_tokens: int, reply_tokens: int) -> float | None:
    """US dollars, or None where no price is known."""
    return None if price is None else price.of(prompt_tokens, reply_tokens)
