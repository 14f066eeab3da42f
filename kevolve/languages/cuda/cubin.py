"""What a cubin says of itself: resources of its kernels, variables that outlive a launch, and what it wants of others.

A cubin is an ELF file. Attributes of kernels are records in sections `.nv.info`, by symbol. Standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

_REGISTERS, _FRAME_BYTES, _MOST_THREADS = 0x2F, 0x11, 0x05  # EIATTR_REGCOUNT, _FRAME_SIZE, _MAX_THREADS
_SIZED = 4  # form of a record whose payload follows
_OBJECT, _FUNCTION = 1, 2
_RESERVED_BYTES = 1024  # of a block's shared memory, by the driver on chips from sm_90; no part of what it offers


@dataclass(frozen=True)
class Section:
    """A part of the file."""

    name: str
    start: int
    size: int


@dataclass(frozen=True)
class Symbol:
    """A name; `section` is its number, 0 for what another file has."""

    name: str
    kind: int
    section: int


class Cubin:
    """A parsed cubin."""

    def __init__(self, data: bytes):
        self.data = data
        (offset,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<3H", data, 0x3A)
        rows = [struct.unpack_from("<IIQQQQ", data, offset + at * size) for at in range(count)]
        self.sections = [Section(self._name(rows[names][4] + row[0]), row[4], row[5]) for row in rows]

    def _name(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _section(self, name: str) -> Section | None:
        return next((section for section in self.sections if section.name == name), None)

    @cached_property
    def symbols(self) -> list[Symbol]:
        """In the order of the file."""
        table, names = self._section(".symtab"), self._section(".strtab")
        if table is None or names is None:
            return []
        rows = struct.iter_unpack("<IBBHQQ", self.data[table.start : table.start + table.size])
        return [Symbol(self._name(names.start + name), kind & 15, section) for name, kind, _, section, _, _ in rows]

    def resources(self, kernel: str) -> Mapping[str, int]:
        """`registers` of a thread, `local_bytes` it spills to, static `shared_bytes` of a block, `most_threads`."""
        number = next((at for at, one in enumerate(self.symbols) if one.name == kernel and one.kind == _FUNCTION), -1)
        common, own = dict(self._records(".nv.info", number)), dict(self._records(f".nv.info.{kernel}"))
        shared = self._section(f".nv.shared.{kernel}")
        reserved = _RESERVED_BYTES if self._section(".nv.shared.reserved.0") else 0
        bounds = own.get(_MOST_THREADS)
        return {
            "registers": struct.unpack_from("<I", common.get(_REGISTERS, bytes(8)), 4)[0],
            "local_bytes": struct.unpack_from("<I", common.get(_FRAME_BYTES, bytes(8)), 4)[0],
            "shared_bytes": max(0, shared.size - reserved) if shared else 0,
            "most_threads": min(1024, _product(bounds)) if bounds else 1024,
        }

    def _records(self, name: str, symbol: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(attribute, payload); those about one symbol only, if it is given."""
        section = self._section(name)
        at = section.start if section else 0
        while section and at + 4 <= section.start + section.size:
            form, attribute, size = struct.unpack_from("<BBH", self.data, at)
            payload = self.data[at + 4 : at + 4 + size] if form == _SIZED else b""
            if symbol is None or (len(payload) >= 8 and struct.unpack_from("<I", payload)[0] == symbol):
                yield attribute, payload
            at += 4 + len(payload)

    def variables(self) -> list[str]:
        """Variables in the device's memory, constants of the file that were used as numbers only among them."""
        memory = {at for at, section in enumerate(self.sections) if section.name.startswith(".nv.global")}
        return [symbol.name for symbol in self.symbols if symbol.kind == _OBJECT and symbol.section in memory]

    def wanted(self) -> list[str]:
        """Functions that it calls and does not have."""
        return [symbol.name for symbol in self.symbols if symbol.kind == _FUNCTION and symbol.section == 0]


def _product(bounds: bytes) -> int:
    x, y, z = struct.unpack_from("<3I", bounds)
    return int(x * y * z)
