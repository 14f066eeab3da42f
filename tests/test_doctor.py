"""The doctor says what is missing and what to type, and its exit status can be relied on."""

from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from kevolve import doctor


def test_a_machine_that_can_evolve_is_told_so_in_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    assert doctor.main([]) == 0
    assert time.monotonic() - begun < 20  # about 3 s on an idle machine
    told = capsys.readouterr().out
    for what in ("python", "ray ", "g++", "OpenMP", "sandbox", "device", "mlflow", "torch", "Ready to evolve."):
        assert what in told


def test_a_missing_compiler_is_named_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.main(["tracking=none"]) == 1
    told = capsys.readouterr().out
    assert "apt-get install g++" in told
    assert "mend what says LACK" in told


def test_a_missing_package_is_named_before_anything_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version_without_hydra(package: str) -> str:
        if package == "hydra-core":
            raise PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(doctor, "version", version_without_hydra)
    assert doctor.main([]) == 1
    told = capsys.readouterr().out
    assert "not installed: hydra-core" in told
    assert "make setup" in told
    assert "device" not in told.replace("The cpu device", "")


def test_a_tracking_server_that_is_down_is_only_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["tracking.uri=http://me:secret@127.0.0.1:9"]) == 0
    told = capsys.readouterr().out
    assert "http://127.0.0.1:9" in told
    assert "tracking=none" in told
    assert "secret" not in told


def test_wrong_arguments_are_told_as_by_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["devise=cpu"]) == 2
    assert "Did you mean device?" in capsys.readouterr().err
