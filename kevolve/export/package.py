"""Package: writes a champion down as a package of its own, in a folder that did not exist or was empty."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from string import Template

from kevolve.champions.champion import Champion
from kevolve.champions.rivals import rivals_of
from kevolve.errors import UsageError
from kevolve.export.choosing import family, package_name
from kevolve.export.describe import provenance, readme_texts
from kevolve.export.forms import Forms, Tried
from kevolve.export.proven import Proven, proven_by
from kevolve.export.routes import Routes, find_routes
from kevolve.export.texts import texts_of, variants
from kevolve.export.vendoring import ROOM, vendored
from kevolve.languages.cpp.build import FLAGS, macros
from kevolve.languages.cpp.headers import HEADER
from kevolve.languages.registry import language
from kevolve.operators.custom.operator import CustomOperator
from kevolve.operators.interface import Interface, interface_of
from kevolve.operators.operator import Operator
from kevolve.program import Program
from kevolve.verdict import Measurement, Scored, from_json

PARTS = Path(__file__).parent / "parts"
_NATIVE = ("-march=native", "-mtune=native")  # the processor is the one that the flags of the record were spelt out for


@dataclass(frozen=True)
class Exported:
    """What was written, and what a user should know of it."""

    folder: Path
    package: str
    forms: Forms
    routes: Routes


def export(champion: Champion, operator: Operator, folder: Path, runs_dir: Path) -> Exported:
    """Write the package of `champion` into `folder`. UsageError for what cannot be exported; OSError from the disk."""
    program, measured = champion.source(), measurements(champion)
    if not (PARTS / f"_kernel_{program.language}.py.txt").is_file():
        raise UsageError(
            f"{champion.operator} on {champion.device} is in {program.language}, which no package can run."
        )
    interface, proven = interface_of(operator), proven_by(operator)
    if not interface.tensors:
        raise UsageError(f"{operator.name} has no input tensor, so there is nothing to dispatch a call by.")
    tried = Tried(operator)
    forms = tried.forms(measured)
    routes = find_routes(champion, program, operator, measured, rivals_of(champion, measured, runs_dir), tried)
    package = package_name(champion.operator, family(champion))
    writing = _Writing(champion, program, operator, interface, proven, forms, routes, package)
    texts = writing.files(measured)
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Exported(folder, package, forms, routes)


def measurements(champion: Champion) -> tuple[Measurement, ...]:
    """Those of the champion's latest confirmation."""
    latest = champion.record.get("kept", {}).get("champion") or champion.record["confirmed"]
    verdict = from_json(latest["verdict"])
    assert isinstance(verdict, Scored)
    return verdict.measurements


@dataclass(frozen=True)
class _Writing:
    """The texts of one package."""

    champion: Champion
    program: Program
    operator: Operator
    interface: Interface
    proven: Proven
    forms: Forms
    routes: Routes
    package: str

    def files(self, measured: tuple[Measurement, ...]) -> dict[str, str]:
        """Every file by its path in the package's folder."""
        texts = self._texts(measured)
        is_own = isinstance(self.operator, CustomOperator)
        spoken = self.program.language
        parts = {
            "__init__.py": "__init__.py",
            "_contract.py": "_contract.py",
            "_kernel.py": f"_kernel_{spoken}.py",
            "_operator.py": f"_operator_{spoken}.py",
            "_fallback.py": "_fallback_own.py" if is_own else "_fallback.py",
            "_workloads.py": "_workloads_own.py" if is_own else "_workloads.py",
            "benchmark.py": "benchmark.py",
        }
        inner = {name: _filled(part, texts) for name, part in parts.items()}
        inner |= {**self._program(), **self._reference()}
        inner["workloads.json"] = _json([asdict(workload) for workload in self.operator.workloads])
        inner["provenance.json"] = _json(provenance(self.champion, self.operator, self.proven, self.forms, self.routes))
        outer = {
            "pyproject.toml": _filled("pyproject.toml", texts),
            "README.md": _filled("README.md", texts),
            f"tests/test_{self.operator.name}.py": _filled("test.py", texts),
            "LICENSE": licence(),
        }
        return {**{f"{self.package}/{name}": text for name, text in inner.items()}, **outer}

    def _texts(self, measured: tuple[Measurement, ...]) -> dict[str, str]:
        has_gradient = self.forms.is_differentiable and any(a.dtype == "value" for a in self.interface.tensors)
        texts = texts_of(self.interface, self.proven)
        texts |= {
            "package": self.package,
            "variable": self.package.upper(),
            "op": f"{self.operator.name}_{family(self.champion)}_{self.program.id[:8]}",
            "entry": self.operator.name,
            "device": self.champion.device,
            "language": self.program.language,
            "has_gradient": str(has_gradient),
            "forms": repr(self.forms.forward),
            "always": repr(self.forms.always),
            "gradient_forms": repr(self.forms.gradient),
            "flags": repr([*FLAGS, *_NATIVE]),
            "macros": "\n".join(f'    "{v}": {macros(*v.split("-"))},' for v in self._builds()),
            "module": type(self.operator).__module__.removeprefix(f"{ROOM}."),
            "class_name": type(self.operator).__name__,
            "route": self.routes.code(),
            "programs": repr({option: self._file(option) for option in self.routes.programs}),
        }
        texts["gradient"] = _filled("_gradient.py", texts) if has_gradient else ""
        texts["own_gradient"] = _filled("_gradient_own.py", texts) if has_gradient else ""
        about = self.champion, self.interface, self.proven, self.forms, measured, self.operator, self.routes
        return texts | readme_texts(*about)

    def _builds(self) -> list[str]:
        return sorted(set(variants(self.interface, self.proven).values())) if self.program.language == "cpp" else []

    def _program(self) -> dict[str, str]:
        header = {HEADER.name: HEADER.read_text(encoding="utf-8")} if self.program.language == "cpp" else {}
        return {self._file(option): program.source for option, program in self.routes.programs.items()} | header

    def _file(self, option: str) -> str:
        """`program.cpp` for the champion; others have their id in the name."""
        other = "" if self.program.id.startswith(option) else f"_{option}"
        return f"program{other}{language(self.program.language).suffix}"

    def _reference(self) -> Mapping[str, str]:
        """The operator's code: kevolve's own modules below `reference/`, or the user's file as it is."""
        if not isinstance(self.operator, CustomOperator):
            modules = vendored(type(self.operator).__module__, self.package)
            return {f"reference/{name}": text for name, text in modules.items()}
        definition = self.operator.definition
        if definition.kind != "source":
            raise UsageError(
                f"{definition.name} was given as functions (kevolve.evolve), whose text is not known.\n"
                "  Put them into a file, and run that: python -m kevolve.run operator_file=my_op.py"
            )
        return {"definition.py": definition.content.decode()}


def licence() -> str:
    """The text of kevolve's licence, which covers the parts of a package that are kevolve's."""
    beside = Path(__file__).parents[2] / "LICENSE"
    if beside.is_file():
        return beside.read_text(encoding="utf-8")
    try:
        return distribution("kevolve").read_text("licenses/LICENSE") or "Apache-2.0\n"
    except PackageNotFoundError:
        return "Apache-2.0: https://www.apache.org/licenses/LICENSE-2.0\n"


def _filled(part: str, texts: Mapping[str, str]) -> str:
    """A part with its names filled in, and no blanks where a piece of it was empty."""
    text = Template((PARTS / f"{part}.txt").read_text(encoding="utf-8")).substitute(texts)
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)) + "\n"


def _json(value: object) -> str:
    return json.dumps(value, indent=1, default=str) + "\n"
