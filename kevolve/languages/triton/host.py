"""Runs a Triton program's launching function without Triton: its kernels become `Launch`es that a backend gets.

The build runs it on tensors without data, to learn what is launched; beside the judge it runs on device memory, to
launch. Both see the same specialisations, by Triton's own rules: an argument's type, whether an integer is 1 or a
multiple of 16, whether an address is a multiple of 16, and every constexpr. Standard library only.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, NamedTuple, Protocol

OPTIONS = (  # of a launch, on whatever device
    "num_warps", "num_stages", "maxnreg", "waves_per_eu", "matrix_instr_nonkdim", "kpack", "cb_multiplier",
    "use_dual_core",
)  # fmt: skip
BUILTINS = ("abs", "bool", "divmod", "enumerate", "float", "int", "len", "list", "max", "min", "range", "sum", "tuple")
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_TRITON_NAMES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "i1",
}  # fmt: skip
_SIZES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}


class LaunchError(Exception):
    """The program asked for a launch that cannot be."""


class Dtype(NamedTuple):
    """What `torch.float32` and its like are for a program. `triton` is Triton's name of the type."""

    name: str
    triton: str
    itemsize: int


DTYPES = {name: Dtype(name, short, _SIZES.get(name, 1)) for name, short in _TRITON_NAMES.items()}


class Tensor:
    """A contiguous tensor on the device, as far as a program may know it."""

    __slots__ = ("address", "device", "dtype", "ndim", "shape", "spec")

    def __init__(self, address: int, shape: Sequence[int], dtype: Dtype):
        self.address = address
        self.shape = tuple(shape)
        self.dtype = dtype
        self.ndim = len(self.shape)
        self.device = "cuda"
        self.spec = ("*" + dtype.triton, address % 16 == 0)

    def numel(self) -> int:
        return math.prod(self.shape)

    def size(self, axis: int) -> int:
        return self.shape[axis]

    def stride(self, axis: int) -> int:
        return math.prod(self.shape[axis % self.ndim + 1 :])

    def element_size(self) -> int:
        return self.dtype.itemsize

    def dim(self) -> int:
        return self.ndim


class Key(NamedTuple):
    """What a specialisation of a kernel is compiled for.

    `arguments` gives for each parameter (type, is a multiple of 16), or ("constexpr", value, the value's type).
    """

    kernel: str
    arguments: tuple[tuple[Any, ...], ...]
    options: tuple[tuple[str, int], ...]


class Backend(Protocol):
    """Where launches and workspace go."""

    def launch(self, key: Key, grid: tuple[int, int, int], values: list[int | float | None]) -> None:
        """`values` are the parameters' values in order, constexprs left out, tensors as addresses."""
        ...

    def workspace(self, size: int, *, is_zero: bool) -> int:
        """Address of `size` bytes that this call may use."""
        ...


class Constexpr:
    """Stands for `tl.constexpr`: as an annotation itself, as a call the plain value."""

    def __new__(cls, value: Any) -> Any:
        return value


class Kernel:
    """Stands for a `@triton.jit` function."""

    def __init__(self, function: FunctionType, backend: Backend, unspecialized: Sequence[str | int] = ()):
        code: CodeType = function.__code__
        self.name = function.__name__
        self.backend = backend
        self.names = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        self.defaults = dict(zip(self.names[len(self.names) - len(defaults) :], defaults, strict=True))
        self.is_constexpr = [function.__annotations__.get(name) is Constexpr for name in self.names]
        self.forced = [_forced_type(function.__annotations__.get(name)) for name in self.names]
        self.is_plain = [name in unspecialized or at in unspecialized for at, name in enumerate(self.names)]

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*positional: Any, **named: Any) -> None:
            self.launch(grid, positional, named)

        return launch

    def launch(self, grid: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Bind the arguments, find the specialisation, and hand the launch to the backend."""
        options = tuple((name, named.pop(name)) for name in OPTIONS if named.get(name) is not None)
        given = self._bound(positional, named)
        arguments: list[tuple[Any, ...]] = []
        values: list[int | float | None] = []
        for at, value in enumerate(given):
            if self.is_constexpr[at] or value is None:
                arguments.append(("constexpr", value, type(value).__name__))
                continue
            spec = _spec(value, self.is_plain[at])
            forced = self.forced[at]
            if forced and spec[0] != "constexpr":
                spec = (forced, spec[1])
            arguments.append(spec)
            if spec[0] != "constexpr":
                values.append(value.address if isinstance(value, Tensor) else value)
        if callable(grid):
            grid = grid({**dict(zip(self.names, given, strict=True)), **dict(options)})
        sizes = self._grid(grid)
        if 0 not in sizes:
            self.backend.launch(Key(self.name, tuple(arguments), options), sizes, values)

    def _bound(self, positional: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        if len(positional) > len(self.names):
            raise LaunchError(f"{self.name} takes {len(self.names)} arguments, {len(positional)} were given")
        given = list(positional)
        for name in self.names[len(positional) :]:
            if name in named:
                given.append(named.pop(name))
            elif name in self.defaults:
                given.append(self.defaults[name])
            else:
                raise LaunchError(f"{self.name} was launched without its argument {name}")
        if named:
            raise LaunchError(f"{self.name} has no argument {next(iter(named))}")
        return given

    def _grid(self, grid: Any) -> tuple[int, int, int]:
        sizes = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
        if not 1 <= len(sizes) <= 3 or any(type(size) is not int for size in sizes):
            raise LaunchError(f"the grid of {self.name} is {sizes}, not one to three integers")
        for size, limit, axis in zip(sizes, _GRID_LIMITS, "xyz", strict=False):
            if not 0 <= size <= limit:
                raise LaunchError(f"the grid of {self.name} has {size} blocks in {axis}; 0 to {limit} can be launched")
        return (*sizes, 1, 1)[:3]


def _spec(value: Any, is_plain: bool) -> tuple[Any, ...]:
    """(type, is a multiple of 16) of a run-time argument, or ("constexpr", 1, "int") for the integer 1."""
    if type(value) is Tensor:
        spec: tuple[Any, ...] = value.spec
        return (spec[0], False) if is_plain else spec
    if type(value) is bool:
        return ("u1", False)
    if type(value) is int:
        if value == 1 and not is_plain:
            return ("constexpr", 1, "int")
        kind = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        return (kind, value % 16 == 0 and not is_plain)
    if type(value) is float:
        return ("fp32", False)
    raise LaunchError(f"a kernel was given {value!r}; it takes tensors, numbers and None")


def _forced_type(annotation: Any) -> str:
    """The type that `n: tl.int64` asks for, or nothing."""
    return annotation.triton if isinstance(annotation, Dtype) else ""


class Host:
    """A program's launching function, ready to be called with tensors and numbers. Raises LaunchError."""

    def __init__(self, source: str, entry: str, backend: Backend):
        self.backend = backend
        namespace: dict[str, Any] = {"__builtins__": _builtins(self._modules()), "__name__": "program"}
        exec(compile(source, f"{entry}.py", "exec", dont_inherit=True), namespace)
        self.entry: Callable[..., None] = namespace[entry]
        self.kernels = {name: value for name, value in namespace.items() if isinstance(value, Kernel)}

    def _modules(self) -> Mapping[str, Any]:
        """What the program's imports give it."""

        def jit(function: FunctionType | None = None, do_not_specialize: Sequence[str | int] = ()) -> Any:
            if function is None:
                return lambda decorated: Kernel(decorated, self.backend, do_not_specialize)
            return Kernel(function, self.backend)

        libdevice = SimpleNamespace()
        language = SimpleNamespace(constexpr=Constexpr, extra=SimpleNamespace(libdevice=libdevice), **DTYPES)
        triton = SimpleNamespace(
            jit=jit, cdiv=lambda x, y: -(-x // y), next_power_of_2=_next_power_of_2, language=language
        )
        torch = SimpleNamespace(
            Tensor=Tensor, empty=self._empty, zeros=self._zeros, empty_like=self._empty_like,
            zeros_like=self._zeros_like, **DTYPES,
        )  # fmt: skip
        return {"triton": triton, "triton.language.extra": language.extra, "torch": torch}

    def _empty(self, *shape: Any, dtype: Dtype = DTYPES["float32"], device: object = None) -> Tensor:
        return self._workspace(shape, dtype, is_zero=False)

    def _zeros(self, *shape: Any, dtype: Dtype = DTYPES["float32"], device: object = None) -> Tensor:
        return self._workspace(shape, dtype, is_zero=True)

    def _empty_like(self, like: Tensor, dtype: Dtype | None = None) -> Tensor:
        return self._workspace(like.shape, dtype or like.dtype, is_zero=False)

    def _zeros_like(self, like: Tensor, dtype: Dtype | None = None) -> Tensor:
        return self._workspace(like.shape, dtype or like.dtype, is_zero=True)

    def _workspace(self, shape: tuple[Any, ...], dtype: Dtype, *, is_zero: bool) -> Tensor:
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if any(type(size) is not int or size < 0 for size in sizes):
            raise LaunchError(f"workspace of shape {sizes} was asked for")
        address = self.backend.workspace(math.prod(sizes) * dtype.itemsize, is_zero=is_zero)
        return Tensor(address, sizes, dtype)


def _next_power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length() if number > 0 else 0


def _builtins(modules: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and ranges, and imports of nothing but the stand-ins."""

    def import_module(
        name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = None, level: int = 0
    ) -> Any:
        # `import a.b as c` asks for a and takes its attribute b; `from a.b import c` asks for a.b.
        return modules[name if fromlist else name.partition(".")[0]]

    return {"__import__": import_module, **{name: getattr(builtins, name) for name in BUILTINS}}
