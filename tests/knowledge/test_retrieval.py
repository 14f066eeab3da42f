"""Who needs what: the right documents come first, say why, fit the room, and come quickly."""

from __future__ import annotations

import json
import pickle
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kevolve.knowledge import Document, Library, Need
from kevolve.knowledge.__main__ import main
from kevolve.knowledge.relatives import are_related
from kevolve.knowledge.vocabulary import CONCERNS

CPU = "cpu-intel-xeon-processor-6-207"


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.open()


def picked(library: Library, need: Need, characters: int = 60_000) -> list[str]:
    return [one.document.name for one in library.pick(need, characters)]


def lesson(operator: str, standing: str = "stands") -> Document:
    told = {"id": "1", "kind": "gain", "subject": "jam", "standing": standing}
    return Document(
        f"of-{operator}", "jam", "jam helps", (CPU,), ("cpp",), (operator,), ("compute_bound",), lesson=told
    )


def test_nothing_for_another_device_or_language_is_picked(library: Library) -> None:
    need = Need(CPU, "cpp", "jagged_sum", tuple(CONCERNS), "h200 mi300x warp tensor triton tl.dot shared memory")
    for one in library.pick(need, 10**6):
        assert not one.document.devices or "cpu" in one.document.devices
        assert "triton" not in one.document.languages


@pytest.mark.parametrize(("language", "tags"), [("cpp", {"cpp"}), ("triton", set()), ("opencl", set()), ("", {"cpp"})])
def test_code_in_another_language_is_left_out(library: Library, language: str, tags: set[str]) -> None:
    texts = [one.text for one in library.pick(Need("my-chip", language, "", tuple(CONCERNS)), 10**6)]
    assert {tag for text in texts for tag in re.findall(r"^```(\w+)$", text, re.MULTILINE)} == tags


def test_a_chip_gets_its_own_documents_and_those_of_its_kind(library: Library) -> None:
    names = picked(library, Need("nvidia-h200", "triton", "jagged_softmax", ("low_occupancy",), "occupancy registers"))
    assert "hardware/nvidia/hopper" in names
    assert "hardware/nvidia/occupancy-and-spills" in names
    assert not [name for name in names if "ampere" in name or "blackwell" in name or "/amd/" in name]


def test_a_concern_counts_more_than_words(library: Library) -> None:
    words = "offsets segments softmax columns rows lanes"
    names = picked(library, Need(CPU, "cpp", "jagged_softmax", ("compile_error",), words))
    assert set(names[:2]) == {"guidance/builds", "constraints/cpp-source"}
    assert names[2] == "guidance/jagged-patterns"


def test_bandwidth_on_a_gpu_brings_what_is_known_of_its_memory(library: Library) -> None:
    names = picked(library, Need("nvidia-h200", "triton", "jagged_softmax", ("memory_bound",)))
    assert set(names[:2]) == {"hardware/nvidia/hopper-memory", "guidance/triton-jagged"}


def test_a_symptom_in_the_verdict_finds_its_document_without_a_diagnosis(library: Library) -> None:
    need = Need(CPU, "cpp", words="was ended by SIGFPE (Floating point exception) on b0")
    first = library.pick(need)[0]
    assert first.document.name == "guidance/crashes"
    assert 'it names the symptom "SIGFPE"' in first.because


def test_every_document_that_is_picked_says_why(library: Library) -> None:
    need = Need("nvidia-h200", "triton", "jagged_dense_bmm", ("compute_bound",), "tf32 products are slow")
    for one in library.pick(need):
        assert one.because.startswith("picked because ")


def test_the_texts_fit_the_room_and_are_cut_between_paragraphs() -> None:
    code = "```cpp\nint a;\n\nint b;\n```\n"
    library = Library([Document("long", "long", f"Start.\n\n{code}\n{'more ' * 100}\n")])
    (one,) = library.pick(Need(CPU, words="start"), 100)
    assert one.text == f"Start.\n\n{code}\n"
    assert library.pick(Need(CPU, words="start"), 5) == ()


def test_a_lesson_is_for_its_operator_and_its_relatives_only() -> None:
    library = Library([lesson("jagged_sum")])
    assert picked(library, Need(CPU, "cpp", "jagged_sum", ("compute_bound",))) == ["of-jagged_sum"]
    (one,) = library.pick(Need(CPU, "cpp", "jagged_mean", ("compute_bound",)))
    assert "jagged_sum, which is related" in one.because
    assert picked(library, Need(CPU, "cpp", "jagged_layer_norm", ("compute_bound",))) == []


def test_a_doubted_lesson_is_not_picked() -> None:
    library = Library([lesson("jagged_sum", "doubted")])
    assert picked(library, Need(CPU, "cpp", "jagged_sum", ("compute_bound",))) == []


def test_operators_are_related_when_their_plain_programs_read_alike() -> None:
    assert are_related("jagged_sum", "jagged_mean")
    assert are_related("dense_to_jagged", "jagged_dense_elementwise_add")
    assert not are_related("jagged_layer_norm", "dense_to_jagged")
    assert not are_related("jagged_sum", "nobody_knows_this")


def test_a_thousand_documents_are_searched_while_nobody_notices(library: Library) -> None:
    many = [
        Document(f"{n}/{d.name}", f"{d.title} {n}", d.text, d.devices, d.languages, d.operators, d.concerns, d.symptoms)
        for n in range(1000 // len(library.documents) + 1)
        for d in library.documents
    ]
    large = Library(many)
    assert len(large.documents) >= 1000
    words = "wrong on d1 adversarial out is further from the reference than rounding explains " * 3
    times = []
    for _ in range(9):
        start = time.process_time()
        large.pick(Need(CPU, "cpp", "jagged_softmax", ("wrong_values", "precision"), words))
        times.append(time.process_time() - start)
    assert min(times) < 0.1  # `tests/bench/knowledge.py` says how long it takes: a few milliseconds


def test_a_device_plug_in_brings_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dialect.md").write_text(
        "---\ntitle: The dialect\ndevices: [mychip]\nconcerns: [compile_error]\n---\nx\n"
    )
    entry = SimpleNamespace(load=lambda: str(tmp_path))
    monkeypatch.setattr("kevolve.knowledge.documents.entry_points", lambda group: [entry])
    names = picked(Library.open(), Need("mychip-2", concerns=("compile_error",)))
    assert names[0] == "dialect"
    assert "guidance/builds" not in names


def test_a_library_travels(library: Library) -> None:
    need = Need(CPU, "cpp", "jagged_sum", ("timeout",), "did not finish")
    assert picked(pickle.loads(pickle.dumps(library)), need) == picked(library, need)


def test_the_command_shows_what_a_proposer_would_get(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["did", "not", "finish", "--device", "cpu", "--operator", "jagged_sum"]) == 0
    shown = capsys.readouterr().out
    assert "guidance/crashes" in shown
    assert "picked because" in shown
    assert main(["--concern", "spills", "--device", "nvidia-h200", "--json"]) == 0
    assert "hardware/nvidia/occupancy-and-spills" in [one["name"] for one in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nothing to look for"),
        (["x", "--concern", "spilt"], "Did you mean spills?"),
        (["x", "--characters", "0"], "greater than 0"),
        (["--delete", "abc", "--learned", "/nowhere"], "no lesson has this id"),
    ],
)
def test_a_wrong_command_is_told_in_a_sentence(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err
