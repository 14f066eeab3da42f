"""The CUDA device where it may not be: it says what is missing, and the CPU is used without being asked for."""

from __future__ import annotations

import pytest

from kevolve.devices.cpu import Cpu
from kevolve.devices.cuda import Cuda
from kevolve.devices.listing import rows
from kevolve.devices.registry import find_devices
from kevolve.errors import UsageError


class Gpu(Cpu):
    """A device that is here, and runs Triton programs."""

    name = "cuda"
    languages = ("triton",)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(Cuda, "driver", None)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr("kevolve.devices.registry.OWN", {"cuda": Gpu, "cpu": Cpu})


def test_without_a_gpu_auto_is_the_cpu(no_gpu):
    assert [device.name for device in find_devices()] == ["cpu"]


def test_with_a_gpu_auto_is_the_gpu_and_the_cpu_can_be_asked_for(gpu):
    assert [device.name for device in find_devices()] == ["cuda"]
    assert [device.name for device in find_devices("cpu")] == ["cpu"]


def test_a_program_goes_to_a_device_that_runs_its_language(gpu):
    assert [device.name for device in find_devices("auto", "cpp")] == ["cpu"]
    assert [device.name for device in find_devices("auto", "triton")] == ["cuda"]
    with pytest.raises(UsageError, match=r"device=cpu does not run triton programs. Devices that do: cuda."):
        find_devices("cpu", "triton")


def test_what_the_gpu_lacks_is_said_with_what_to_type(no_gpu):
    with pytest.raises(UsageError, match="nvidia-smi"):
        find_devices("cuda")
    with pytest.raises(UsageError, match="nvidia-smi"):
        find_devices("auto", "triton")
    absent = {row.name: row.why_absent for row in rows()}
    assert "nvidia-smi" in absent["cuda"]
    assert absent["cpu"] == ""


def test_a_gpu_without_triton_says_what_to_install(monkeypatch):
    monkeypatch.setattr(Cuda, "driver", object())
    monkeypatch.setattr("kevolve.devices.cuda.find_spec", lambda name: None)
    assert not Cuda().present()
    assert "pip install triton" in Cuda().lacks()
