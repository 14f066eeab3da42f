"""Opens files for a child where there is no Landlock: below the folders that a program may read, and nowhere else.

The kernel hands the server every open that the child attempts (seccomp's user notification, Linux 5.14). The server
looks at the path, opens the file itself, and gives the child that descriptor: what the child changes in its memory
meanwhile does not matter. Loaded beside candidate programs, so it needs the standard library only.

Source: seccomp_unotify(2).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct

_RECEIVE, _ANSWER, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40182103  # SECCOMP_IOCTL_NOTIF_RECV, SEND, ADDFD
_AND_ANSWER = 2  # SECCOMP_ADDFD_FLAG_SEND
_LONGEST = 4096


def answer(listener: int, folders: list[str]) -> bool:
    """Answer the next attempt to open a file; False when there are no more, because the child has ended."""
    request = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, request)
    except OSError:
        return False
    number, thread, *_, path = struct.unpack_from("QIIiIQQQ", request)
    try:
        file = _open(thread, _text(thread, path), folders)
    except (OSError, OverflowError, ValueError) as error:  # an address or a path can be anything
        why = getattr(error, "errno", None) or errno.EACCES
        answered = struct.pack("QqiI", number, 0, -why, 0)
        with contextlib.suppress(OSError):  # the child has ended
            fcntl.ioctl(listener, _ANSWER, answered)
        return True
    with contextlib.suppress(OSError):
        fcntl.ioctl(listener, _ADD_DESCRIPTOR, struct.pack("QIIII", number, _AND_ANSWER, file, 0, os.O_CLOEXEC))
    os.close(file)
    return True


def _open(thread: int, path: str, folders: list[str]) -> int:
    """The file for reading. PermissionError if it is not the child's to read."""
    own = re.fullmatch(r"/proc/self/fd/([0-9]+)", path)
    if own:  # a program that the judge sent
        return os.open(f"/proc/{thread}/fd/{own[1]}", os.O_RDONLY | os.O_NONBLOCK)
    real = os.path.realpath(path)
    if not path.startswith("/") or not any(f"{real}/".startswith(f"{folder}/") for folder in folders):
        raise PermissionError(errno.EACCES, "not for a program to read")
    return os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)


def _text(thread: int, address: int) -> str:
    """The text that ends with a zero byte at an address of the child."""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        found = b""
        while b"\0" not in found and len(found) < _LONGEST:
            more = memory.read(min(256, 4096 - memory.tell() % 4096))
            if not more:
                break
            found += more
    return os.fsdecode(found.partition(b"\0")[0])
