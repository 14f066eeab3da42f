"""Retrieval: which documents does somebody need who has this program, on this device, with these troubles?

First the platform (a document for another device or language is none), then the concern (what is wrong with the
program, and whether a document names its very symptom), then the technique (whether it is about this operator or a
related one, and written for this device rather than for all), and among equals the ranked text: BM25, which SQLite
brings along. Where nobody says what the concern is, the text comes before the technique. Whatever is picked says why.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Self

from kevolve.knowledge.documents import Document, all_documents, paragraphs
from kevolve.knowledge.relatives import are_related

WEIGHTS = (4.0, 3.0, 1.0)  # of a word in the title, the symptoms, the text
CHARACTERS = 12_000  # what a prompt has room for, unless somebody says otherwise
_MOST_DOCUMENTS = 100  # that are tried for the room that is left
_LEAST = 40  # characters that are worth a prompt's while
_CODE = re.compile(r"^```(?P<tag>\w*)\n.*?^```\n?", re.MULTILINE | re.DOTALL)
_TAGS = {"triton": "python"}  # how code in a language is tagged, if not by its name
_PLAIN = ("", "c", "text", "console")  # code that misleads nobody
_MOST_WORDS = 40  # of a need that the text is searched for: a compiler can say thousands


@dataclass(frozen=True)
class Need:
    """What somebody is in need of. `device` is a device key or the beginning of one; empty words stand for any.

    `concerns` are words of the vocabulary, the most pressing first; `words` is free text, such as a verdict's reason.
    """

    device: str
    language: str = ""
    operator: str = ""
    concerns: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class Picked:
    """A document for a need: as much of its text as there is room for, and why it was picked."""

    document: Document
    text: str
    because: str


@dataclass
class _Fit:
    """How well a document meets a need."""

    document: Document
    symptoms: list[str] = field(default_factory=list)
    concerns: list[str] = field(default_factory=list)
    about: str = ""  # the operator of the need, or the related one that it is about
    is_own: bool = False  # about the operator itself
    text: float = 0.0  # BM25, greater is better
    place: int = 0  # among those whose text has something of the words, 1 is best

    def order(self, pressing: Sequence[str]) -> tuple[float, ...]:
        """Greater comes first. Without a diagnosis there are only the words to go by."""
        weight = sum(1.0 / (1 + pressing.index(concern)) for concern in self.concerns)
        technique = self.is_own + 0.5 * bool(self.about) + 0.75 * bool(self.document.devices)
        if not pressing:
            return (bool(self.symptoms), self.text, technique)
        return (bool(self.symptoms) + weight, technique, self.text)


class Library:
    """Documents that can be picked from. Pickles as its documents."""

    def __init__(self, documents: Sequence[Document], related: Callable[[str, str], bool] = are_related):
        self.documents = tuple(documents)
        self._related = related
        self._platforms: dict[tuple[str, str], list[int]] = {}
        self._symptoms = [[(one, _telling(one)) for one in document.symptoms] for document in self.documents]
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute("create virtual table texts using fts5(title, symptoms, body, tokenize='porter unicode61')")
        rows = ((n, d.title, " ".join(d.symptoms), d.text) for n, d in enumerate(self.documents))
        self._index.executemany("insert into texts(rowid, title, symptoms, body) values (?, ?, ?, ?)", rows)

    @classmethod
    def open(cls, learned: Path | None = None) -> Self:
        """kevolve's documents, those of plug-ins, and the lessons in `learned`. UsageError on a bad document."""
        return cls(all_documents(learned))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.documents, self._related)

    def pick(self, need: Need, characters: int = CHARACTERS) -> tuple[Picked, ...]:
        """The documents that fit best, best first, in no more than `characters` characters of text together."""
        picked: list[Picked] = []
        left = characters
        for fit in self.ranked(need)[:_MOST_DOCUMENTS]:
            if left < _LEAST:
                break
            text = _cut(_readable(fit.document.text, need.language), left)
            if text:
                picked.append(Picked(fit.document, text, _because(fit)))
                left -= len(text)
        return tuple(picked)

    def ranked(self, need: Need) -> list[_Fit]:
        """Everything that has something to do with the need, best first."""
        texts = self._search(need.words)
        fits = [fit for fit in self._fits(need, texts) if fit.symptoms or fit.concerns or fit.about or fit.text]
        return sorted(fits, key=lambda fit: (*(-part for part in fit.order(need.concerns)), fit.document.name))

    def _fits(self, need: Need, texts: dict[int, tuple[float, int]]) -> Iterator[_Fit]:
        said = _telling(need.words)
        for number in self._on_platform(need.device, need.language):
            document = self.documents[number]
            about = next((one for one in document.operators if one == need.operator), "")
            is_own = bool(about)
            if not about and document.lesson and need.operator:
                about = next((one for one in document.operators if self._related(need.operator, one)), "")
                if not about:
                    continue  # what another operator taught is of no use here
            text, place = texts.get(number, (0.0, 0))
            symptoms = [symptom for symptom, words in self._symptoms[number] if words <= said]
            concerns = [concern for concern in need.concerns if concern in document.concerns]
            yield _Fit(document, symptoms, concerns, about, is_own, text, place)

    def _on_platform(self, device: str, language: str) -> list[int]:
        """The numbers of the documents for it, doubted lessons apart. Who asks once asks for the same again."""
        if (device, language) not in self._platforms:
            self._platforms[device, language] = [
                number
                for number, document in enumerate(self.documents)
                if document.is_for(device, language) and document.lesson.get("standing") != "doubted"
            ]
        return self._platforms[device, language]

    def _search(self, words: str) -> dict[int, tuple[float, int]]:
        """By number of a document: its BM25, and its place."""
        terms = list(dict.fromkeys(re.findall(r"[^\W_]{2,}", words.lower())))[:_MOST_WORDS]
        if not terms:
            return {}
        question = " OR ".join(f'"{term}"' for term in terms)
        weights = ", ".join(map(str, WEIGHTS))
        rows = self._index.execute(
            f"select rowid, bm25(texts, {weights}) as score from texts where texts match ? order by score", (question,)
        )
        return {number: (-score, place) for place, (number, score) in enumerate(rows, start=1)}


def _telling(text: str) -> frozenset[str]:
    """The words that tell something: a diagnosis hands on words of a verdict, not always its sentences."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return frozenset(word for word in words if len(word) > 3) or frozenset(words)


@lru_cache(maxsize=4096)
def _readable(text: str, language: str) -> str:
    """The text without code in other languages than the need's: somebody who has to guess a dialect would copy it."""
    own = _TAGS.get(language, language)
    return _CODE.sub(lambda code: code[0] if not own or code["tag"] in (own, *_PLAIN) else "", text)


def _cut(text: str, room: int) -> str:
    """The text, or its first paragraphs as far as there is room."""
    if len(text) <= room:
        return text
    kept = ""
    for paragraph in paragraphs(text):
        if len(kept) + len(paragraph) > room:
            break
        kept += paragraph
    return kept


def _because(fit: _Fit) -> str:
    reasons = [f"for {', '.join(fit.document.devices)}"] if fit.document.devices else []
    reasons += [f'it names the symptom "{symptom}"' for symptom in fit.symptoms[:2]]
    if fit.concerns:
        reasons.append(f"it is about {', '.join(fit.concerns)}")
    if fit.about:
        reasons.append(f"it names {fit.about}" if fit.is_own else f"{fit.about}, which is related, taught it")
    if fit.place:
        reasons.append(f"its text is number {fit.place} for these words")
    return f"picked because {'; '.join(reasons)}"
