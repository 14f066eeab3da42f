"""Plain C++ programs, their answers in float64, and one compilation for many programs at once."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
FLAGS = "-std=c++17 -O2 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared -Wall".split()

LAYER_NORM = """\
#include "kevolve.h"

extern "C" void layer_norm(const VALUE *values, const INDEX *offsets, VALUE *out,
                           int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    for (int64_t t = 0; t < total; t++) {
        float sum = 0.0f;
        for (int64_t d = 0; d < dim; d++)
            sum += values[t * dim + d];
        float mean = sum / dim;
        float squares = 0.0f;
        for (int64_t d = 0; d < dim; d++) {
            float apart = values[t * dim + d] - mean;
            squares += apart * apart;
        }
        float deviation = sqrtf(squares / dim + 1e-5f);
        for (int64_t d = 0; d < dim; d++) {
            out[t * dim + d] = (values[t * dim + d] - mean) / deviation;
        }
    }
}
"""

GRAM = """\
#include "kevolve.h"

// out[t, j] = sum over k of values[t, k] * values[j, k] for the first dim rows j: a product of matrices.
extern "C" void gram(const VALUE *values, const INDEX *offsets, VALUE *out,
                     int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    int64_t rows = dim < total ? dim : total;
    for (int64_t t = 0; t < total; t++) {
        for (int64_t j = 0; j < dim; j++) {
            float sum = 0.0f;
            if (j < rows) {
                for (int64_t k = 0; k < dim; k++) {
                    sum += values[t * dim + k] * values[j * dim + k];
                }
            }
            out[t * dim + j] = sum;
        }
    }
}
"""


POINTERS = """\
#include "kevolve.h"

// Layer normalisation again, as people write it who like pointers.
extern "C" void pointers(const VALUE *values, const INDEX *offsets, VALUE *out,
                         int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    for (int64_t t = 0; t < total; ++t) {
        const VALUE *row = values + t * dim;
        VALUE *normal = out + t * dim;
        float sum = 0.0f, squares = 0.0f;
        for (int64_t d = 0; d < dim; ++d) {
            sum += row[d];
        }
        const float mean = sum / dim;
        for (int64_t d = 0; d < dim; ++d) {
            const float apart = row[d] - mean;
            squares += apart * apart;
        }
        const float scale = 1.0f / std::sqrt(squares / dim + 1e-5f);
        for (int64_t d = 0; d < dim; ++d) {
            normal[d] = (row[d] - mean) * scale;
        }
    }
}
"""

COPIES = """\
#include "kevolve.h"

// The first max_length rows of each segment as they are; every other row is zero.
extern "C" void copies(const VALUE *values, const INDEX *offsets, VALUE *out,
                       int64_t batch, int64_t total, int64_t dim, int64_t max_length) {
    for (int64_t i = 0; i < offsets[0] * dim; i++) {
        out[i] = 0.0f;
    }
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = offsets[b];
        int64_t length = offsets[b + 1] - start;
        int64_t rows = length < max_length ? length : max_length;
        for (int64_t t = 0; t < rows; t++) {
            for (int64_t d = 0; d < dim; d++) {
                out[(start + t) * dim + d] = values[(start + t) * dim + d];
            }
        }
        for (int64_t t = rows; t < length; t++) {
            for (int64_t d = 0; d < dim; d++) {
                out[(start + t) * dim + d] = 0.0f;
            }
        }
    }
    for (int64_t i = offsets[batch] * dim; i < total * dim; i++) {
        out[i] = 0.0f;
    }
}
"""


def plain(operator: str) -> str:
    """The starting program of an operator."""
    return (ROOT / "populations" / "seeds" / operator / "plain.cpp").read_text()


PROGRAMS = {
    "jagged_sum": plain("jagged_sum"),
    "jagged_softmax": plain("jagged_softmax"),
    "layer_norm": LAYER_NORM,
    "gram": GRAM,
    "pointers": POINTERS,
    "copies": COPIES,
}


@dataclass(frozen=True)
class Case:
    """values [total, dim], offsets [batch + 1]; offsets need not start at 0 nor end at total."""

    values: np.ndarray
    offsets: np.ndarray
    max_length: int


def case(lengths: list[int], dim: int, max_length: int, seed: int, before: int = 0, behind: int = 0) -> Case:
    offsets = before + np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = np.random.default_rng(seed).standard_normal((int(offsets[-1]) + behind, dim)).astype(np.float32)
    return Case(values, offsets, max_length)


CASES = (
    case([5, 0, 19, 1, 0], dim=37, max_length=11, seed=1),
    case([3, 40, 2], dim=130, max_length=64, seed=2, before=2, behind=3),
    case([0, 0], dim=4, max_length=5, seed=3, behind=2),
    case([9], dim=1, max_length=4, seed=4),
)


def _softmax(one: Case) -> np.ndarray:
    values, out = one.values.astype(np.float64), np.zeros(one.values.shape)
    for start, end in zip(one.offsets[:-1], one.offsets[1:], strict=True):
        part = values[start : min(end, start + one.max_length)]
        if len(part):
            powers = np.exp(part - part.max(axis=0))
            out[start : start + len(part)] = powers / powers.sum(axis=0)
    return out


def _sum(one: Case) -> np.ndarray:
    values = one.values.astype(np.float64)
    bounds = zip(one.offsets[:-1], one.offsets[1:], strict=True)
    return np.stack([values[start:end].sum(axis=0) for start, end in bounds])


def _layer_norm(one: Case) -> np.ndarray:
    values = one.values.astype(np.float64)
    apart = values - values.mean(axis=1, keepdims=True)
    return apart / np.sqrt((apart**2).mean(axis=1, keepdims=True) + 1e-5)


def _gram(one: Case) -> np.ndarray:
    values, dim = one.values.astype(np.float64), one.values.shape[1]
    out = np.zeros(values.shape)
    first = values[: min(dim, len(values))]
    out[:, : len(first)] = values @ first.T
    return out


def _copies(one: Case) -> np.ndarray:
    values, out = one.values.astype(np.float64), np.zeros(one.values.shape)
    for start, end in zip(one.offsets[:-1], one.offsets[1:], strict=True):
        rows = slice(start, min(end, start + one.max_length))
        out[rows] = values[rows]
    return out


ANSWERS: Mapping[str, Callable[[Case], np.ndarray]] = {
    "jagged_sum": _sum,
    "jagged_softmax": _softmax,
    "layer_norm": _layer_norm,
    "gram": _gram,
    "pointers": _layer_norm,
    "copies": _copies,
}


def build(operator: str, texts: list[str], folder: Path) -> ctypes.CDLL:
    """All programs in one shared object, each for float and for bfloat16 under a name of its own."""
    lines = ['#include "kevolve.h"', "#define INDEX int64_t"]
    for number, text in enumerate(texts):
        (folder / f"{operator}_{number}.cpp").write_text(text)
        for kind in ("float", "bfloat16"):
            names = (operator, f"{operator}_sized", "polynomial_exp")
            lines += [f"#define VALUE {kind}", *(f"#define {name} {name}_{kind}_{number}" for name in names)]
            lines += [f'#include "{operator}_{number}.cpp"', *(f"#undef {name}" for name in ("VALUE", *names))]
    (folder / f"{operator}_all.cpp").write_text("\n".join(lines) + "\n")
    include = ROOT / "kevolve" / "languages" / "cpp" / "include"
    command = ["g++", *FLAGS, f"-I{include}", f"{operator}_all.cpp", "-o", f"{operator}.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(folder / f"{operator}.so"))


def rounded(values: np.ndarray) -> np.ndarray:
    """float32 values as the bits of bfloat16, to nearest even."""
    words = values.astype(np.float32).view(np.uint32)
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)


def widened(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bits as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def size(number: int) -> ctypes.c_int64:
    return ctypes.c_int64(number)


def answer(library: ctypes.CDLL, operator: str, number: int, one: Case, kind: str = "float") -> np.ndarray:
    """What the program makes of the case, in float32. Cells that it does not write stay NaN."""
    values = rounded(one.values) if kind == "bfloat16" else one.values
    shape = (len(one.offsets) - 1, values.shape[1]) if operator == "jagged_sum" else values.shape
    out = np.full(shape, 0x7FC0 if kind == "bfloat16" else np.nan, dtype=values.dtype)
    sizes = [len(one.offsets) - 1, *values.shape, one.max_length]
    arrays = map(pointer, (values, one.offsets, out))
    getattr(library, f"{operator}_{kind}_{number}")(*arrays, *map(size, sizes))
    return widened(out) if kind == "bfloat16" else out


def error(library: ctypes.CDLL, operator: str, number: int, kind: str, one: Case) -> float:
    """The program's largest error, in units of the largest answer (at least 1e-3)."""
    seen = widened(rounded(one.values)) if kind == "bfloat16" else one.values
    expected = ANSWERS[operator](Case(seen, one.offsets, one.max_length))
    got = answer(library, operator, number, one, kind)
    return float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-3)) if expected.size else 0.0
