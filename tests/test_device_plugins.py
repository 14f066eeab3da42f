"""A chip that kevolve has never heard of is a package that one installs: it is listed, its programs are judged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from kevolve.cluster.discovery import look
from kevolve.config import JudgeConfig
from kevolve.devices.device import Device
from kevolve.devices.registry import find_devices, refuse_elsewhere
from kevolve.errors import UsageError
from kevolve.judge.choice import judge_of
from kevolve.judge.lease import Survey
from kevolve.judge.prepare import prepare
from kevolve.judge.sandbox.tiers import find_tier
from kevolve.languages.language import Built
from kevolve.languages.registry import language_of
from kevolve.operators.custom.definition import read_definition
from kevolve.operators.custom.given import give
from kevolve.paths import seeds_dir
from kevolve.program import Program
from kevolve.verdict import Rejected, Scored, Verdict

PLUGINS = Path(__file__).parent / "plugins"
SUM = (seeds_dir() / "jagged_sum" / "plain.py").read_text()
needs_pocl = pytest.mark.skipif(
    find_spec("pyopencl") is None or find_spec("pocl_binary_distribution") is None,
    reason="PoCL is not installed: pip install pyopencl pocl-binary-distribution",
)


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Path:
    """The folder that pip has installed the plug-in to. It builds beside the sources, so those are copied."""
    sources, folder = tmp_path_factory.mktemp("sources") / "pocl", tmp_path_factory.mktemp("installed")
    shutil.copytree(PLUGINS / "pocl", sources)
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", str(folder), str(sources)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


def kevolve(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command as one types it where the plug-in is installed."""
    known = os.pathsep.join([str(folder), *filter(None, sys.path)])
    command = [sys.executable, "-m", f"kevolve.{words[0]}", *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": known})


def test_an_installed_device_is_listed_and_can_be_configured(installed):
    listed = kevolve(installed, "devices").stdout
    assert "pocl-" in listed if find_spec("pyopencl") else "pip install pyopencl" in listed
    config = kevolve(installed, "run", "--cfg", "+experiment=quick", "device=pocl")
    assert "name: pocl" in config.stdout, config.stderr


def test_an_installed_device_brings_its_knowledge(installed, monkeypatch):
    monkeypatch.syspath_prepend(installed)
    (device,) = (entry.load() for entry in entry_points(group="kevolve.devices") if entry.name == "pocl")
    (folder,) = (entry.load() for entry in entry_points(group="kevolve.knowledge") if entry.name == "pocl")
    assert device().knowledge == folder
    assert "vectorises" in next(folder.glob("*.md")).read_text()


@needs_pocl
def test_a_program_for_an_installed_device_is_judged_like_any_other(installed, monkeypatch):
    monkeypatch.syspath_prepend(installed)
    definition = read_definition(PLUGINS / "row_sums.py")
    give([definition])
    (device,) = find_devices("pocl", language_of(".cl").name)
    judge = judge_of(device, JudgeConfig(baselines="eager", max_pairs=6))

    def judged(source: str) -> Verdict:
        program = Program(definition.name, "opencl", source)
        built = judge.prepare(program)
        assert isinstance(built, Built), built
        survey = judge.survey(definition.name, 1)
        assert isinstance(survey, Survey), survey
        return judge.measure(program, built, survey, 1).verdict

    right = (PLUGINS / "row_sums.cl").read_text()
    try:
        verdicts = (judged(right) for _ in range(3))  # for a moment in which the machine has other work
        assert any(isinstance(verdict, Scored) for verdict in verdicts)
        wrong = judged(right.replace("put(out, row, sum)", "put(out, row, sum + 0.1f)"))
    finally:
        judge.close()
    assert isinstance(wrong, Rejected)
    assert "wrong on" in wrong.reason
    refused = judge.prepare(Program(definition.name, "opencl", right.replace("row_sums", "sums")))
    assert isinstance(refused, Rejected)
    assert "no function kernel void row_sums" in refused.reason


class Worker(Device):
    """Stands for the device of somebody who has the chip."""

    name = "mtia"
    languages = ("triton",)
    exclusive = False
    key = "mtia-2i"
    target = SimpleNamespace(architecture="2i", toolchain="its own", flags=(), builder=f"{__name__}:build_for_worker")

    def present(self):
        return True

    def ray_options(self):
        return {"num_cpus": 1}

    def judge(self, settings):
        return "its own judge"


def build_for_worker(program, operator, target, confined):
    return f"built for {target.architecture}"


def register(monkeypatch, **found) -> None:
    entries = [SimpleNamespace(name=name, load=load, value="worker:Device", dist=None) for name, load in found.items()]
    monkeypatch.setattr("kevolve.devices.registry.entry_points", lambda group: entries)


def test_without_a_worker_a_search_on_mtia_says_at_once_what_to_register():
    with pytest.raises(UsageError, match=r"entry point mtia in the group kevolve\.devices"):
        refuse_elsewhere("mtia")
    with pytest.raises(UsageError, match="kevolve judge FILE --operator O --device rocm"):
        refuse_elsewhere("rocm")
    assert "entry point mtia" in look("mtia", "auto", None).lacks


def test_a_registered_worker_is_found_judges_by_itself_and_builds_what_passes_the_screen(monkeypatch):
    register(monkeypatch, mtia=lambda: Worker)
    refuse_elsewhere("mtia")
    (device,) = find_devices("mtia", "triton")
    assert judge_of(device, JudgeConfig()) == "its own judge"
    assert ("mtia", "mtia-2i") in [offered[:2] for offered in look("mtia", "auto", None).devices]

    settings, tier = JudgeConfig(), find_tier()
    refused = prepare(Program("jagged_sum", "triton", SUM), device.target, tier, settings, "mtia")
    assert isinstance(refused, Rejected)
    assert "use_dual_core" in refused.reason
    portable = SUM.replace(", num_warps=WARPS", "")
    assert prepare(Program("jagged_sum", "triton", portable), device.target, tier, settings, "mtia") == "built for 2i"


def test_a_package_that_is_broken_is_in_the_way_of_its_own_device_only(monkeypatch):
    def broken():
        raise ImportError("libmissing.so")

    register(monkeypatch, broken=broken)
    assert find_devices()
    with pytest.raises(UsageError, match=r"worker:Device cannot be imported .*libmissing.so"):
        find_devices("broken")
