"""Which judge judges on which device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kevolve.config import JudgeConfig
    from kevolve.devices.device import Device
    from kevolve.judge.judge import Judge


def judge_of(device: Device, settings: JudgeConfig) -> Judge:
    """A judge on `device`: its own if it brings one, on a GPU one that works on the GPU's memory, all with the same
    methods; of a device that is not here one that measures nothing."""
    own: Judge | None = device.judge(settings)
    if own is not None:
        return own
    if device.stages_anywhere and not device.present():
        from kevolve.judge.unverified import UnverifiedJudge

        of_none: Any = UnverifiedJudge
        unverified: Judge = of_none(device, settings)
        return unverified
    if device.name == "cuda":
        from kevolve.judge.cuda.judge import CudaJudge

        of_gpu: Any = CudaJudge
        judge: Judge = of_gpu(device, settings)
        return judge
    from kevolve.judge.judge import Judge

    return Judge(device, settings)
