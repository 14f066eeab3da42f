"""The words for what may be the matter with a program. Documents, diagnoses and lessons meet in them."""

from __future__ import annotations

from collections.abc import Mapping

CONCERNS: Mapping[str, str] = {
    "compile_error": "the toolchain refuses the source",
    "screen_rejected": "the source has something that a program may not have",
    "wrong_values": "an output differs from what it should be",
    "nan_or_infinity": "a NaN or an infinity comes out, or is lost",
    "out_of_bounds": "it reads or writes where it has no business",
    "nondeterministic": "it is right at times: a race, or state that outlives a call",
    "crash": "its process is ended by a signal, or by itself",
    "timeout": "it does not end in time",
    "memory_bound": "moving data is what takes the time",
    "compute_bound": "arithmetic is what takes the time",
    "launch_bound": "starting kernels or threads is what takes the time",
    "load_imbalance": "a few threads or blocks have most of the work",
    "spills": "values do not fit the registers",
    "low_occupancy": "too little is under way to hide how long memory takes",
    "precision": "rounding is worse than the dtype's own",
    "slow_than_baseline": "right, and slower than what there is already",
}
