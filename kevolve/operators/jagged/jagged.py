"""What the jagged operators share: rows of numbers that `offsets` groups into a batch, and how inputs are made.

offsets is [batch + 1], starts at 0, never decreases and ends at or before `total`, the number of rows of jagged
tensors; rows past its end belong to nobody. Row b of the batch is `values[offsets[b]:offsets[b + 1]]`, called its
span. Beside jagged inputs [total, ...] an operator may have padded ones [batch, max_length, ...] and ones with a
matrix for each row of the batch.
"""

from __future__ import annotations

import itertools
import math
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import torch

from kevolve.operators.checks import FLOAT32_ROUNDOFF, Allowed, check_form
from kevolve.operators.inputs import LAYOUTS, LENGTHS, VALUES, Rows, mixed_copy
from kevolve.operators.operator import Argument, Fill, Inputs, Mismatch, Operator, Outputs, Workload

_FEWEST_ENTRIES, _MOST_ENTRIES = 16, 64  # of all calls together, where some are looked at
_POOL_DIM = 64  # values of a row, where rows are of no operator's


class JaggedOperator(Operator):
    """Makes the inputs of a jagged operator. `max_length` of a workload bounds its lengths.

    An operator that has `max_length` among its arguments uses only that many rows of each span, unless
    `uses_whole_spans` says that it bounds nothing but the padded inputs.
    """

    sizes: ClassVar[tuple[str, ...]] = ("batch", "max_length", "dim")
    uses_whole_spans: ClassVar[bool] = False
    odd_everywhere: ClassVar[tuple[str, ...]] = ("lone_cells",)

    def make_inputs(self, workload: Workload, rng: torch.Generator, device: str = "cpu") -> Inputs:
        """Every input of numbers, and offsets [batch + 1]. Numbers are drawn on `device`, seeded from `rng`."""
        offsets = _draw_offsets(workload, rng)
        scalars = self._scalars(workload, offsets)
        shapes = self.shapes(scalars)
        regime = VALUES[workload.values]
        drawing = rng if device == "cpu" else _generator_on(device, rng)
        numbers = {}
        for argument in self._number_inputs():
            drawn = torch.empty(shapes[argument.name], device=device)
            # Content with free bits has nothing to do with rows, and that of every timed call need not know them.
            rows = Rows((), 0) if regime.free_bits else self._rows(argument, offsets, scalars)
            regime.fill(drawn.flatten(0, -2), rows, drawing)
            numbers[argument.name] = drawn
        return _placed(numbers, offsets, scalars, workload, device)

    def odd(self, workload: Workload, chooser: random.Random) -> list[Workload]:
        """Each kind of values of the adversarial workloads, mixtures, one odd span or cell; any of their lengths."""
        others = [other for other in self.workloads if other.role == "adversarial"]
        kinds = {other.values for other in others if other.dtype == workload.dtype}
        kinds |= {"patchwork", "lone", "lone_cells"} | ({"lone_specials"} if "nan_row" in kinds else set())
        found = []
        for values in sorted(kinds) if others else ():
            keeps_lengths = values in self.odd_everywhere or chooser.random() < 0.5
            lengths = workload.lengths if keeps_lengths else chooser.choice(others).lengths
            name = f"{workload.name} with {values} values and {lengths} lengths"
            found.append(replace(workload, name=name, role="adversarial", values=values, lengths=lengths))
        return found

    def source(self, inputs: Inputs, workload: Workload, pool: Callable[[Fill], torch.Tensor]) -> Inputs:
        """The pool in place of every input of numbers, where its values may be mixed."""
        regime = VALUES[workload.values]
        if not regime.free_bits:
            return inputs
        values = pool(lambda into, rng: regime.fill(into.view(-1, _POOL_DIM), Rows((), 0), rng))
        return Inputs({**inputs.tensors, **{a.name: values for a in self._number_inputs()}}, inputs.scalars)

    def refresh(
        self, inputs: Inputs, workload: Workload, rng: torch.Generator, into: Mapping[str, torch.Tensor] | None = None
    ) -> Inputs:
        """New lengths; every input of numbers mixed from the drawn one, which does not tell what it adds up to."""
        drawn = {argument.name: inputs.tensors[argument.name].contiguous() for argument in self._number_inputs()}
        regime = VALUES[workload.values]
        if not regime.movable or not all(source.numel() for source in drawn.values()):
            return super().refresh(inputs, workload, rng, into)
        offsets = _draw_offsets(workload, rng)
        scalars = self._scalars(workload, offsets)
        shapes = self.shapes(scalars)
        numbers = {}
        for name, source in drawn.items():
            count = math.prod(shapes[name])
            flat = source.new_empty(count) if into is None else into[name][:count]
            one, other = torch.randint(source.numel(), (2,), generator=rng).tolist()
            numbers[name] = mixed_copy(source, flat, (one, other), regime.free_bits).view(shapes[name])
        if into is None:
            return _placed(numbers, offsets, scalars, workload, str(inputs.offsets.device))
        return Inputs({**numbers, "offsets": into["offsets"][: len(offsets)].copy_(offsets)}, scalars)

    def draw_scalars(self, workload: Workload, rng: torch.Generator) -> Mapping[str, int]:
        """Lengths are drawn, and nothing else."""
        return self._scalars(workload, _draw_offsets(workload, rng))

    @abstractmethod
    def allowed(self, workload: Workload, expected: Outputs, inputs: Inputs) -> Mapping[str, Allowed]:
        """What each output may be, all in the workload's dtype; `expected` is the oracle's answer."""

    def check(self, workload: Workload, outputs: Outputs, expected: Outputs, inputs: Inputs) -> Mismatch | None:
        """The right form, and every element allowed."""
        if mismatch := check_form(outputs, self.output_shapes(inputs), getattr(torch, workload.dtype)):
            return mismatch
        allowed = self.allowed(workload, expected, inputs).items()
        return next(filter(None, (one.differs(name, outputs[name]) for name, one in allowed)), None)

    def checker(self, workload: Workload, inputs: Inputs) -> Callable[[Outputs], Mismatch | None]:
        """Bounds are computed once; only an answer that is not within them is looked at closely."""
        expected, dtype = self.oracle(inputs), getattr(torch, workload.dtype)
        quickly = {n: one.quickly(dtype) for n, one in self.allowed(workload, expected, inputs).items()}

        def check(outputs: Outputs) -> Mismatch | None:
            if mismatch := check_form(outputs, self.output_shapes(inputs), dtype):
                return mismatch
            if all(is_right(outputs[name]) for name, is_right in quickly.items()):
                return None
            return self.check(workload, outputs, self.oracle(inputs), inputs)

        return check

    def sample(
        self, inputs: Inputs, outputs: Outputs, rng: torch.Generator, most: int | None = None
    ) -> tuple[Inputs, Outputs]:
        """An eighth of the batch, anywhere; the last part brings the rows past the last offset with it."""
        batch = inputs.batch
        count = min(-(-batch // 8), batch if most is None else most)
        first = int(torch.randint(batch - count + 1, (), generator=rng)) if batch else 0
        last = first + count
        start, end = int(inputs.offsets[first]), inputs.total if last == batch else int(inputs.offsets[last])
        ranges = {"total": slice(start, end), "batch": slice(first, last)}
        given = {**inputs.tensors, **outputs}
        taken = {a.name: given[a.name][ranges[a.shape[0]]] for a in self.arguments if a.shape and a.name != "offsets"}
        tensors = {name: taken.get(name, inputs.offsets[first : last + 1] - start) for name in inputs.tensors}
        scalars = {**inputs.scalars, "batch": count, "total": end - start}
        return Inputs(tensors, scalars), {name: taken[name] for name in outputs}

    def scattered(
        self, calls: Sequence[tuple[Inputs, Outputs]], rng: torch.Generator, numbers: int
    ) -> tuple[Inputs, Outputs] | None:
        """Batch entries of all calls in turns, and the rows past the last offset of one of them."""
        if not calls[0][0].batch:
            return None
        arguments = [a for a in self.arguments if a.shape and a.name != "offsets"]
        pieces: dict[str, list[torch.Tensor]] = {a.name: [] for a in arguments}
        ends, taken = [0], 0

        def take(call: int, rows: slice, entries: slice) -> None:
            given = {**calls[call][0].tensors, **calls[call][1]}
            for a in arguments:
                pieces[a.name].append(given[a.name][rows if a.shape[0] == "total" else entries])

        fewest = max(_FEWEST_ENTRIES, len(calls))
        first, *numbers_drawn = torch.randint(1 << 30, (1 + max(_MOST_ENTRIES, fewest),), generator=rng).tolist()
        for number, drawn in enumerate(numbers_drawn, 1):
            call = (first + number) % len(calls)
            offsets = calls[call][0].offsets
            b = drawn % calls[call][0].batch
            if number % 2 and taken < numbers and offsets[-1] > 0:  # by their rows: where the work is
                b = int(torch.searchsorted(offsets, drawn % int(offsets[-1]), right=True)) - 1
            start, end = offsets[b : b + 2].tolist()
            take(call, slice(start, end), slice(b, b + 1))
            ends.append(ends[-1] + end - start)
            taken += sum(pieces[a.name][-1].numel() for a in self._number_inputs())
            if taken >= numbers and number >= fewest:
                break
        batch = len(ends) - 1
        take(call, slice(int(offsets[-1]), None), slice(0, 0))
        tensors = {name: torch.cat(found) for name, found in pieces.items()}
        given = {name: tensors.get(name, offsets.new_tensor(ends)) for name in calls[0][0].tensors}
        total = ends[-1] + calls[call][0].total - int(offsets[-1])
        scalars = {**calls[0][0].scalars, "batch": batch, "total": total}
        return Inputs(given, scalars), {name: tensors[name] for name in calls[0][1]}

    def unseen(self, chooser: random.Random) -> list[Workload]:
        """One of each kind of binary, smaller than what is timed but large enough to be taken for it."""
        kinds = {(w.dtype, w.index_dtype): w for w in self.workloads if w.role == "search"}
        found = []
        for workload in kinds.values():
            sizes = {name: chooser.randint(1, max(size, 2)) for name, size in workload.sizes.items()}
            sizes["batch"] = chooser.randint(1, 96)
            sizes["max_length"] = chooser.randint(1, 96)
            name = "of unknown sizes " + ", ".join(f"{name} {size}" for name, size in sizes.items())
            found.append(replace(workload, name=name, role="adversarial", sizes=sizes, lengths="uniform"))
        return found

    def capacity(self, workload: Workload) -> dict[str, int]:
        """Elements by argument name, with `total` at the most that the lengths can sum to."""
        sizes, lengths = workload.sizes, LENGTHS[workload.lengths]
        most = {**sizes, "total": lengths.bound(sizes["batch"], sizes["max_length"]) + lengths.tail}
        return {name: math.prod(shape) for name, shape in self.shapes(most).items()}

    def _scalars(self, workload: Workload, offsets: torch.Tensor) -> dict[str, int]:
        known = {**workload.sizes, "total": int(offsets[-1]) + LENGTHS[workload.lengths].tail}
        return {argument.name: known[argument.name] for argument in self.arguments if argument.kind == "scalar"}

    def _number_inputs(self) -> list[Argument]:
        """The inputs other than offsets, in the order of the arguments."""
        return [argument for argument in self.arguments if argument.kind == "input" and argument.dtype == "value"]

    def _rows(self, argument: Argument, offsets: torch.Tensor, scalars: Mapping[str, int]) -> Rows:
        """Which rows of an input count, when it is seen as [rows, last dimension].

        Of a padded input those that an entry has; of an entry's matrix all, unless the entry has no rows.
        """
        taken = _spans(offsets, scalars.get("max_length"))
        if argument.shape[0] == "total":
            return Rows(tuple(_spans(offsets, None) if self.uses_whole_spans else taken), scalars["total"])
        each = scalars[argument.shape[1]]
        is_padded = argument.shape[1] == "max_length"
        counts = [end - start if is_padded else each * (end > start) for start, end in taken]
        return Rows(tuple((b * each, b * each + count) for b, count in enumerate(counts)), len(counts) * each)


def spans(inputs: Inputs) -> list[tuple[int, int]]:
    """The first rows of each span: at most `max_length` of them if the operator has that argument."""
    return _spans(inputs.offsets, inputs.scalars.get("max_length"))


def whole_spans(inputs: Inputs) -> list[tuple[int, int]]:
    """Every span in full, whatever `max_length` says."""
    return _spans(inputs.offsets, None)


def owners(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """For each row of jagged tensors the batch entry it belongs to, int64 [total], and whether it takes part, bool.

    Rows that do not belong to an entry have the number of another. The batch must not be empty.
    """
    offsets: torch.Tensor = inputs.offsets.long()
    position = torch.arange(inputs.total, device=offsets.device)
    entry = torch.searchsorted(offsets[1:].contiguous(), position, right=True).clamp_(max=inputs.batch - 1)
    takes_part = position < offsets[-1]
    if "max_length" in inputs.scalars:
        takes_part &= position - offsets[entry] < inputs.max_length
    return entry, takes_part


def sum_error(terms: torch.Tensor, values: str, most: float = 2.0**-12) -> torch.Tensor:
    """What a float32 sum of that many terms in any order loses, as a share of the sum of their magnitudes.

    n roundings of partial sums, each at most the sum of magnitudes and independent in sign, add up to about
    sqrt(n) roundoffs of that sum; twice that is allowed. Where they are not independent (`values` names the regime)
    they add up to n at worst. Never more than `most` of it.
    """
    count = terms.double()
    roundings = 2 * count.sqrt() if VALUES[values].cancels else count.maximum(2 * count.sqrt())
    return (FLOAT32_ROUNDOFF * roundings).clamp_(max=most)


def bytes_moved(inputs: Inputs, numbers: int) -> int:
    """What it takes to move that many numbers and to read the offsets once."""
    size = next(tensor.element_size() for tensor in inputs.tensors.values() if tensor.is_floating_point())
    offsets: torch.Tensor = inputs.offsets
    return numbers * size + offsets.numel() * offsets.element_size()


def _spans(offsets: torch.Tensor, limit: int | None) -> list[tuple[int, int]]:
    pairs = itertools.pairwise(offsets.tolist())
    return [(start, end if limit is None else min(end, start + limit)) for start, end in pairs]


def _generator_on(device: str, rng: torch.Generator) -> torch.Generator:
    return torch.Generator(device).manual_seed(int(torch.randint(1 << 62, (), generator=rng)))


def _draw_offsets(workload: Workload, rng: torch.Generator) -> torch.Tensor:
    """int64 [batch + 1]."""
    lengths = LENGTHS[workload.lengths].draw(workload.sizes["batch"], workload.sizes["max_length"], rng)
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])


def _placed(
    numbers: Mapping[str, torch.Tensor],
    offsets: torch.Tensor,
    scalars: Mapping[str, int],
    workload: Workload,
    device: str,
) -> Inputs:
    """In the workload's dtypes and layout, on `device`."""
    place = LAYOUTS[workload.layout]
    tensors = {name: place(tensor.to(device, getattr(torch, workload.dtype))) for name, tensor in numbers.items()}
    offsets = offsets.to(getattr(torch, workload.index_dtype))
    if device != "cpu":  # from pinned memory, so that nobody waits for what the device has still to do
        offsets = offsets.pin_memory().to(device, non_blocking=True)
    tensors["offsets"] = place(offsets)
    return Inputs(tensors, scalars)
