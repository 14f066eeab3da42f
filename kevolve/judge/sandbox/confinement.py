"""Confinement of a process by its own hand: limits, Landlock and seccomp, with the standard library only.

This file also runs on its own, as `python -I confinement.py '{json}' -- COMMAND`, to confine a compiler. It is
loaded beside candidate programs, so it imports nothing of kevolve.

Sources: landlock(7), seccomp(2), bpf(2); system call numbers from the kernel's tables.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import struct
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_TIMERSLACK = 29
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446

# Landlock access rights by the ABI version that brought them.
_FS_EXECUTE, _FS_WRITE_FILE, _FS_READ_FILE, _FS_READ_DIR = 1, 2, 4, 8
_FS_BY_ABI = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_FILE_ONLY = _FS_EXECUTE | _FS_WRITE_FILE | _FS_READ_FILE | (1 << 14)
_NET_BIND_AND_CONNECT = 3
_SCOPE_SOCKETS_AND_SIGNALS = 3

# name -> (x86_64, aarch64); None where the architecture has no such call.
_SYSCALLS: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "setsid": (112, 157),
    "setpgid": (109, 154),
}
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CLONE_THREAD = 0x00010000
_KILL_PROCESS, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD_WORD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

COMPILER_MAY_NOT = ("socket", "ptrace", "mount", "unshare", "setns", "bpf", "io_uring_setup", "keyctl")
_SIGNALS = ("kill", "tkill", "tgkill")


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument; OSError if the kernel refuses."""
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def landlock_abi() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    version: int = _LIBC.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(version, 0)


def landlock(read: list[str], write: list[str]) -> None:
    """From now on: read and execute below `read`, anything below `write`, no TCP, no signals outside.

    Raises OSError where the kernel has no Landlock. Paths that do not exist are passed over.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError(errno.ENOSYS, "the kernel has no Landlock")
    handled = sum(rights for version, rights in _FS_BY_ABI.items() if version <= abi)
    network = _NET_BIND_AND_CONNECT if abi >= 4 else 0
    scoped = _SCOPE_SOCKETS_AND_SIGNALS if abi >= 6 else 0
    attributes = struct.pack("QQQ", handled, network, scoped)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _LIBC.syscall(
        _LANDLOCK_CREATE_RULESET, ctypes.create_string_buffer(attributes), ctypes.c_size_t(size), ctypes.c_uint(0)
    )
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset failed")
    for path in read:
        _allow_path(ruleset, path, (_FS_EXECUTE | _FS_READ_FILE | _FS_READ_DIR) & handled)
    for path in write:
        _allow_path(ruleset, path, handled)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if _LIBC.syscall(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self failed")
    os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= _FILE_ONLY
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, parent))
    failed = _LIBC.syscall(_LANDLOCK_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0))
    os.close(parent)
    if failed:
        raise OSError(ctypes.get_errno(), f"landlock_add_rule failed for {path}")


def seccomp(forbidden: tuple[str, ...] | None = None) -> None:
    """From now on a forbidden system call ends the process with SIGSYS.

    Without a list: everything that starts processes (threads are fine), opens sockets, signals or inspects other
    processes, or changes namespaces. Raises OSError where the architecture or kernel has no filter for it.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system call table for {machine}")
    audit, column = _ARCHITECTURES[machine]
    program = _filter(audit, column, forbidden)
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    pointer = FilterProgram(len(program), ctypes.cast(buffer, ctypes.c_void_p))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if _LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(pointer), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp filter refused")


def _filter(audit: int, column: int, forbidden: tuple[str, ...] | None) -> list[tuple[int, int, int, int]]:
    """The BPF program: lines of (code, jump if true, jump if false, operand)."""
    numbers = {name: calls[column] for name, calls in _SYSCALLS.items() if calls[column] is not None}
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD_WORD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD_WORD, 0, 0, 0),
        (_JUMP_GREATER_EQUAL, 0, 1, 0x40000000),  # the x32 numbers would slip past the list
        (_RETURN, 0, 0, _KILL_PROCESS),
    ]
    special = {"clone", "clone3", *_SIGNALS}
    plain = forbidden if forbidden is not None else tuple(name for name in numbers if name not in special)
    for name in plain:
        if numbers.get(name) is not None:
            lines += [(_JUMP_EQUAL, 0, 1, numbers[name] or 0), (_RETURN, 0, 0, _KILL_PROCESS)]
    if forbidden is None:
        lines += _threads_only(numbers["clone"] or 0, numbers["clone3"] or 0)
        for name in _SIGNALS:
            lines += _only_itself(numbers[name] or 0)
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def _threads_only(clone: int, clone3: int) -> list[tuple[int, int, int, int]]:
    """clone must make a thread; clone3 hides its flags in memory, so it is absent and libc falls back to clone."""
    return [
        (_JUMP_EQUAL, 0, 4, clone),
        (_LOAD_WORD, 0, 0, 16),
        (_JUMP_SET, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_RETURN, 0, 0, _ALLOW),
        (_JUMP_EQUAL, 0, 1, clone3),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]


def _only_itself(number: int) -> list[tuple[int, int, int, int]]:
    """A signal may go to the process itself: abort() and raise() need that."""
    return [
        (_JUMP_EQUAL, 0, 4, number),
        (_LOAD_WORD, 0, 0, 16),
        (_JUMP_EQUAL, 1, 0, os.getpid()),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_RETURN, 0, 0, _ALLOW),
    ]


def limit(memory_bytes: int, file_bytes: int, cpu_seconds: int, open_files: int = 64) -> None:
    """Resource limits: `memory_bytes` of address space beyond what the process has now."""
    with open("/proc/self/statm") as statm:
        present = int(statm.read().split()[0]) * resource.getpagesize()
    for which, value in (
        (resource.RLIMIT_AS, present + memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(which, (value, value))


def confine_command(arguments: list[str]) -> None:
    """`{json} -- COMMAND...`: confine this process as the JSON says and become the command."""
    settings = json.loads(arguments[0])
    os.setsid()
    prctl(PR_SET_PDEATHSIG, 9)
    limit(settings["memory_bytes"], settings["file_bytes"], settings["cpu_seconds"], open_files=256)
    if settings["landlock"]:
        landlock(settings["read"], settings["write"])
    if settings["seccomp"]:
        seccomp(COMPILER_MAY_NOT)
    os.execvp(arguments[2], arguments[2:])


if __name__ == "__main__":
    confine_command(sys.argv[1:])
