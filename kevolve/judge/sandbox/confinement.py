"""Confinement of a process by its own hand: limits, capabilities, namespaces, Landlock and seccomp.

This file also runs on its own, as `python -I confinement.py '{json}' -- COMMAND`, to confine a compiler. It is
loaded beside candidate programs, so it needs the standard library only.

Sources: landlock(7), seccomp(2), bpf(2), capabilities(7), user_namespaces(7); numbers from the kernel's tables.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import re
import resource
import struct
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_TIMERSLACK = 29
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 24, 47, 4
_CAPABILITIES = b"\x22\x05\x08\x20" + bytes(4)  # the header of capset(2), version 3, this process
_LAST_CAPABILITY = 63
_CAP_KILL, _CAP_SETGID, _CAP_SETUID, _CAP_SYS_PTRACE = 5, 6, 7, 19
NOBODY = 65534

_NEW_IPC, _NEW_USER, _NEW_PID = 0x08000000, 0x10000000, 0x20000000

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446

# Landlock access rights by the ABI version that brought them.
_FS_EXECUTE, _FS_WRITE_FILE, _FS_READ_FILE, _FS_READ_DIR = 1, 2, 4, 8
_FS_BY_ABI = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_FILE_ONLY = _FS_EXECUTE | _FS_WRITE_FILE | _FS_READ_FILE | (1 << 14)
_NET_BIND_AND_CONNECT = 3
_SCOPE_SOCKETS_AND_SIGNALS = 3

# What a program may call, each as name=x86_64/aarch64. Some only with harmless arguments, see `_candidate_rules`.
_ALLOWED = """
    futex=202/98 read=0/63 write=1/64 writev=20/66 close=3/57 lseek=8/62 pread64=17/67 fstat=5/80 newfstatat=262/79
    recvmsg=47/212 recvfrom=45/207 sendto=44/206
    mmap=9/222 munmap=11/215 mprotect=10/226 brk=12/214
    set_robust_list=273/99 rseq=334/293 sched_yield=24/124 sched_getaffinity=204/123 getpid=39/172 gettid=186/178
    clock_gettime=228/113 clock_getres=229/114 gettimeofday=96/169 time=201/- nanosleep=35/101 clock_nanosleep=230/115
    sched_setaffinity=203/122 getcpu=309/168 getrandom=318/278 sysinfo=99/179
    rt_sigaction=13/134 rt_sigprocmask=14/135 rt_sigreturn=15/139 sigaltstack=131/132 restart_syscall=219/128
    exit=60/93 exit_group=231/94
"""
_CHECKED = """
    clone=56/220 clone3=435/435 openat=257/56 madvise=28/233 mremap=25/216 prctl=157/167 prlimit64=302/261
    kill=62/129 tkill=200/130 tgkill=234/131
"""
# What no honest program calls: it ends there and then. Whatever is in neither list answers EPERM.
_ENDS = """
    fork=57/- vfork=58/- execve=59/221 execveat=322/281 setsid=112/157 setpgid=109/154 unshare=272/97 setns=308/268
    socket=41/198 socketpair=53/199 connect=42/203 bind=49/200 listen=50/201 accept=43/202 accept4=288/242
    sendmsg=46/211 sendmmsg=307/269
    ptrace=101/117 process_vm_readv=310/270 process_vm_writev=311/271 process_madvise=440/440 kcmp=312/272
    pidfd_open=434/434 pidfd_send_signal=424/424 pidfd_getfd=438/438 process_mrelease=448/448
    rt_sigqueueinfo=129/138 rt_tgsigqueueinfo=297/240
    shmget=29/194 shmat=30/196 shmctl=31/195 msgget=68/186 msgsnd=69/189 msgrcv=70/188 msgctl=71/187
    semget=64/190 semop=65/193 semtimedop=220/192 semctl=66/191 mq_open=240/180 mq_unlink=241/181
    memfd_create=319/279 memfd_secret=447/447
    clock_settime=227/112 clock_adjtime=305/266 adjtimex=159/171 settimeofday=164/170
    sched_setscheduler=144/119 sched_setparam=142/118 sched_setattr=314/274 setpriority=141/140 ioprio_set=251/30
    migrate_pages=256/238 move_pages=279/239
    setuid=105/146 setresuid=117/147 setgroups=116/159 capset=126/91 personality=135/92
    mount=165/40 umount2=166/39 pivot_root=155/41 chroot=161/51 open_tree=428/428 move_mount=429/429 fsopen=430/430
    fsconfig=431/431 fsmount=432/432 fspick=433/433 mount_setattr=442/442 open_by_handle_at=304/265
    bpf=321/280 perf_event_open=298/241 userfaultfd=323/282 io_uring_setup=425/425 io_uring_enter=426/426
    io_uring_register=427/427 add_key=248/217 request_key=249/218 keyctl=250/219
    init_module=175/105 finit_module=313/273 delete_module=176/106 kexec_load=246/104 kexec_file_load=320/294
    reboot=169/142 swapon=167/224 swapoff=168/225 iopl=172/- ioperm=173/- modify_ldt=154/- acct=163/89 syslog=103/116
    quotactl=179/60 sethostname=170/161 setdomainname=171/162 fanotify_init=300/262
"""
_ADVICE = (0, 1, 2, 3, 4, 8, 14, 15, 22, 23, 102, 103)  # madvise: on its own pages; no PAGEOUT, COLD or REMOVE
_NAME_A_THREAD = (15, 16, 0x53564D41)  # prctl: PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
_OPENS_TO_WRITE = 0o3 | 0o100 | 0o1000  # O_ACCMODE, O_CREAT, O_TRUNC
COMPILER_MAY_NOT = ("socket", "ptrace", "mount", "unshare", "setns", "bpf", "io_uring_setup", "keyctl")

_ARCHITECTURES = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}  # audit id, column, seccomp(2)
_CLONE_THREAD = 0x00010000
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_WITHOUT_SLOWDOWN = 4  # SECCOMP_FILTER_FLAG_SPEC_ALLOW: baselines are not slowed down either
_KILL_PROCESS, _ERRNO, _ASK, _ALLOW = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
_LOAD_WORD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

Line = tuple[int, int, int, int]  # of a BPF program: code, jump if true, jump if false, operand


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument; OSError if the kernel refuses."""
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def own_namespaces() -> None:
    """The processes that this one forks from now on have PID and IPC namespaces of their own; the first is their init.

    OSError where the kernel, or what guards it, does not let namespaces nest.
    """
    if _LIBC.unshare(_NEW_USER | _NEW_PID | _NEW_IPC) != 0:
        raise OSError(ctypes.get_errno(), "new namespaces refused")


def bound_processes(folder: int, count: int) -> None:
    """No more than `count` processes and threads in this PID namespace, root's included.

    `folder` is /proc/sys/kernel, open. RLIMIT_NPROC, which must do where this cannot be had, does not bind root.
    """
    # Linux 6.14 gave each namespace its number. Before, there is one for the machine, and root could set it from here.
    if _kernel() >= (6, 15):
        with os.fdopen(os.open("pid_max", os.O_WRONLY, dir_fd=folder), "w") as pid_max:
            pid_max.write(str(count))


def _kernel() -> tuple[int, int]:
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def drop_capabilities(*, as_nobody: bool = False) -> None:
    """No capability from now on, and no way to get one. OSError if the kernel refuses.

    `as_nobody`: root goes on as nobody, where its parent can still inspect and end it.
    """
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    for capability in range(_LAST_CAPABILITY + 1):
        # Refused to who has none, and for those that this kernel does not know.
        _LIBC.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
    _LIBC.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_CLEAR_ALL), 0, 0, 0)
    if as_nobody and os.getuid() == 0 and _holds(_CAP_KILL, _CAP_SETGID, _CAP_SETUID, _CAP_SYS_PTRACE):
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    if _LIBC.capset(_CAPABILITIES, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")


def _holds(*capabilities: int) -> bool:
    held = ctypes.create_string_buffer(24)
    _LIBC.capget(_CAPABILITIES, held)
    effective: int = struct.unpack_from("I", held)[0]
    return all(effective >> capability & 1 for capability in capabilities)


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


def seccomp(forbidden: tuple[str, ...] | None = None, *, for_device: bool = False) -> None:
    """From now on a forbidden system call ends the process with SIGSYS.

    Without a list of the forbidden: only what a program needs is allowed, what no honest one calls ends it, and the
    rest answers EPERM. `for_device`: the rest is allowed, because a device's driver needs whatever it needs.
    Raises OSError where the architecture or kernel has no filter for it.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system call table for {machine}")
    column = _ARCHITECTURES[machine][1]
    if forbidden is not None:
        rules = _compiler_rules(column, forbidden)
    else:
        rules = _device_rules(column) if for_device else _candidate_rules(column)
    _install(rules, _WITHOUT_SLOWDOWN)


def supervise_opens() -> int:
    """From now on, another process answers when this one opens a file: who has the descriptor that is returned.

    OSError where the kernel cannot do that. To be called before `seccomp`.
    """
    if _kernel() < (5, 14):
        raise OSError(errno.ENOSYS, "the kernel cannot have files opened by another process (Linux 5.14)")
    opens = _numbers(_CHECKED, _ARCHITECTURES[platform.machine()][1])["openat"]
    return _install([*_if(opens, [_end(_ASK)]), _end(_ALLOW)], _WITHOUT_SLOWDOWN | _NEW_LISTENER)


def _install(rules: list[Line], flags: int) -> int:
    audit, _, number = _ARCHITECTURES[platform.machine()]
    program = [
        (_LOAD_WORD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD_WORD, 0, 0, 0),
        (_JUMP_GREATER_EQUAL, 0, 1, 0x40000000),  # the x32 numbers would slip past the list
        (_RETURN, 0, 0, _KILL_PROCESS),
        *rules,
    ]
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    pointer = FilterProgram(len(program), ctypes.cast(buffer, ctypes.c_void_p))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    operation = ctypes.c_ulong(_SET_MODE_FILTER)
    descriptor: int = _LIBC.syscall(number, operation, ctypes.c_ulong(flags), ctypes.byref(pointer))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "seccomp filter refused")
    return descriptor


def _candidate_rules(column: int) -> list[Line]:
    """Threads, memory, clocks, its own channel, and files to read; see the lists."""
    checked = _numbers(_CHECKED, column)
    by_name = {
        **_no_processes(),
        "openat": [_argument(2), (_JUMP_SET, 0, 1, _OPENS_TO_WRITE), _end(_ERRNO | errno.EACCES), _end(_ALLOW)],
        "madvise": _only(2, _ADVICE),
        # For realloc. A size of zero would make a second view of shared memory; other flags choose where it goes.
        "mremap": [_argument(1), *_if(0, [_end(_KILL_PROCESS)]), *_only(3, (0, 1))],
        "prctl": _only(0, _NAME_A_THREAD),
        # Limits may be read, not set: both halves of the pointer to new ones are zero.
        "prlimit64": [
            *(_argument(2), (_JUMP_EQUAL, 0, 3, 0), _argument(2, high=True), (_JUMP_EQUAL, 0, 1, 0)),
            *(_end(_ALLOW), _end(_ERRNO | errno.EPERM)),
        ],
    }
    rules = [line for number in _numbers(_ALLOWED, column).values() for line in _if(number, [_end(_ALLOW)])]
    rules += [line for name, number in checked.items() for line in _if(number, by_name[name])]
    rules += [line for number in _numbers(_ENDS, column).values() for line in _if(number, [_end(_KILL_PROCESS)])]
    return [*rules, _end(_ERRNO | errno.EPERM)]


def _device_rules(column: int) -> list[Line]:
    """No processes, and nothing that no honest program calls; what a driver does through files is up to it."""
    checked = _numbers(_CHECKED, column)
    rules = [line for name, lines in _no_processes().items() for line in _if(checked[name], lines)]
    rules += [line for number in _numbers(_ENDS, column).values() for line in _if(number, [_end(_KILL_PROCESS)])]
    return [*rules, _end(_ALLOW)]


def _no_processes() -> dict[str, list[Line]]:
    """Threads may be started, and signals sent to the process itself: abort() and raise() need that."""
    itself = _only(0, (os.getpid(),))
    return {
        # A new thread, not a process. clone3 hides its flags in memory, so it is absent and libc falls back to clone.
        "clone": [_argument(0), (_JUMP_SET, 0, 1, _CLONE_THREAD), _end(_ALLOW), _end(_KILL_PROCESS)],
        "clone3": [_end(_ERRNO | errno.ENOSYS)],
        **dict.fromkeys(("kill", "tkill", "tgkill"), itself),
    }


def _compiler_rules(column: int, forbidden: tuple[str, ...]) -> list[Line]:
    numbers = _numbers(_ENDS, column)
    rules = [line for name in forbidden for line in _if(numbers[name], [_end(_KILL_PROCESS)])]
    return [*rules, _end(_ALLOW)]


def _numbers(table: str, column: int) -> dict[str, int]:
    """The calls of a table that this architecture has, with their numbers."""
    pairs = [entry.partition("=") for entry in table.split()]
    numbers = {name: both.split("/")[column] for name, _, both in pairs}
    return {name: int(number) for name, number in numbers.items() if number != "-"}


def _if(number: int, lines: list[Line]) -> list[Line]:
    """`lines` for the system call `number`; they end in a verdict."""
    return [(_JUMP_EQUAL, 0, len(lines), number), *lines]


def _only(argument: int, values: tuple[int, ...]) -> list[Line]:
    """Allowed with one of these values of an argument; any other ends the process."""
    allowed = [line for value in values for line in _if(value, [_end(_ALLOW)])]
    return [_argument(argument), *allowed, _end(_KILL_PROCESS)]


def _argument(index: int, high: bool = False) -> Line:
    """Load half of an argument; both architectures are little-endian."""
    return (_LOAD_WORD, 0, 0, 16 + 8 * index + 4 * high)


def _end(verdict: int) -> Line:
    return (_RETURN, 0, 0, verdict)


def limit(memory_bytes: int, file_bytes: int, cpu_seconds: int, *, threads: int = 0, open_files: int = 64) -> None:
    """Resource limits: `memory_bytes` of address space beyond what the process has now.

    `threads` bounds the threads and processes of this user (of this user's in the namespace, where there is one);
    0 leaves that as it is.
    """
    with open("/proc/self/statm") as statm:
        present = int(statm.read().split()[0]) * resource.getpagesize()
    for which, soft, hard in (
        (resource.RLIMIT_AS, present + memory_bytes, present + memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1),  # SIGXCPU, and SIGKILL for who ignores that
        (resource.RLIMIT_NOFILE, open_files, open_files),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        *([(resource.RLIMIT_NPROC, threads, threads)] if threads else []),
    ):
        most = resource.getrlimit(which)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(which, (soft, hard))


def confine_command(arguments: list[str]) -> None:
    """`{json} -- COMMAND...`: confine this process as the JSON says and become the command."""
    settings = json.loads(arguments[0])
    prctl(PR_SET_PDEATHSIG, 9)
    limit(settings["memory_bytes"], settings["file_bytes"], settings["cpu_seconds"], open_files=256)
    if settings["landlock"]:
        landlock(settings["read"], settings["write"])
    drop_capabilities()
    if settings["seccomp"]:
        seccomp(COMPILER_MAY_NOT)
    os.execvp(arguments[2], arguments[2:])


if __name__ == "__main__":
    confine_command(sys.argv[1:])
