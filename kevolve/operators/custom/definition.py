"""Definition: a user's own operator as it travels, by value, to every process and machine that works on it.

It is the text of a file, or pickled functions. What can be said of it without running it is said here, without torch,
so that a mistake in a command is told at once. A definition is the user's own code and is trusted as such.
"""

from __future__ import annotations

import ast
import hashlib
import keyword
import pickle
import re
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kevolve.durable import write_atomically
from kevolve.errors import UsageError, nearest

if TYPE_CHECKING:
    from kevolve.operators.custom.facts import Facts

NEEDED = ("reference", "make_inputs", "workloads")
OPTIONAL = ("name", "oracle", "check", "cost", "baselines", "program")
SUFFIXES: Mapping[str, Literal["source", "pickle"]] = {".py": "source", ".pkl": "pickle"}
_CPP_WORDS = frozenset(
    """
    alignas alignof asm auto bool break case catch char class const constexpr continue default delete do double else
    enum explicit export extern false float for friend goto if inline int long main mutable namespace new noexcept
    nullptr operator private protected public register return short signed sizeof static struct switch template this
    throw true try typedef typename union unsigned using virtual void volatile while VALUE INDEX bfloat16
    """.split()
)


@dataclass(frozen=True)
class Definition:
    """One operator. `content` is the file's text (`source`) or what cloudpickle made of functions (`pickle`).

    `program` is the program that a search starts from, if one was given, and `language` what it is in; `where` names
    the file in messages. `facts` is what has been found out by running it, so that it is found
    out once and is the same everywhere.
    """

    name: str
    kind: Literal["source", "pickle"]
    content: bytes
    where: str
    program: str | None = None
    facts: Facts | None = None
    language: str = "cpp"

    @property
    def digest(self) -> str:
        """Changes with the content."""
        return hashlib.sha256(self.content).hexdigest()

    def keep(self, folder: Path) -> None:
        """Write the definition and its starting program into a run's folder: `operator.py` and `operator.cpp`, say."""
        suffix = next(suffix for suffix, kind in SUFFIXES.items() if kind == self.kind)
        write_atomically(folder / f"operator{suffix}", self.content)
        if self.program is not None:
            write_atomically(folder / f"operator{_suffix(self.language)}", self.program.encode())


def kept(folder: Path, name: str) -> Definition | None:
    """The definition that a run's folder holds; None if its operators are kevolve's own."""
    file = kept_file(folder)
    if file is None:
        return None
    beside = next((path for path in folder.glob("operator.*") if path.suffix not in SUFFIXES), None)
    if beside is None:
        return read_definition(file, name)
    return replace(read_definition(file, name, is_copy=True), program=beside.read_text(), language=_language(beside))


def kept_file(folder: Path) -> Path | None:
    """The file in a run's folder that holds its operator."""
    files = (folder / f"operator{suffix}" for suffix in SUFFIXES)
    return next((file for file in files if file.is_file()), None)


def read_definition(path: Path, name: str | None = None, *, is_copy: bool = False) -> Definition:
    """The operator in a file. `name` is what a run calls it, otherwise the file's `name`, otherwise its stem.

    A run's copy does not know where the starting program is. UsageError if the file cannot be read or parsed, or lacks
    something. Nothing of it is run.
    """
    kind = SUFFIXES.get(path.suffix)
    if kind is None:
        raise UsageError(f"operator_file={path}: expected a Python file, such as my_op.py. {_start_from_template()}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"operator_file={path}: cannot be read ({error.strerror}). {_start_from_template()}") from None
    beside = path.with_suffix(".cpp")
    program = beside.read_text() if beside.is_file() else None
    if kind == "pickle":
        return Definition(name or path.stem, kind, content, str(path), program)
    literals = _literals(path, content)
    language = "cpp"
    if "program" in literals and not is_copy:
        program, language = _program(literals["program"], path)
    chosen = name or literals.get("name") or path.stem
    return Definition(checked_name(chosen, str(path)), kind, content, str(path), program, language=language)


def pickled(functions: Mapping[str, Any], name: str, program: str | None, where: str = "kevolve.evolve") -> Definition:
    """The operator that functions and workloads make, as bytes. UsageError if something in them cannot travel."""
    import cloudpickle

    try:
        with _by_value(value for value in functions.values() if callable(value)):
            content = cloudpickle.dumps(dict(functions))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{where}: the functions cannot be sent to the judge's process ({error}).\n"
            "  Let them use nothing but their arguments, installed packages and plain values."
        ) from None
    return Definition(checked_name(name, where), "pickle", content, where, program)


def checked_name(name: str, where: str) -> str:
    """`name`, if an operator may be called that: it becomes a C function. UsageError otherwise."""
    from kevolve.paths import conf_dir

    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _CPP_WORDS or keyword.iskeyword(name):
        raise UsageError(
            f'{where}: {name!r} cannot name a C function. Write name = "..." of letters, digits and underscores in it.'
        )
    if (conf_dir() / "operator" / f"{name}.yaml").is_file():
        raise UsageError(f'{where}: kevolve has an operator called {name}. Write name = "my_{name}" in the file.')
    return name


def _literals(path: Path, content: bytes) -> dict[str, str]:
    """`name` and `program` of a file, whose other parts must at least be there."""
    try:
        tree = ast.parse(content, filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"operator_file={path}: {line}{message}.") from None
    defined, literals = set(), {}
    for node in tree.body:
        names = list(_names(node))
        defined.update(names)
        for name in {"name", "program"} & set(names):
            value = getattr(node, "value", None)
            if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
                raise UsageError(f"operator_file={path}: line {node.lineno}: {name} must be a text in quotes.")
            literals[name] = value.value
    missing = [name for name in NEEDED if name not in defined]
    if missing and "*" not in defined:
        hints = "".join(nearest(name, defined - {*NEEDED, *OPTIONAL}) for name in missing)
        raise UsageError(
            f"operator_file={path}: {', '.join(missing)} not defined.{hints} A file needs {', '.join(NEEDED)}.\n"
            f"  {_start_from_template()}"
        )
    return literals


def _names(node: ast.stmt) -> Iterator[str]:
    """What a statement at the top of a file defines; `*` for anything at all."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names)
        case ast.If() | ast.Try() | ast.With() | ast.For():
            yield from (
                name for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt) for name in _names(part)
            )


def _program(text: str, path: Path) -> tuple[str, str]:
    """The text and language of a `program`: C++ as it stands if it has several lines, otherwise the file it names."""
    if "\n" in text:
        return text, "cpp"
    file = path.parent / text
    try:
        return file.read_text(), _language(file)
    except OSError as error:
        raise UsageError(
            f"operator_file={path}: program names {file}, which cannot be read ({error.strerror})."
        ) from None


def given_program(program: str | Path | None) -> str | None:
    """The same for a library call, relative to the working directory."""
    return None if program is None else _program(str(program), Path("evolve.py"))[0]


def _language(file: Path) -> str:
    """The language of a starting program, by its file's name."""
    if file.suffix == ".cpp":
        return "cpp"
    from kevolve.languages.registry import language_of

    name = language_of(file.suffix).name
    if name in ("triton", "cuda"):
        raise UsageError(f"{file}: operators of your own start from C++, or from a language that a package brings.")
    return name


def _suffix(name: str) -> str:
    if name == "cpp":
        return ".cpp"
    from kevolve.languages.registry import language

    return language(name).suffix


@contextmanager
def _by_value(functions: Iterator[Callable[..., Any]]) -> Iterator[None]:
    """Inside, what comes from modules that are not installed is pickled as it is, not as a name to import."""
    import sys

    import cloudpickle

    installed = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib"))
    registered = []
    for top in {str(getattr(function, "__module__", "")).partition(".")[0] for function in functions}:
        module = sys.modules.get(top)
        file = getattr(module, "__file__", None) or (list(getattr(module, "__path__", [])) or [None])[0]
        if module is None or top == "__main__" or file is None or file.startswith(installed):
            continue
        cloudpickle.register_pickle_by_value(module)
        registered.append(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _start_from_template() -> str:
    return "Start from: python -m kevolve.template > my_op.py"


def differs(path: Path, copy: Definition) -> bool:
    """Has the file been edited since `copy` was made of it?"""
    try:
        return path.read_bytes() != copy.content
    except OSError:
        return False
