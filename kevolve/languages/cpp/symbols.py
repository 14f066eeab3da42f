"""What a built C++ program may import from libraries: arithmetic, memory, OpenMP, and what the compiler itself emits.

The names in the binary tell what the source was made to hide; what a program does without importing anything
(raw system calls) is the sandbox's business.
"""

from __future__ import annotations

import re

_MATHS = """
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 sincos exp exp2 expm1 exp10 log log2 log10
    log1p logb pow sqrt cbrt fabs fma fmax fmin fmod fdim floor ceil trunc round lround llround rint lrint llrint
    nearbyint ldexp frexp modf scalbn scalbln copysign hypot erf erfc lgamma tgamma nextafter remainder nan
""".split()
_OTHERS = """
    memcpy memmove memset memcmp memchr bcmp strlen strcmp malloc calloc realloc free aligned_alloc posix_memalign
    __memcpy_chk __memmove_chk __memset_chk abs labs llabs abort atexit __assert_fail
    _Unwind_Resume __gxx_personality_v0 __stack_chk_fail __tls_get_addr __gmon_start__ __dso_handle
    _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable _GLOBAL_OFFSET_TABLE_ _ZSt9terminatev _ZSt7nothrow
""".split()
_EXACT = frozenset([*_OTHERS, *(name + suffix for name in _MATHS for suffix in ("", "f", "l"))])
# OpenMP, exceptions, operator new and delete, the library's throw helpers, type information, guards of statics.
_FAMILIES = re.compile(r"(GOMP_|omp_|__cxa_|_Zna|_Znw|_Zda|_Zdl|_ZSt\d+__throw_|_ZTV|_ZTI|_ZGV)\w*")


def forbidden_symbols(listing: str) -> list[str]:
    """Names in `nm --format=posix` output that a program may not import, versions stripped."""
    names = {line.split()[0].split("@")[0] for line in listing.splitlines() if line and not line.endswith(":")}
    return sorted(name for name in names if name not in _EXACT and not _FAMILIES.fullmatch(name))
