"""Documents: Markdown files with front matter that says for whom they are.

    ---
    title: Sums over the rows of a jagged tensor
    devices: [cpu]                # prefixes of device keys, whole words; none: every device
    languages: [cpp]              # none: every language
    operators: [jagged_sum]       # those it names; others may read it too
    concerns: [memory_bound]      # words of vocabulary.py
    symptoms: [used up its processor time]    # as verdicts, compilers and profilers word it
    ---

A symptom is there when all of its words of four letters or more are. A lesson (`learned.py`) is a document with two
more keys. A file called index.md is for people and is not picked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml

from kevolve.errors import UsageError, nearest
from kevolve.knowledge.vocabulary import CONCERNS
from kevolve.paths import knowledge_dir

GROUP = "kevolve.knowledge"  # entry points: the folder of documents that a package brings for its device
LEARNED = "learned"
LISTS = ("devices", "languages", "operators", "concerns", "symptoms")
KEYS = ("title", *LISTS)
LESSON_KEYS = ("lesson", "evidence")

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Document:
    """One document. `name` is its path within its folder, without the suffix; the last two are a lesson's."""

    name: str
    title: str
    text: str
    devices: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    path: Path = Path()
    lesson: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[Mapping[str, Any], ...] = ()

    def is_for(self, device: str, language: str) -> bool:
        """Is it about this device, or one of its kind, and this language? An empty word stands for any."""
        at_device = not self.devices or any(_share_a_prefix(device, one) for one in self.devices)
        return at_device and (not language or not self.languages or language in self.languages)


def read_document(path: Path, folder: Path) -> Document:
    """The document at `path` within `folder`. UsageError names the file and what is wrong with it."""
    try:
        return parse_document(path.read_text(encoding="utf-8"), path, folder)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the document cannot be read ({error}).") from None


def parse_document(content: str, path: Path, folder: Path) -> Document:
    """The document with this content. UsageError says what is wrong with its front matter."""
    parts = content.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise _wrong(path, "it does not begin with front matter: a line ---, keys, a line ---")
    try:
        front = yaml.load(parts[1], Loader=_Loader)
    except yaml.YAMLError as error:
        raise _wrong(path, f"its front matter is no YAML ({' '.join(str(error).split())})") from None
    if not isinstance(front, dict):
        raise _wrong(path, "its front matter has no keys")
    _check(front, path)
    return Document(
        name=str(path.relative_to(folder).with_suffix("")),
        title=front["title"],
        text=parts[2].strip() + "\n",
        path=path,
        lesson=front.get("lesson", {}),
        evidence=tuple(front.get("evidence", ())),
        **{key: tuple(front.get(key) or ()) for key in LISTS},
    )


def read_folder(folder: Path, *, learned: bool = False) -> list[Document]:
    """Every document of a folder by name. Lessons lie in a folder of their own: with `learned` only those are read."""
    found = sorted(folder.glob("*.md") if learned else folder.rglob("*.md"))
    own = [path for path in found if learned or path.relative_to(folder).parts[0] != LEARNED]
    return [read_document(path, folder) for path in own if path.name != "index.md"]


def folders() -> list[Path]:
    """kevolve's own documents, and those that packages bring for their devices."""
    return [knowledge_dir(), *(Path(entry.load()) for entry in entry_points(group=GROUP))]


def all_documents(learned: Path | None) -> list[Document]:
    """The documents of every folder, and the lessons in `learned`, if it is there."""
    documents = [document for folder in folders() for document in read_folder(folder)]
    return documents + (read_folder(learned, learned=True) if learned is not None and learned.is_dir() else [])


def paragraphs(text: str) -> list[str]:
    """The text in pieces that stand for themselves: divided at empty lines, code whole."""
    pieces: list[list[str]] = [[]]
    in_code = False
    for line in text.splitlines(keepends=True):
        in_code ^= line.startswith("```")
        pieces[-1].append(line)
        if not line.strip() and not in_code:
            pieces.append([])
    return ["".join(piece) for piece in pieces if piece]


@lru_cache(maxsize=4096)
def _share_a_prefix(one: str, other: str) -> bool:
    """Is one the other, or a whole-word beginning of it? `nvidia` is of a kind with `nvidia-h200`, either way round."""
    short, long = sorted((one, other), key=len)
    return not short or long == short or long.startswith(short + "-")


def _check(front: Mapping[Any, Any], path: Path) -> None:
    for key in front:
        if key not in (*KEYS, *LESSON_KEYS):
            raise _wrong(path, f"no key is called {key}.{nearest(str(key), KEYS)} Keys: {', '.join(KEYS)}")
    if not isinstance(front.get("title"), str):
        raise _wrong(path, "it has no title")
    for key in LISTS:
        if not _is_words(front.get(key) or ()):
            raise _wrong(path, f"{key} is not a list of words")
    for concern in front.get("concerns") or ():
        if concern not in CONCERNS:
            raise _wrong(path, f"no concern is called {concern}.{nearest(concern, CONCERNS)}")
    if not isinstance(front.get("lesson", {}), dict) or not _is_records(front.get("evidence", ())):
        raise _wrong(path, "its lesson or evidence is not made of keys with values")


def _is_words(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, str) for one in value)


def _is_records(value: Any) -> bool:
    return isinstance(value, Iterable) and all(isinstance(one, dict) for one in value)


def _wrong(path: Path, what: str) -> UsageError:
    return UsageError(f"{path}: {what}.\n  kevolve/knowledge/documents.py says what a document begins with.")
