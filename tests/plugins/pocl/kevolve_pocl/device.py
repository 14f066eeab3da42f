"""The device: this machine's processor as PoCL drives it. What is not said here is as on the cpu device."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from kevolve.devices.cpu import Cpu
from kevolve.languages.language import Target


class Pocl(Cpu):
    """OpenCL on the CPU, on one core."""

    name = "pocl"
    languages = ("opencl",)
    knowledge = Path(__file__).parent / "knowledge"

    @property
    def key(self) -> str:
        """Such as pocl-intel-xeon-6: another device than the CPU itself."""
        return super().key.replace("cpu", "pocl", 1)

    @property
    def target(self) -> Target:
        """PoCL builds for the processor that it runs on."""
        try:
            return Target("opencl", f"PoCL {version('pocl-binary-distribution')}")
        except PackageNotFoundError:
            return Target("opencl", "no PoCL")

    def present(self) -> bool:
        """Is PoCL installed, with what loads it?"""
        return find_spec("pyopencl") is not None and find_spec("pocl_binary_distribution") is not None

    def lacks(self) -> str:
        """What to install."""
        needs = "PoCL is not installed. Type `pip install pyopencl pocl-binary-distribution`"
        return "" if self.present() else needs
