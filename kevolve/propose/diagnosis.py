"""Diagnosis: what a verdict says is the matter with a program, in the words of the knowledge base's vocabulary.

Analysis comes before retrieval: concerns and search words choose documents, the paragraph goes into the request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kevolve.verdict import Fault, Measurement, Rejected, Scored, Verdict

# Words of the judge's reasons, most telling first; a rejection has every concern whose words it holds.
_SIGNS = (
    ("nan_or_infinity", r"is NaN|where NaN|infinity"),
    ("out_of_bounds", r"writes outside|past the end|SIGBUS|SIGSEGV|illegal memory|out of bounds|misaligned address"),
    ("crash", r"ended by|ended before it answered|exit status|fails (on|before|while)|SIG(ILL|FPE|ABRT|SEGV|BUS)"),
    ("timeout", r"did not finish|processor time|took too long"),
    ("nondeterministic", r"differs between|unwritten|in a timed call"),
    ("spills", r"registers? .*spill|spill"),
)
_NEAR_THE_BOUND = 0.75  # of the roofline: then memory is what limits
_IDLE = 0.6  # share of cores at work below which work is badly divided
_UNEVEN = 2.0  # how many times closer to the bound one workload is than another of the same dtype
_CLOSE = 64.0  # times the allowed error: so near a miss is rounding, not logic
_LAUNCH_US = 25.0
_FEW_WARPS = 0.25  # occupancy
_DETAIL = 1500


@dataclass(frozen=True)
class Diagnosis:
    """`concerns` of the vocabulary, gravest first; `words` to search documents with; `paragraph` for a reader."""

    concerns: tuple[str, ...]
    words: str
    paragraph: str


def diagnose(verdict: Verdict | None) -> Diagnosis:
    """What is the matter, as far as the verdict (with its profile) tells."""
    match verdict:
        case Rejected():
            return _of_rejected(verdict)
        case Scored():
            return _of_scored(verdict)
        case Fault() | None:
            return Diagnosis((), "", "It was not judged yet.")


def _of_rejected(verdict: Rejected) -> Diagnosis:
    said = f"{verdict.reason}\n{verdict.detail}"
    found = [concern for concern, sign in _SIGNS if re.search(sign, said)]
    if verdict.stage == "screen":
        found = ["screen_rejected"]
    elif verdict.stage == "build":
        found = ["screen_rejected"] if "may only compute" in said else ["compile_error", *found]
    elif verdict.reason.startswith("wrong on"):
        found = ["precision", "wrong_values", *found] if _is_close(verdict.detail) else ["wrong_values", *found]
    stages = {
        "screen": "It was refused for its text", "build": "It does not build", "correctness": "It is not right",
        "timing": "It was rejected while it was timed",
    }  # fmt: skip
    detail = f"\n{verdict.detail[:_DETAIL].rstrip()}" if verdict.detail else ""
    concerns = tuple(dict.fromkeys(found))
    return Diagnosis(concerns, _words(said, concerns), f"{stages[verdict.stage]}: {verdict.reason}{detail}")


def _of_scored(verdict: Scored) -> Diagnosis:
    profile, searched = verdict.profile, [m for m in verdict.measurements if m.role == "search"]
    concerns = _limits(profile, searched or list(verdict.measurements))
    lost = sorted((m for m in searched if m.speedup < 1), key=lambda m: m.speedup)
    if lost:
        concerns.append("slow_than_baseline")
    fitness = verdict.fitness
    sentences = [
        f"It is right, and {fitness.speedup:.2f}x as fast as the fastest baselines (worst workload"
        f" {fitness.worst:.2f}x, {fitness.roofline:.0%} of what moving the data once would allow).",
        str(profile.get("diagnosis", "")),
    ]
    if lost:
        listed = ", ".join(f"{m.workload} ({m.speedup:.2f}x, {m.baseline} takes {m.baseline_us:.0f} us)" for m in lost)
        sentences.append(f"It is slower than the baseline on {listed}.")
    text = " ".join(sentence for sentence in sentences if sentence)
    return Diagnosis(tuple(dict.fromkeys(concerns)), _words(text, tuple(concerns)), text)


def _limits(profile: Mapping[str, Any], measurements: list[Measurement]) -> list[str]:
    """What limits a right program, the gravest first."""
    found = []
    if profile.get("local_bytes"):
        found.append("spills")
    if profile.get("occupancy", 1.0) < _FEW_WARPS:
        found.append("low_occupancy")
    if not measurements:
        return found
    said = str(profile.get("diagnosis", ""))
    worst = min(measurements, key=lambda m: m.roofline)
    if "cores stand idle" in said or profile.get("idle_share", 0.0) > 1 - _IDLE:
        found.append("load_imbalance")
    if worst.roofline >= _NEAR_THE_BOUND:
        return [*found, "memory_bound"]
    if "Launching bounds" in said or max(m.us for m in measurements) < _LAUNCH_US:
        return [*found, "launch_bound"]
    if max(m.roofline for m in measurements) > _UNEVEN * worst.roofline:
        found.append("load_imbalance")
    return [*found, "compute_bound"]


def _is_close(detail: str) -> bool:
    """Is the first wrong element off by little more than rounding explains?"""
    number = r"(-?[\d.]+(?:e[+-]?\d+)?)"
    match = re.search(rf"expected {number}, got {number}, allowed error {number}", detail)
    if match is None:
        return False
    wanted, got, allowed = map(float, match.groups())
    return 0 < abs(wanted - got) <= _CLOSE * allowed


def _words(said: str, concerns: tuple[str, ...]) -> str:
    """Words worth searching for: concerns in plain words, and the names that the verdict itself mentions."""
    names = re.findall(r"[A-Za-z_][A-Za-z0-9_]{3,}", said)
    seen = dict.fromkeys([*" ".join(concerns).replace("_", " ").split(), *names])
    return " ".join(list(seen)[:40])
