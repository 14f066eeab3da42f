"""Instructions of a built C++ program that are no arithmetic: whatever the source calls them, the binary tells.

What is put together while the program runs is not seen here; that is the sandbox's business.
"""

from __future__ import annotations

_CACHES = "empties caches, for which the next program would pay"
_KERNEL = "makes system calls"

# What no honest program needs, and what it does.
FORBIDDEN = {
    **dict.fromkeys(("clflush", "clflushopt", "clwb", "cldemote", "clzero", "dc"), _CACHES),
    **dict.fromkeys(("syscall", "sysenter", "int", "svc"), _KERNEL),
}
_CLOCK = "reads a clock or the core it runs on"
_REGISTERS = "sets registers that outlive a call"
# What deserves a close look, and why.
ODD = {
    **dict.fromkeys(("rdtsc", "rdtscp", "rdpid", "rdpmc"), _CLOCK),
    **dict.fromkeys(("fldenv", "frstor", "fxrstor", "fxrstor64", "xrstor", "xrstor64", "fldcw"), _REGISTERS),
    **dict.fromkeys(("ldmxcsr", "vldmxcsr", "wrfsbase", "wrgsbase", "wrpkru"), _REGISTERS),
}
