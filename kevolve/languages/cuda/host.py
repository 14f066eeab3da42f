"""What a translated launching function can do: compute with numbers and pointers, take workspace, launch.

`translate.py` makes its text; here it is run. The build runs it to learn what is launched, beside the judge it
launches. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

VALUES = {"float32": 4, "float16": 2, "bfloat16": 2}  # bytes of what VALUE may be
INDICES = {"int32": 4, "int64": 8}
SIZES = {
    **VALUES, **INDICES, "float64": 8, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
_GRID_LIMITS, _BLOCK_LIMITS, _MOST_THREADS = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024
_MOST_BITS = 128  # of a number: nothing that is launched has more than 64
Grid = tuple[int, int, int]


class LaunchError(Exception):
    """The program asked for what cannot be."""


class Pointer:
    """An address on the device, to elements of a size."""

    __slots__ = ("address", "itemsize")

    def __init__(self, address: int, itemsize: int):
        self.address = address
        self.itemsize = itemsize

    def __add__(self, count: int) -> Pointer:
        return Pointer(self.address + _whole(count) * self.itemsize, self.itemsize)

    __radd__ = __add__

    def __sub__(self, count: int) -> Pointer:
        return Pointer(self.address - _whole(count) * self.itemsize, self.itemsize)

    def __eq__(self, other: object) -> bool:
        return self.address == (other.address if isinstance(other, Pointer) else other)

    def __hash__(self) -> int:
        return self.address

    def __bool__(self) -> bool:
        return self.address != 0


class Backend(Protocol):
    """Where launches and workspace go."""

    def launch(self, kernel: str, grid: Grid, block: Grid, shared_bytes: int, values: Sequence[Any]) -> None:
        """`values` are the kernel's arguments in order, pointers as `Pointer`."""
        ...

    def workspace(self, size: int, *, is_zero: bool) -> int:
        """Address of `size` bytes that this call may use."""
        ...

    def clear(self, address: int, size: int) -> None:
        """Zeros there, in the order of the launches."""
        ...


class Host:
    """A program's launching function: `entry(variant)` is it for one pair of VALUE and INDEX."""

    def __init__(self, text: str, kernels: Sequence[str], kinds: Sequence[str]):
        """`kinds` are those of the operator's arguments: value, index, or a dtype."""
        self.code = compile(text, "program.cu", "exec", dont_inherit=True)
        self.kernels = kernels
        self.kinds = kinds

    def variant(self, dtypes: Sequence[str]) -> str:
        """The variant for arguments of these dtypes, such as float32-int64."""
        given = dict(zip(reversed(self.kinds), reversed(dtypes), strict=True))
        return f"{given.get('value', 'float32')}-{given.get('index', 'int64')}"

    def entry(self, variant: str, backend: Backend) -> Callable[..., None]:
        """The function for `variant`, launching through a backend."""
        value, _, index = variant.partition("-")
        namespace: dict[str, Any] = {"__builtins__": {}, "size_VALUE": VALUES[value], "size_INDEX": INDICES[index]}
        namespace.update(_offered(backend))
        namespace.update({f"k{at}": _launcher(name, backend) for at, name in enumerate(self.kernels)})
        exec(self.code, namespace)
        found: Callable[..., None] = namespace["entry"]
        return found


def _launcher(kernel: str, backend: Backend) -> Callable[..., None]:
    launch = backend.launch

    def launcher(grid: Any, block: Any, shared_bytes: int, *values: Any) -> None:
        grid, block = dim3(grid), dim3(block)
        x, y, z = grid
        if not (0 <= x < 1 << 31 and 0 <= y < 1 << 16 and 0 <= z < 1 << 16):
            raise LaunchError(_beyond(f"the grid of {kernel}", grid, _GRID_LIMITS))
        across, along, deep = block
        if not (0 <= across <= 1024 and 0 <= along <= 1024 and 0 <= deep <= 64):
            raise LaunchError(_beyond(f"the block of {kernel}", block, _BLOCK_LIMITS))
        if not 0 < across * along * deep <= _MOST_THREADS:
            threads = across * along * deep
            raise LaunchError(f"a block of {kernel} has {threads} threads; 1 to {_MOST_THREADS} can be launched")
        if type(shared_bytes) is not int or shared_bytes < 0:
            raise LaunchError(f"{kernel} is launched with {shared_bytes} bytes of shared memory")
        if x and y and z:
            launch(kernel, grid, block, shared_bytes, values)

    return launcher


def _beyond(what: str, sizes: Grid, limits: Grid) -> str:
    """Which axis is too long."""
    size, limit, axis = next(one for one in zip(sizes, limits, "xyz", strict=True) if not 0 <= one[0] <= one[1])
    return f"{what} has {size} in {axis}; 0 to {limit} can be launched"


def dim3(x: Any = 1, y: Any = 1, z: Any = 1) -> Grid:
    """As in CUDA: one to three sizes."""
    return x if type(x) is tuple else (_whole(x), _whole(y), _whole(z))


def _offered(backend: Backend) -> dict[str, Any]:
    """What the text may call."""

    def workspace(itemsize: int, count: Any) -> Pointer:
        return Pointer(backend.workspace(_bytes(itemsize, count), is_zero=False), itemsize)

    def zeroed_workspace(itemsize: int, count: Any) -> Pointer:
        return Pointer(backend.workspace(_bytes(itemsize, count), is_zero=True), itemsize)

    def zero(pointer: Any, count: Any) -> None:
        if not isinstance(pointer, Pointer):
            raise LaunchError("zero(pointer, count) was given no pointer")
        size = _bytes(pointer.itemsize, count)
        if size:
            backend.clear(pointer.address, size)

    return {
        "workspace": workspace, "zeroed_workspace": zeroed_workspace, "zero": zero, "dim3": dim3, "cast": _cast,
        "whole": _whole, "real": float, "truth": bool, "min": min, "max": max, "is_aligned": _is_aligned,
        "ceil_div": _ceil_div, "quotient": _quotient, "remainder": _remainder, "product": _product, "shifted": _shifted,
    }  # fmt: skip


def _bytes(itemsize: int, count: Any) -> int:
    count = _whole(count)
    if count < 0:
        raise LaunchError(f"workspace or zeros for {count} elements were asked for")
    return int(count * itemsize)


def _whole(value: Any) -> int:
    """As an integer of C: cut towards zero, an address for a pointer."""
    if type(value) is int:
        return value
    return int(value.address if isinstance(value, Pointer) else value)


def _cast(value: Any, itemsize: int) -> Pointer:
    if type(value) is Pointer and value.itemsize == itemsize:
        return value
    return Pointer(_whole(value), itemsize)


def _is_aligned(pointer: Any, size: int) -> bool:
    return _whole(pointer) % size == 0


def _ceil_div(count: Any, size: Any) -> int:
    return int(_quotient(_whole(count) + _whole(size) - 1, _whole(size)))


def _quotient(one: Any, other: Any) -> Any:
    """C's: integers are cut towards zero."""
    if isinstance(one, float) or isinstance(other, float):
        return one / other
    if one >= 0 < other:
        return one // other
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def _remainder(one: int, other: int) -> int:
    return one - other * int(_quotient(one, other))


def _product(one: Any, other: Any) -> Any:
    found = one * other
    if type(found) is int and found.bit_length() > _MOST_BITS:
        raise LaunchError("a number overflows")
    return found


def _shifted(one: int, other: int) -> int:
    if not 0 <= other < 64:
        raise LaunchError(f"a number is shifted by {other} bits")
    return int(_product(one, 1 << other))
