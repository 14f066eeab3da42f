"""Does retrieval find the right document? `python tests/bench/knowledge.py [--misses]`.

The questions are verdicts: recorded ones of real runs, and ones that faulty programs and exploits were made to get
(`questions.yaml` says where each comes from). Concerns and words are what the diagnosis makes of the verdict. The right
documents were written down, and committed, before anybody looked at what is retrieved, and no document was changed
because of what came out.

Beside the real order: the ranked text alone, over all documents and over those for the device and language.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from kevolve.knowledge import Document, Library, Need

QUESTIONS = Path(__file__).with_name("questions.yaml")
FIRST = 3


@dataclass(frozen=True)
class Question:
    """A need, and the documents of which one has to be among the first three."""

    id: str
    need: Need
    right: tuple[str, ...]
    is_recorded: bool


Order = Callable[[Need], list[str]]


def questions() -> list[Question]:
    """All of them, in the file's order."""
    found = []
    for record in yaml.safe_load(QUESTIONS.read_text()):
        need = Need(
            record["device"], record["language"], record["operator"], tuple(record["concerns"]), record["words"]
        )
        found.append(Question(record["id"], need, tuple(record["right"]), record["source"].startswith("run ")))
    return found


def share(asked: Sequence[Question], order: Order, first: int = FIRST) -> float:
    """How many of the questions have a right document among the first few."""
    return sum(is_found(question, order, first) for question in asked) / len(asked)


def is_found(question: Question, order: Order, first: int = FIRST) -> bool:
    return bool(set(order(question.need)[:first]) & set(question.right))


def orders(library: Library) -> dict[str, Order]:
    """The ways to rank that are compared."""
    texts = Library([bare(document) for document in library.documents])
    on_platform = Library([replace(bare(d), devices=d.devices, languages=d.languages) for d in library.documents])

    def text_alone(ranking: Library, need: Need) -> list[str]:
        fits = ranking.ranked(Need(need.device, need.language, words=need.words))
        return [fit.document.name for fit in sorted(fits, key=lambda fit: -fit.text)]

    def picked(need: Need) -> list[str]:
        return [fit.document.name for fit in library.ranked(need)]

    return {
        "text alone": lambda need: text_alone(texts, need),
        "text alone, on the platform": lambda need: text_alone(on_platform, need),
        "words alone, no diagnosis": lambda need: picked(replace(need, concerns=(), operator="")),
        "platform, concern, technique, text": picked,
    }


def bare(document: Document) -> Document:
    """The document as a search engine sees it: its symptoms are text, and nothing is for anybody."""
    text = f"{' '.join(document.symptoms)}\n{document.text}"
    return Document(document.name, document.title, text)


def milliseconds(library: Library, asked: Sequence[Question]) -> float:
    """The median time of a pick."""
    times = []
    for question in asked:
        start = time.perf_counter()
        library.pick(question.need)
        times.append(1000 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--misses", action="store_true", help="show the questions that are missed")
    given = parser.parse_args()
    library, asked = Library.open(), questions()
    recorded, provoked = [q for q in asked if q.is_recorded], [q for q in asked if not q.is_recorded]
    print(f"{len(asked)} questions, {len(library.documents)} documents; a right one among the first {FIRST}:")
    print(f"{'':37}all ({len(recorded)} recorded, {len(provoked)} provoked); the first one alone")
    for name, order in orders(library).items():
        shares = [share(asked, order), share(recorded, order), share(provoked, order), share(asked, order, 1)]
        print(f"  {name:<34}{''.join(f'{part:>7.0%}' for part in shares)}")
    print(f"a pick takes {milliseconds(library, asked):.2f} ms in the median")
    if given.misses:
        order = orders(library)["platform, concern, technique, text"]
        for question in asked:
            if not is_found(question, order):
                print(f"{question.id}: {question.need.concerns} wants {question.right}, got {order(question.need)[:4]}")


if __name__ == "__main__":
    main()
