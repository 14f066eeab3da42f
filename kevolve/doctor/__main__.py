"""The doctor: what this machine has and lacks, and what to type to mend it. `python -m kevolve.doctor [key=value ...]`.

It takes the arguments of `kevolve run` and looks at what such a run would use; --json prints the findings as JSON.
Nothing it prints is secret. Exit status 0 if programs can be evolved on the cpu device here, 1 if not, 2 if the
arguments are wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import kevolve
from kevolve.config import Config
from kevolve.doctor.finding import Finding
from kevolve.doctor.versions import TorchImport, compilers, packages, python
from kevolve.errors import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at everything and print it. Returns the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if "--help" in given or "-h" in given:
        print(__doc__)
        return 0
    report = Report(is_json="--json" in given)
    report.add([*python(), *packages()])
    if not report.lacking:  # or else the rest of kevolve cannot even be imported
        from kevolve.configuration import load_config

        try:
            config = load_config([argument for argument in given if argument != "--json"])
        except UsageError as error:
            print(f"kevolve: {error}", file=sys.stderr)
            return 2
        report.add(examine(config))
    report.conclude()
    return 1 if report.lacking else 0


def examine(config: Config) -> Iterator[Finding]:
    """What depends on the machine and the configuration. PyTorch is imported beside the other checks."""
    from kevolve.doctor.devices import devices, proposers
    from kevolve.doctor.folders import folders, runs
    from kevolve.doctor.machine import limits, machine, variables
    from kevolve.doctor.ray_cluster import leftovers, ray_cluster
    from kevolve.doctor.sandbox import sandbox
    from kevolve.doctor.selftest import self_test
    from kevolve.doctor.tracking import tracking

    torch = TorchImport()
    yield from compilers()
    yield from machine()
    yield from limits(config)
    yield from variables()
    yield from sandbox(config)
    yield from devices(config)
    yield from self_test(config)
    yield from proposers(config)
    yield from ray_cluster(config)
    yield from leftovers()
    yield from tracking(config)
    yield from folders(config)
    yield from runs(config)
    yield torch.finding()


class Report:
    """Prints each finding as it is made, and at the end what to type."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self.findings: list[Finding] = []
        if not is_json:
            print(f"kevolve {kevolve.__version__} doctor, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")

    @property
    def lacking(self) -> int:
        """How many findings are in the way."""
        return sum(finding.is_lacking for finding in self.findings)

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.findings.append(finding)
            if not self.is_json:
                print(_without_home(str(finding)), flush=True)

    def conclude(self) -> None:
        if self.is_json:
            print(_without_home(json.dumps([asdict(finding) for finding in self.findings], indent=1)))
            return
        lack = [finding for finding in self.findings if finding.is_lacking]
        better = [finding for finding in self.findings if finding.mend and not finding.needed]
        for title, found in (("To mend what is lacking, type:", lack), ("What could be better:", better)):
            if found:
                print("\n".join(["", title, *(f"  {finding.what}: {finding.mend}" for finding in found)]))
        print(
            f"\nThe cpu device cannot be used yet: mend what says LACK ({len(lack)})." if lack else "\nReady to evolve."
        )


def _without_home(text: str) -> str:
    """Whose home it is concerns nobody who reads a bug report."""
    home = str(Path.home())
    return text.replace(f"{home}/", "~/") if len(home) > 1 else text


if __name__ == "__main__":
    sys.exit(main())
