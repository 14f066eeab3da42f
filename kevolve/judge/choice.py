"""Which judge judges on which device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kevolve.config import JudgeConfig
    from kevolve.devices.device import Device
    from kevolve.judge.judge import Judge


def judge_of(device: Device, settings: JudgeConfig) -> Judge:
    """A judge on `device`. On a GPU another class with the same methods, which works on the GPU's memory."""
    if device.name == "cuda":
        from kevolve.judge.cuda.judge import CudaJudge

        of_gpu: Any = CudaJudge
        judge: Judge = of_gpu(device, settings)
        return judge
    from kevolve.judge.judge import Judge

    return Judge(device, settings)
