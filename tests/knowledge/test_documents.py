"""The knowledge base is sound: what a proposer is told is dated, sourced, links somewhere, and compiles."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from kevolve.errors import UsageError
from kevolve.knowledge.documents import Document, parse_document, read_folder
from kevolve.knowledge.vocabulary import CONCERNS
from kevolve.languages.cpp.headers import HEADER
from kevolve.languages.cuda.screen import check
from kevolve.languages.cuda.source import parsed
from kevolve.languages.registry import LANGUAGES
from kevolve.operators.registry import operator_names
from kevolve.paths import knowledge_dir

DOCUMENTS = read_folder(knowledge_dir())
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")


def snippets(language: str) -> list[tuple[str, str]]:
    return [(d.name, code) for d in DOCUMENTS for kind, code in FENCE.findall(d.text) if kind == language]


def names(documents: list[Document]) -> list[str]:
    return [document.name for document in documents]


def test_there_is_something_for_every_concern_and_every_kind_of_chip() -> None:
    assert len(DOCUMENTS) >= 28
    for concern in CONCERNS:
        assert [d for d in DOCUMENTS if concern in d.concerns], concern
    for chip in ("cpu-any", "nvidia-h200", "nvidia-a100-sxm4-80gb", "nvidia-b200", "amd-mi300x", "amd-mi355x", "mtia"):
        assert [d for d in DOCUMENTS if d.devices and d.is_for(chip, "")], chip


@pytest.mark.parametrize("document", DOCUMENTS, ids=names(DOCUMENTS))
def test_a_document_says_for_whom_it_is_and_how_it_knows(document: Document) -> None:
    assert document.concerns
    assert document.symptoms
    assert set(document.languages) <= set(LANGUAGES)
    assert set(document.operators) <= set(operator_names())
    assert re.search(r"^(Evidence|Source)\b.*: ", document.text, re.MULTILINE)
    assert len(document.text) < 6000  # a prompt has to have room for it


def test_every_link_leads_somewhere_and_the_index_names_every_document() -> None:
    folder = knowledge_dir()
    for file in folder.rglob("*.md"):
        for target in LINK.findall(FENCE.sub("", file.read_text())):
            assert target.startswith("https://") or (file.parent / target).is_file(), f"{file}: {target}"
    listed = {Path(target).with_suffix("").as_posix() for target in LINK.findall((folder / "index.md").read_text())}
    assert listed == set(names(DOCUMENTS))


def test_no_document_refers_to_a_file_of_the_project_that_is_not_there() -> None:
    root = Path(__file__).parents[2]
    for document in DOCUMENTS:
        for name in re.findall(r"`((?:kevolve|tests|conf|populations)/[\w./*-]+)`", document.text):
            assert list(root.glob(name.rstrip("/"))), f"{document.name}: {name}"


def test_code_is_in_a_language_that_is_checked() -> None:
    kinds = {kind for document in DOCUMENTS for kind, _ in FENCE.findall(document.text)}
    assert kinds <= {"cpp", "python", "cuda"}


def test_cpp_compiles_for_both_types_of_values(tmp_path: Path) -> None:
    found = snippets("cpp")
    assert len(found) >= 8
    code = "\n".join(line for _, text in found for line in text.splitlines() if line.startswith("#include"))
    for number, (name, text) in enumerate(found):
        body = re.sub(r"^#include.*$", "", text, flags=re.MULTILINE)
        code += f'\nnamespace snippet_{number} {{\n#line 1 "{name}"\n{body}}}\n'
    source = tmp_path / "snippets.cpp"
    source.write_text(code)
    for value, index in (("float", "int64_t"), ("bfloat16", "int32_t")):
        command = ["g++", "-std=c++17", "-O2", "-fopenmp", "-fsyntax-only", "-Wall", "-Werror", f"-I{HEADER.parent}"]
        command += [f"-DVALUE={value}", f"-DINDEX={index}", str(source)]
        told = subprocess.run(command, capture_output=True, text=True)
        assert told.returncode == 0, told.stderr[:2000]


def test_python_parses_and_its_kernels_are_kernels() -> None:
    found = snippets("python")
    assert len(found) >= 5
    for name, code in found:
        functions = [node for node in ast.parse(code, name).body if isinstance(node, ast.FunctionDef)]
        assert any("triton.jit" in map(ast.unparse, function.decorator_list) for function in functions), name


def test_cuda_parses_and_what_launches_can_be_translated() -> None:
    for name, code in snippets("cuda"):
        assert not parsed(code.encode()).has_error, name
        if 'extern "C"' in code:
            assert check(code, "my_operator") == "", name


@pytest.mark.parametrize(
    ("front", "complaint"),
    [
        ("", "does not begin with front matter"),
        ("---\ntitle: [\n---\ntext", "its front matter is no YAML"),
        ("---\ndevices: [cpu]\n---\ntext", "it has no title"),
        ("---\ntitle: a\nconcerns: [slowness]\n---\ntext", "no concern is called slowness"),
        ("---\ntitle: a\nconcern: [spills]\n---\ntext", "Did you mean concerns?"),
        ("---\ntitle: a\nsymptoms: nan\n---\ntext", "symptoms is not a list of words"),
    ],
)
def test_a_mistake_in_a_document_is_told_with_its_file(front: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_document(front, Path("/notes/mine.md"), Path("/notes"))
    assert "/notes/mine.md" in str(caught.value)
    assert complaint in str(caught.value)
