"""What a search would use here: devices to run programs on, and proposers to make them."""

from __future__ import annotations

from collections.abc import Iterator

from kevolve.config import Config
from kevolve.doctor.finding import Finding, last_line


def devices(config: Config) -> Iterator[Finding]:
    from kevolve.devices.listing import rows

    found = list(rows())
    for row in found:
        if row.why_absent:
            first, _, rest = row.why_absent.partition("\n")
            is_wanted = config.device.name == row.name or row.name == "cpu"
            yield Finding("device", f"{row.name}: {first}", rest.strip() or "device=auto", needed=is_wanted)
            continue
        what = f"{row.name}: {row.key}, languages {', '.join(row.languages)}, {row.toolchain}, peaks {row.rates}"
        yield Finding("device", what)


def proposers(config: Config) -> Iterator[Finding]:
    from kevolve.propose.registry import proposer, proposer_names

    for name in proposer_names():
        chosen = " (chosen)" if name == config.proposer.name else ""
        try:
            proposer(name, config.proposer)
        except Exception as error:  # any: a proposer of another package may fail in its own way
            reason = last_line(str(error)) or type(error).__name__
            yield Finding("proposer", f"{name}{chosen}: {reason}", "proposer=genetic", needed=bool(chosen))
        else:
            yield Finding("proposer", f"{name}{chosen} can be used")
