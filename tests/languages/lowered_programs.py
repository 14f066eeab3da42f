"""Small references with what their programs take, one compilation for all of them, and calls beside torch."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kevolve.languages.cpp.lowering import lower
from kevolve.operators.operator import Argument, Inputs

INCLUDE = Path(__file__).parents[2] / "kevolve" / "languages" / "cpp" / "include"
FLAGS = "-std=c++17 -O1 -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared -Wall -Werror".split()
DTYPES = {"float": torch.float32, "bfloat16": torch.bfloat16}
TOLERANCE = {"float": 2e-5, "bfloat16": 1.0 / 128}
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A reference; its inputs and outputs as `"x: rows dim"` or `"lengths int64 batch"`; `limits` of integer inputs."""

    reference: Callable[..., Any]
    inputs: Sequence[str]
    outputs: Sequence[str]
    sizes: Sequence[Sizes]
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.reference.__name__

    @property
    def arguments(self) -> tuple[Argument, ...]:
        tensors = [_tensor(text, "input") for text in self.inputs] + [_tensor(text, "output") for text in self.outputs]
        return (*tensors, *(Argument(name, "scalar", "int64") for name in self.sizes[0]))

    def make_inputs(self, sizes: Sizes, seed: int = 0) -> Inputs:
        generator = torch.Generator().manual_seed(seed)
        tensors = {}
        for argument in self.arguments:
            if argument.kind == "input":
                shape = [extent(text, sizes) for text in argument.shape]
                tensors[argument.name] = self._content(argument, shape, sizes, generator)
        return Inputs(tensors, sizes)

    def _content(self, argument: Argument, shape: list[int], sizes: Sizes, generator: torch.Generator) -> torch.Tensor:
        if argument.dtype == "value":
            return torch.randn(shape, generator=generator)
        if argument.dtype == "bool":
            return torch.rand(shape, generator=generator) < 0.5
        if argument.name == "offsets":
            total = extent(self.limits["offsets"], sizes)
            inner = torch.randint(0, total + 1, (shape[0] - 2,), generator=generator).sort().values
            return torch.cat([torch.tensor([0]), inner, torch.tensor([total])])
        limit = extent(self.limits[argument.name], sizes)
        return torch.randint(0, limit, shape, generator=generator, dtype=getattr(torch, argument.dtype))

    def program(self) -> str:
        return lower(self.reference, self.arguments, self.name, self.make_inputs(self.sizes[0]))

    def expected(self, inputs: Inputs) -> list[torch.Tensor]:
        """The reference's answer in float64."""
        names = self.reference.__code__.co_varnames[: self.reference.__code__.co_argcount]
        given = {**inputs.scalars, **{n: t.double() if t.is_floating_point() else t for n, t in inputs.tensors.items()}}
        result = self.reference(**{name: given[name] for name in names})
        if isinstance(result, dict):
            return list(result.values())
        return list(result) if isinstance(result, (tuple, list)) else [result]


def _tensor(text: str, kind: Any) -> Argument:
    name, *rest = text.split()
    dtype = rest.pop(0) if rest and rest[0] in ("int64", "int32", "bool") else "value"
    return Argument(name.rstrip(":"), kind, dtype, tuple(part.replace("+", " + ") for part in rest))


def extent(text: str, sizes: Sizes) -> int:
    return sum(sizes[term] if term in sizes else int(term) for term in text.split(" + "))


def build(programs: Mapping[str, str], folder: Path) -> ctypes.CDLL:
    """All programs in one shared object, each for float and for bfloat16 under a name of its own."""
    lines = ['#include "kevolve.h"', "#define INDEX int64_t"]
    for name, text in programs.items():
        (folder / f"{name}.cpp").write_text(text)
        entry = name.split("__")[0]
        for kind in DTYPES:
            defines = {"VALUE": kind}
            defines |= {word: f"{word}_{name}_{kind}" for word in (entry, f"{entry}_sized", "polynomial_exp")}
            lines += [f"#define {old} {new}" for old, new in defines.items()]
            lines += [f'#include "{name}.cpp"', *(f"#undef {old}" for old in defines)]
    (folder / "all.cpp").write_text("\n".join(lines) + "\n")
    command = ["g++", *FLAGS, f"-I{INCLUDE}", "all.cpp", "-o", "all.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(folder / "all.so"))


def answer(library: ctypes.CDLL, case: Case, name: str, kind: str, inputs: Inputs) -> list[torch.Tensor]:
    """What the program called `name` writes; cells that it leaves out stay NaN or -77."""
    values: list[Any] = []
    outputs, kept = [], []
    for argument in case.arguments:
        if argument.kind == "scalar":
            values.append(ctypes.c_int64(inputs.scalars[argument.name]))
            continue
        if argument.kind == "input":
            tensor = inputs.tensors[argument.name]
            tensor = (tensor.to(DTYPES[kind]) if argument.dtype == "value" else tensor).contiguous()
        else:
            dtype = DTYPES[kind] if argument.dtype == "value" else getattr(torch, argument.dtype)
            shape = [extent(text, inputs.scalars) for text in argument.shape]
            tensor = torch.full(shape, float("nan") if dtype.is_floating_point else -77).to(dtype)
            outputs.append(tensor)
        kept.append(tensor)
        values.append(ctypes.c_void_p(tensor.data_ptr()))
    getattr(library, f"{case.name}_{name}_{kind}")(*values)
    return outputs


def wrong(library: ctypes.CDLL, case: Case, name: str, kind: str, sizes: Sizes) -> str:
    """What is wrong with a program's answer for these sizes; nothing if it is right."""
    inputs = case.make_inputs(sizes, seed=sum(sizes.values()))
    seen = {n: t.to(DTYPES[kind]).float() if t.is_floating_point() else t for n, t in inputs.tensors.items()}
    expected = case.expected(Inputs(seen, sizes))
    got = answer(library, case, name, kind, inputs)
    for number, (one, other) in enumerate(zip(got, expected, strict=True)):
        if one.shape != other.shape:
            return f"output {number}: shape {tuple(one.shape)} for {tuple(other.shape)}"
        if not other.is_floating_point():
            if not torch.equal(one, other.to(one.dtype)):
                return f"output {number}: {one.flatten()[:8].tolist()} for {other.flatten()[:8].tolist()}"
            continue
        scale = max(float(other[other.isfinite()].abs().max()) if other.isfinite().any() else 0.0, 1e-3)
        limit = TOLERANCE[kind] * scale
        if not torch.allclose(one.double(), other, rtol=TOLERANCE[kind], atol=limit, equal_nan=True):
            apart = (one.double() - other).abs().nan_to_num(float("inf")).max()
            return f"output {number}: {float(apart)} apart at a scale of {scale}"
    return ""
