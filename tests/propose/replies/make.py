"""Makes replies.jsonl beside this file: what SmolLM2-135M really writes when it is asked for edits of programs.

    python -m kevolve.propose.llm.local --port 8089 --parallel 4 &
    python tests/propose/replies/make.py http://127.0.0.1:8089

No grammar holds it, so hardly anything is in the form that was asked for. The prompts are kevolve's own, whole or
only the program and the form of an answer, some after an example of a right answer, and some after a complaint.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevolve.config import ProposerConfig
from kevolve.judge.lease import Survey
from kevolve.operators.registry import load_operator
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.propose.context.prompt import Prompts, task_of
from kevolve.propose.context.templates import Templates
from kevolve.propose.proposer import Context, Request

FILE = Path(__file__).parent / "replies.jsonl"
REPLY_TOKENS = {"kevolve": 320, "small": 200}
EXAMPLE = ("out[i] = 2.0f * value;", "out[i] = value + value;")
OPERATORS = {"jagged_sum": ("cpp", "triton"), "jagged_mean": ("cpp", "triton"), "dense_to_jagged": ("cpp",)}
# The model is quicker, and closer to the mark, with these.
SMALL = {
    "scaled": "    for (int64_t i = 0; i < count; i++) {\n        out[i] = 3.0f * x[i];\n    }\n",
    "clipped": (
        "    for (int64_t i = 0; i < count; i++) {\n        float value = x[i];\n"
        "        out[i] = value > 0.0f ? value : 0.0f;\n    }\n"
    ),
    "total": (
        "    float sum = 0.0f;\n    for (int64_t i = 0; i < count; i++) {\n        sum += x[i];\n    }\n"
        "    out[0] = sum;\n"
    ),
    "reversed": "    for (int64_t i = 0; i < count; i++) {\n        out[count - 1 - i] = x[i];\n    }\n",
}
HEAD = '#include "kevolve.h"\n\nextern "C" void {name}(const VALUE *x, VALUE *out, int64_t count) {{\n'


@dataclass(frozen=True)
class Case:
    """One reply to be had. `style` names the prompt; program is the seed of the operator in the language."""

    operator: str
    language: str
    style: str
    seed: int

    @property
    def source(self) -> str:
        if self.operator in SMALL:
            return f"{HEAD.format(name=self.operator)}{SMALL[self.operator]}}}\n"
        return (seeds_dir() / self.operator / f"plain.{'cpp' if self.language == 'cpp' else 'py'}").read_text()


def cases() -> Iterator[Case]:
    """All of them; those of one prompt stand together, for the server's cache."""
    for operator, languages in OPERATORS.items():
        yield from (Case(operator, "cpp", "whole request", seed) for seed in range(2))
        for language in languages:
            for style in ("form", "example", "plain words"):
                yield from (Case(operator, language, style, seed) for seed in range(6))
        if len(languages) > 1:
            yield from (Case(operator, "cpp", "complaint", seed) for seed in range(4))
    for operator in SMALL:
        for style in ("form", "example", "plain words", "complaint"):
            yield from (Case(operator, "cpp", style, seed) for seed in range(8))


def messages(case: Case) -> list[dict[str, str]]:
    """The conversation that the model is to go on with."""
    form = Templates().text("format_edits", {})
    fence = "python" if case.language == "triton" else case.language
    program = f"```{fence}\n{case.source}```"
    if case.style == "whole request":
        operator = load_operator(case.operator)
        times = {w.name: {"eager": 90.0} for w in operator.workloads}
        parent = Program(case.operator, case.language, case.source)
        request = Request("improve", (parent.id,), 1)
        context = Context(
            case.operator, "cpu", ((parent, None),), (parent,), 1, ("cpp",), {}, Survey(case.operator, "cpu", times)
        )
        prompt = Prompts(ProposerConfig(), _Nothing()).write(task_of(request, context, 0.0), request, context)
        return [_said("system", prompt.system), _said("user", prompt.request)]
    if case.style == "plain words":
        words = "Make this program faster. Answer with the whole new program in one fenced block and nothing else."
        return [_said("user", f"{program}\n\n{words}")]
    asked = f"Make this program faster.\n\n{program}\n\n{form}"
    if case.style == "form":
        return [_said("user", asked)]
    if case.style == "complaint":
        mend = Templates().text("mend", {"reason": "there is neither a SEARCH/REPLACE block nor a program"})
        return [_said("user", asked), _said("assistant", "Idea: use fewer loads."), _said("user", mend)]
    old, new = EXAMPLE
    twice = f"void twice(const float *x, float *out, long n) {{\n    {old}\n}}"
    answer = f"Idea: an addition is cheaper.\n\n<<<<<<< SEARCH\n    {old}\n=======\n    {new}\n>>>>>>> REPLACE"
    return [
        _said("user", f"Make this program faster.\n\n```cpp\n{twice}\n```\n\n{form}"),
        _said("assistant", answer),
        _said("user", f"Make this program faster.\n\n{program}\n\nAnswer in the same form."),
    ]


def reply(address: str, case: Case) -> dict[str, Any]:
    """The reply as it is stored."""
    body = {
        "messages": messages(case),
        "max_tokens": REPLY_TOKENS["small" if case.operator in SMALL else "kevolve"],
        "seed": case.seed,
        "temperature": (0.2, 0.8, 1.0)[case.seed % 3],
    }
    request = urllib.request.Request(
        f"{address}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=3600) as answer:
        (choice,) = json.load(answer)["choices"]
    text = choice["message"]["content"] or ""
    return {**vars(case), "finish": choice["finish_reason"], "text": text}


class _Nothing:
    """No documents: the model has no room for them."""

    def documents(self, need: object) -> tuple[()]:
        return ()


def _said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def main() -> None:
    done = len(FILE.read_text(encoding="utf-8").splitlines()) if FILE.exists() else 0  # it goes on where it stopped
    with ThreadPoolExecutor(4) as pool, FILE.open("a", encoding="utf-8") as file:
        for made in pool.map(lambda case: reply(sys.argv[1], case), list(cases())[done:]):
            file.write(json.dumps(made, ensure_ascii=False) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
