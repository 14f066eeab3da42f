"""Blocks about the task: the operator's contract, its workloads and times, the device, documents, the parents."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from kevolve.propose.context.fitting import Block
from kevolve.propose.diagnosis import Diagnosis
from kevolve.verdict import Measurement, Scored, Verdict

if TYPE_CHECKING:
    from kevolve.judge.lease import Survey
    from kevolve.operators.operator import Operator
    from kevolve.program import Program
    from kevolve.propose.llm.retrieval import Picked

_FENCES = {"triton": "python"}
_RIVALS = 3  # baselines that are shown for a workload


def contract(operator: Operator) -> Block:
    """What is computed: the operator's own words, its arguments in call order, and its reference."""
    lines = [inspect.cleandoc(type(operator).__doc__ or "") if _is_own(operator) else "", "Arguments, in call order:"]
    for argument in operator.arguments:
        shape = f" [{', '.join(argument.shape)}]" if argument.kind != "scalar" else ""
        meaning = f": {argument.meaning}" if argument.meaning else ""
        lines.append(f"- {argument.name} ({argument.kind}, {argument.dtype}{shape}){meaning}")
    reference = _reference(operator)
    if reference:
        lines += ["Reference, in PyTorch, computed in float64:", "```python", reference, "```"]
    return Block("contract", "\n".join(line for line in lines if line))


def workloads(operator: Operator, survey: Survey | None, measured: Mapping[str, Measurement]) -> Block:
    """The search workloads: sizes, contents, weight, the fastest baselines, and the least time by the copy rate."""
    lines = []
    for workload in operator.workloads:
        if workload.role != "search":
            continue
        sizes = " ".join(f"{name}={size}" for name, size in workload.sizes.items())
        times = (survey.times_us if survey is not None else {}).get(workload.name, {})
        fastest = sorted(times.items(), key=lambda pair: pair[1])[:_RIVALS]
        rivals = ", ".join(f"{name} {us:.0f} us" for name, us in fastest)
        floor = f"; the copy rate allows {measured[workload.name].floor_us:.0f} us" if workload.name in measured else ""
        kinds = f"{workload.dtype}, {workload.index_dtype} indices, lengths {workload.lengths}, {workload.cache} caches"
        lines.append(f"- {workload.name}: {sizes}; {kinds}; weight {workload.weight:g}; fastest: {rivals}{floor}")
    return Block("workloads", "\n".join(lines))


def device(key: str, environment: Mapping[str, Any]) -> Block:
    """What the device can do, as measured on it."""
    peaks, pinned = environment.get("peaks", {}), environment.get("pinned", {})
    facts = [f"architecture {environment.get('architecture', 'unknown')}, {environment.get('toolchain', '')}"]
    if "OMP_NUM_THREADS" in pinned:
        facts.append(f"{pinned['OMP_NUM_THREADS']} OpenMP threads, each on a core of its own")
    names = {
        "copy_bytes_per_s": "copying from memory", "read_bytes_per_s": "reading from memory",
        "cache_read_bytes_per_s": "reading from caches",
    }  # fmt: skip
    facts += [f"{peaks[name] / 1e9:.0f} GB/s {words}" for name, words in names.items() if name in peaks]
    if "flops_per_s" in peaks:
        facts.append(f"{peaks['flops_per_s'] / 1e9:.0f} GFLOP/s")
    wide = [
        flag[2:] for flag in str(environment.get("flags", "")).split() if flag.startswith(("-mavx", "-mamx", "-mfma"))
    ]
    if wide:
        facts.append(f"instructions: {' '.join(wide)}")
    return Block("device", f"# Device {key}, as measured", tuple(f"- {fact}" for fact in facts), keep=5)


def documents(picked: Sequence[Picked]) -> Block:
    """What the knowledge base says to the case at hand, and why it was looked up."""
    items = tuple(f"## {one.name} ({one.because})\n{one.text.strip()}" for one in picked)
    return Block("documents", "# Notes that may help", items, keep=4)


def parents(programs: Sequence[tuple[Program, Verdict | None]], diagnoses: Sequence[Diagnosis]) -> Block:
    """The programs that the request starts from, each with what the judge says of it."""
    parts = []
    for number, ((program, verdict), diagnosis) in enumerate(zip(programs, diagnoses, strict=True), start=1):
        title = f"## Program {number} of {len(programs)}\n" if len(programs) > 1 else ""
        source = f"```{_FENCES.get(program.language, program.language)}\n{program.source.strip()}\n```"
        parts.append(f"{title}{diagnosis.paragraph}{_times(verdict)}\n{source}")
    return Block("parents", "\n\n".join(parts))


def _times(verdict: Verdict | None) -> str:
    if not isinstance(verdict, Scored):
        return ""
    rows = [
        f"- {m.workload}: {m.us:.0f} us, {m.speedup:.2f}x over {m.baseline}, {m.roofline:.0%} of the copy rate's bound"
        for m in verdict.measurements
        if m.role == "search"
    ]
    return "\n" + "\n".join(rows)


def _is_own(operator: Operator) -> bool:
    """One of kevolve's, whose class describes it, and not one that was made of a user's file."""
    return not hasattr(operator, "definition")


def _reference(operator: Operator) -> str:
    """The source of what is computed; a user's file is trusted, and shown without its workloads."""
    if _is_own(operator):
        return dedent(inspect.getsource(type(operator).oracle)).strip()
    definition: Any = operator.definition  # type: ignore[attr-defined]
    if definition.kind != "source":
        return ""
    text = definition.content.decode()
    wanted = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name in ("reference", "oracle", "check")
    ]
    return "\n\n".join(ast.get_source_segment(text, node) or "" for node in wanted)
