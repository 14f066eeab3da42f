"""The judge's self-test: do its promises hold on the devices that are here?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kevolve.config import Config
from kevolve.doctor.finding import Finding
from kevolve.errors import UsageError

if TYPE_CHECKING:
    from kevolve.devices.device import Device


def self_test(config: Config) -> Iterator[Finding]:
    if not config.judge.self_test:
        yield Finding("self-test", "off: nobody has looked whether the judge can be believed", "judge.self_test=true")
        return
    from kevolve.devices.registry import find_devices

    try:
        devices = find_devices(config.device.name)
    except UsageError:
        return  # the devices are looked at before, and what they lack has been said
    for device in devices:
        yield _tested(config, device)


def _tested(config: Config, device: Device) -> Finding:
    from kevolve.judge.choice import judge_of
    from kevolve.judge.selftest import has_canaries, mend, self_test

    if not has_canaries(device):
        return Finding("self-test", f"{device.key}: there are no canaries for {', '.join(device.languages)}")
    began = time.monotonic()
    try:
        judge = judge_of(device, config.judge)
        try:
            broken = self_test(judge)
        finally:
            judge.close()
    except UsageError as error:
        return Finding("self-test", f"{device.key}: {error}", "mend that first", needed=True)
    if broken:
        return Finding("self-test", f"{device.key}: {'; '.join(map(str, broken))}", mend(broken), needed=True)
    return Finding("self-test", f"{device.key}: the judge keeps its promises, {time.monotonic() - began:.0f} s")
