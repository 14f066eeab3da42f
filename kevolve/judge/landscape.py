"""The landscape: recorded timings of a grid of programs in place of a device, for trying out how one searches.

A table is a Parquet file `<operator>.parquet`: a row is a point of the grid that its template declares
(`propose/parameters.py`), with what was measured there, per workload: `us_<workload>`, `speedup_<workload>` and its
interval `low_`, `high_`; or `rejected`, the reason why the program is wrong. Its metadata holds the template and how
the table was made. The same program always gets the same verdict, at once. The best point stands for the roofline.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kevolve.errors import UsageError
from kevolve.judge.lease import Survey
from kevolve.languages.language import Built
from kevolve.program import Program
from kevolve.propose.parameters import Point, values_of, with_values
from kevolve.verdict import Fault, Fitness, Judgement, Key, Measurement, Rejected, Scored, Verdict

METADATA = b"kevolve.landscape"
DEVICE = "landscape"
BASELINE_US = 100.0  # where a table knows ratios only


@dataclass(frozen=True)
class Landscape:
    """One table. `rows` are by the values of the parameters, in their order."""

    operator: str
    language: str
    template: str
    workloads: tuple[str, ...]
    digest: str
    rows: Mapping[tuple[int, ...], Mapping[str, Any]]

    @classmethod
    def read(cls, file: Path) -> Landscape:
        """The table in `file`; UsageError if it is none."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(file)
            about = json.loads(table.schema.metadata[METADATA])
        except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"judge.landscape: {file} is no recorded landscape ({error}).") from None
        names = list(values_of(about["template"]))
        rows = {tuple(row[name] for name in names): row for row in table.to_pylist()}
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        return cls(file.stem, about["language"], about["template"], tuple(about["workloads"]), digest, rows)

    def starting_program(self) -> Program:
        """The template as it is declared."""
        return Program(self.operator, self.language, self.template, origin={"proposer": "seed", "file": "template"})

    def program(self, point: Point) -> Program:
        """The program at a point of the grid."""
        return Program(self.operator, self.language, with_values(self.template, point))

    def row(self, program: Program) -> Mapping[str, Any] | None:
        """What is recorded of a program; None if it is no point, or one that was not measured."""
        values = values_of(program.source)
        is_point = with_values(self.template, values) == program.source
        return self.rows.get(tuple(values.values())) if is_point else None

    def speedup(self, row: Mapping[str, Any]) -> float:
        """Geometric mean over the workloads; 0 for a point that is wrong."""
        if row["rejected"] is not None:
            return 0.0
        logs = [math.log(row[f"speedup_{name}"]) for name in self.workloads]
        return math.exp(sum(logs) / len(logs))

    @cached_property
    def best(self) -> Mapping[str, Any]:
        """The fastest point of all."""
        return max(self.rows.values(), key=self.speedup)

    def verdict(self, row: Mapping[str, Any]) -> Verdict:
        """The recorded verdict."""
        if row["rejected"] is not None:
            return Rejected("correctness", row["rejected"])
        measurements = tuple(self._measurement(row, name) for name in self.workloads)
        return Scored(Fitness.of(measurements), measurements)

    def _measurement(self, row: Mapping[str, Any], workload: str) -> Measurement:
        us, speedup = row[f"us_{workload}"], row[f"speedup_{workload}"]
        interval = (row[f"low_{workload}"], row[f"high_{workload}"])
        floor_us = us * speedup / self.best[f"speedup_{workload}"]
        return Measurement(workload, "search", 1.0, "as declared", us * speedup, us, speedup, interval, floor_us)


def landscape_names(folder: str) -> list[str]:
    """The operators that have a table in `folder`."""
    return sorted(file.stem for file in Path(folder).glob("*.parquet"))


class LandscapeLease:
    """`Lease` on recorded timings."""

    device = DEVICE
    exclusive = False

    def __init__(self, folder: str, operators: list[str]) -> None:
        """UsageError if an operator has no table there."""
        missing = [name for name in operators if name not in landscape_names(folder)]
        if missing:
            here = ", ".join(landscape_names(folder)) or "none"
            raise UsageError(f"judge.landscape={folder}: no table {missing[0]}.parquet there. Operators there: {here}.")
        self.tables = {name: Landscape.read(Path(folder, f"{name}.parquet")) for name in operators}
        self.languages = tuple(sorted({table.language for table in self.tables.values()}))
        tables = {name: table.digest for name, table in self.tables.items()}
        self.environment: Mapping[str, Any] = {"sandbox": "none, recorded timings", "tables": tables}

    def starting_programs(self, operator: str) -> list[Program]:
        """Where a search on the table begins."""
        return [self.tables[operator].starting_program()]

    def key(self, program: Program) -> Key:
        return Key(program.id, DEVICE, "recorded", self.tables[program.operator].digest, "landscape")

    async def survey(self, operator: str, seed: int) -> Survey | Fault:
        names = self.tables[operator].workloads
        return Survey(operator, DEVICE, {name: {"as declared": BASELINE_US} for name in names})

    async def prepare(self, program: Program) -> Built | Rejected | Fault:
        """Nothing is built: a program that is recorded is its own artefact."""
        if self.tables[program.operator].row(program) is None:
            return Rejected("build", "the program is no point that was recorded: only declared values may differ")
        return Built(program.id, {}, program.operator, {})

    async def measure(
        self,
        program: Program,
        built: Built,
        survey: Survey,
        seed: int,
        *,
        confirm: bool = False,
        to_beat: float = 0.0,
    ) -> Judgement:
        table = self.tables[program.operator]
        row = table.row(program)
        verdict: Verdict = table.verdict(row) if row is not None else Fault("lost", "the table has lost a row")
        return Judgement(self.key(program), verdict, built.artefact, "recorded", seed)

    async def close(self) -> None:
        return
