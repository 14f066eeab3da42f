"""Does retrieval find the right document? `python tests/bench/knowledge.py [--misses]`.

The questions are verdicts: recorded ones of real runs, and ones that programs were made to get (`questions.yaml` says
where each comes from). Concerns and words are what the diagnosis makes of the verdict. The right documents were written
down before anybody looked at what is retrieved. Every second question was looked at while the order of documents and
their symptoms were worked on (`tuned`); the others were kept aside.

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
    kept: bool


Order = Callable[[Need], list[str]]


def questions() -> list[Question]:
    """All of them, in the file's order."""
    found = []
    for number, record in enumerate(yaml.safe_load(QUESTIONS.read_text())):
        need = Need(
            record["device"], record["language"], record["operator"], tuple(record["concerns"]), record["words"]
        )
        found.append(Question(record["id"], need, tuple(record["right"]), number % 2 == 1))
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

    def by(ranking: Library, only_words: bool) -> Order:
        def order(need: Need) -> list[str]:
            asked = Need(need.device, need.language, words=need.words) if only_words else need
            return [fit.document.name for fit in ranking.ranked(asked)]

        return order

    return {
        "text alone": by(texts, True),
        "text alone, on the platform": by(on_platform, True),
        "words alone, no diagnosis": by(library, True),
        "platform, concern, technique, text": by(library, False),
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
    parser.add_argument("--misses", action="store_true", help="show the questions of the tuned half that are missed")
    given = parser.parse_args()
    library, asked = Library.open(), questions()
    tuned, kept = [q for q in asked if not q.kept], [q for q in asked if q.kept]
    print(f"{len(asked)} questions, {len(library.documents)} documents; a right one among the first {FIRST}:")
    print(f"{'':38}all    tuned   kept   first one")
    for name, order in orders(library).items():
        shares = [share(asked, order), share(tuned, order), share(kept, order), share(asked, order, 1)]
        print(f"  {name:<34}{''.join(f'{part:>7.0%}' for part in shares)}")
    print(f"a pick takes {milliseconds(library, asked):.2f} ms in the median")
    if given.misses:
        order = orders(library)["platform, concern, technique, text"]
        for question in tuned:
            if not is_found(question, order):
                print(f"{question.id}: {question.need.concerns} wants {question.right}, got {order(question.need)[:4]}")


if __name__ == "__main__":
    main()
