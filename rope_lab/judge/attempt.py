"""One run of a reader's function on one case, and what is wrong with it."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rope_kernels.paths import triton_is_installed

from ..interpreter.functions import cannot_be_interpreted
from ..interpreter.tuners import Tuning, configuration
from .check import compare
from .counts import COPIES, BesideKernels, Counted, more_than_half_the_table, wasted
from .errors import failure_of, line_of_the_reader, not_the_kernels_fault
from .guests import TookTooLong, a_guest, device_of_the_lab
from .lanes import HOW_LANES_WAIT
from .spec import CHANGED, Case, Spec, laid_out_alike, memory_of
from .verdict import HOW_TO_BEGIN, NOT_YET, WRONG, Cases, Comparison, Fault, Verdict

if TYPE_CHECKING:  # it imports Triton, which a reader may not have
    from .trace import Trace

NO_KERNEL = "no kernel ran: PyTorch computed the result; launch your kernel"
NOT_BY_THE_KERNEL = (
    "PyTorch wrote the result: your kernel ran, and stored nothing in it; return what it stores, "
    "or a view of that (tl.store converts to the dtype of its pointer)"
)
PARTLY = "PyTorch computed a part of the result: your kernel stored only the rest"
REFUSE_IT = "the launcher may refuse this input: raise a ValueError that says what is accepted"
HAS_TO_REFUSE_IT = "the launcher has to refuse it: raise a ValueError that says what is accepted"
REFUSES_TOO_MUCH = "the launcher refuses an input that it has to take"


class Attempt:
    """One run of a candidate on one case, and what is wrong with it.

    Attributes:
        missed: the number of the first result with a wrong element; None before one is found.
        trace: of the interpreted kernels; None on a GPU, or without Triton.
        eager: what PyTorch ran in addition to the kernels.
        refusal: the ValueError that it raised in a case that it may refuse; None if it took it.
    """

    def __init__(
        self,
        candidate: Callable,
        wanted: Spec,
        case: Case,
        earlier: list[str],
        *,
        device: str = "cpu",
        configuration: int = 0,
    ) -> None:
        """
        Args:
            candidate, wanted, case: of `check_exercise`.
            earlier: names of the cases that came out right before this one.
            device: where the inputs are; on a CPU, kernels are interpreted.
            configuration: the number of the one that tuners take.
        """
        self.candidate, self.wanted, self.case, self.earlier = candidate, wanted, case, earlier
        self.device, self.configuration = device, configuration
        self.inputs = wanted.inputs(case)  # the specification's own
        self.given = wanted.inputs(case, device)
        self.before = [memory_of(x).clone() for x in self.given]
        self.expected = [] if case.has_no_result else results(wanted, self.inputs)
        self.returned: object = None
        self.missed: int | None = None
        self.trace, self.eager = None, BesideKernels()
        self.refusal: ValueError | None = None

    @property
    def may_refuse(self) -> bool:
        """Whether it is right to raise ValueError in this case."""
        return self.case.has_no_result or self.case.name in self.wanted.may_refuse

    def outcome(self) -> Verdict | None:
        """What is wrong; None if nothing is. For wrong elements: where, with no reason yet."""
        stopped = self._run()
        if self.refusal is not None:
            return self._wrong_in_a_refusal()
        wrong = stopped if stopped is not None else self._wrong_in_the_results()
        if wrong is None or wrong.because or not self.may_refuse:
            return wrong
        return replace(wrong, because=HAS_TO_REFUSE_IT if self.case.has_no_result else REFUSE_IT)

    def _wrong_in_a_refusal(self) -> Verdict | None:
        if not str(self.refusal):
            return self._wrong("its ValueError has no words: let it say what is accepted")
        return self._wrong_inputs()

    def _wrong_in_the_results(self) -> Verdict | None:
        if self.case.has_no_result:
            return self._wrong("it returns a result, and no result is right")
        outs = self._results()
        if len(outs) != len(self.expected):
            words = f"{len(outs)} results came back, expected {len(self.expected)}"
            return self._wrong(words)
        for number, (out, want) in enumerate(zip(outs, self.expected, strict=True)):
            verdict = compare(out, want, self.tolerance(want))
            if not verdict:
                return self._wrong_result(number, out, verdict)
        return next(self._wrong_beside_the_results(), None)

    def _wrong(
        self,
        reason: str,
        owner: str = "",
        fault: Fault = Fault.OTHER,
        compared: Comparison | None = None,
    ) -> Verdict:
        name = self.case.name
        if self.configuration:
            name += f", in configuration {Tuning.words}"
        cases = Cases(wrong=name, owner=owner)
        return Verdict(state=WRONG, reason=reason, fault=fault, cases=cases, compared=compared)

    def tolerance(self, want: Tensor) -> tuple[float, float] | None:
        return self.wanted.tolerance if want.dtype == torch.float32 else None

    def counted(self) -> Counted | None:
        """What the kernel did; None if nothing was interpreted."""
        trace = self.trace
        if trace is None:
            return None
        memories, tensors = trace.memories, zip(self.wanted.names, self.given, strict=True)
        inputs = {x.untyped_storage().data_ptr(): name for name, x in tensors}
        return Counted(
            elements=self.given[0].numel(),
            element_bytes=self.given[0].element_size(),
            loaded={inputs.get(x.begin, x.name): x.moved["loaded"] for x in memories},
            stored=sum(x.moved["stored"] for x in memories),
            evaluations=sum(trace.evaluations.values()),
            events=trace.events,
        )

    def _run(self) -> Verdict | None:
        """Call the candidate; an outcome if it stopped or returned nothing."""
        if self.case.name == CHANGED:  # after a call with other numbers in the same memory
            for x in self.given:
                x.mul_(2)
            stopped = self._call()
            for x, own in zip(self.given, self.inputs, strict=True):
                x.copy_(own)
            if stopped is not None:
                return stopped
        return self._call()

    def _call(self) -> Verdict | None:
        stopped, self.eager = None, BesideKernels()
        with watch(self.device) as self.trace, self.eager, configuration(self.configuration):
            try:
                self.returned = self._as_a_guest(self.case, self.given)
            except NotImplementedError as error:
                return Verdict(state=NOT_YET, reason=str(error) or HOW_TO_BEGIN)
            except TookTooLong as late:
                return self._late(f"the case '{self.case.name}' {late}")
            except (Exception, SystemExit) as error:  # whatever a reader's function may raise
                if self.may_refuse and isinstance(error, ValueError):
                    self.refusal = error
                    return None
                reason = cannot_be_interpreted(error) or not_the_kernels_fault(error, self.device)
                if reason:
                    return Verdict(state=NOT_YET, reason=reason)
                stopped = self._wrong(*failure_of(error))
                if line_of_the_reader(error).startswith("raise ValueError"):
                    stopped = replace(stopped, because=REFUSES_TOO_MUCH)
        if stopped is not None:
            return stopped
        if self.returned is not None or self.wanted.overwrites:
            return None
        return self._wrong("it returns None: is a `return` missing? A launch returns None, too")

    def _as_a_guest(self, case: Case, inputs: list) -> object:
        with a_guest(self.device), device_of_the_lab(self.device, self.candidate):
            returned = called(self.candidate, case, inputs)
            if self.device != "cpu":
                torch.cuda.synchronize()  # an error of its kernels is raised here
        return returned

    def _late(self, words: str) -> Verdict:
        if self.case.name == self.wanted.cases[0].name:
            return Verdict(state=WRONG, reason=words, fault=Fault.LATE)
        words += ": it may be endless, or only too slow for the interpreter, where larger blocks "
        words += "and Triton's own reductions (tl.sum, tl.max) are faster"
        return Verdict(state=NOT_YET, reason=words, fault=Fault.LATE)

    def _results(self) -> tuple:
        names = self.wanted.names
        if self.wanted.overwrites:
            return tuple(self.given[names.index(name)] for name in self.wanted.overwrites)
        return as_tuple(self.returned)

    def _wrong_result(self, number: int, out: object, verdict: Verdict) -> Verdict:
        """Which result is wrong, and where."""
        compared = verdict.compared
        if compared is None or compared.first_wrong_index is None:
            return self._wrong(verdict.reason)  # another shape or dtype, or not a tensor
        label = f"result {number}" if len(self.expected) > 1 else "the result"
        if self.wanted.overwrites:
            label = self.wanted.overwrites[number]
        self.missed = number
        owner = self.trace.owner_of(out, compared.first_wrong_index) if self.trace else ""
        because = self.trace.by_tf32(out, self.expected[number]) if self.trace else ""
        found = self._wrong("", owner, compared=replace(compared, name=label))
        return replace(found, because=because)

    def _overwritten(self) -> Iterator[str]:
        """Inputs that were changed and shouldn't be, or whose surrounding memory was changed."""
        for name, x, then in zip(self.wanted.names, self.given, self.before, strict=True):
            kept, where = then.clone(), ""
            if name in self.wanted.overwrites:
                where = ", between its elements or around them"
                kept.as_strided(x.shape, x.stride(), x.storage_offset()).copy_(x)
            if not same_bits(memory_of(x), kept):
                yield name + where

    def _wrong_inputs(self) -> Verdict | None:
        what = next(self._overwritten(), "")
        return self._wrong(f"an input is overwritten: {what}") if what else None

    def _wrong_beside_the_results(self) -> Iterator[Verdict]:
        """What else is wrong although the results are right."""
        overwritten = self._wrong_inputs()
        if overwritten is not None:
            yield overwritten
        trace, allowed = self.trace, self.wanted.launches
        if trace is None:
            return
        for race in trace.races:
            yield self._wrong(f"a race between programs: {race}")
        for collision in trace.collisions:
            yield self._wrong(f"{Fault.COLLISION.value}: {collision}", fault=Fault.COLLISION)
        for race in trace.lane_races:
            yield self._wrong(f"a race between lanes: {race}. {HOW_LANES_WAIT}")
        yield from map(self._wrong, trace.tuned_in_place)
        if self.wanted.kernel:
            yield from map(self._wrong, self._without_the_kernel(trace))
        if allowed is not None and trace.launches > allowed:
            yield self._wrong(f"too many launches: {trace.launches}, where {allowed} would do")
        if self.wanted.half_the_table and (more := more_than_half_the_table(trace, *self.given)):
            yield self._wrong(more)

    def _without_the_kernel(self, trace: "Trace") -> Iterator[str]:
        """What PyTorch did that the kernel should have done."""
        if not trace.launches:
            yield NO_KERNEL
            return
        given_to_kernels = [memory.tensor for memory in trace.memories]
        stored = [out for out in self._results() if trace.stored_in(out) is not None]
        for x in (*given_to_kernels, *self._results()):
            name = "" if self._is_a_table(x) else self.eager.maker_of(x)
            # a copy of what a kernel stored is reported below, with what to return instead
            if name and (name not in COPIES or any(x is y for y in (*given_to_kernels, *stored))):
                words = f"PyTorch runs {COPIES.get(name, name)}; let the kernel do it"
                yield f"a part of the work is done outside the kernel: {words}"
        for out in self._results():
            if self.wanted.contiguous and not out.is_contiguous():
                yield f"the result's strides are {out.stride()}; it has to be contiguous"
            stored = trace.stored_in(out)
            if stored is None or not stored.any():
                yield NOT_BY_THE_KERNEL
            elif not (stored.all() or self.wanted.overwrites):
                yield PARTLY

    def _is_a_table(self, x: Tensor) -> bool:
        """Whether it holds a table's angles: few bytes, so a launcher may copy them."""
        holds = (argument.holds for argument in self.wanted.arguments)
        tables = [y for y, what in zip(self.given, holds, strict=True) if what == "angles"]
        return any(x.dtype == table.dtype and torch.equal(x, table) for table in tables)

    def remark(self) -> str:
        """What a right candidate does that it need not do; empty if nothing."""
        if self.trace is None:
            return ""
        if self.trace.in_one_warp:
            return f"in more than one warp it would race: {self.trace.in_one_warp[0]}"
        if self.trace.locks:
            return f"whether a lock orders its programs is not checked: {self.trace.locks[0]}"
        return wasted(self.trace, self.wanted)


def called(candidate: Callable, case: Case, inputs: list) -> object:
    """What it returns, called with the options of the case that it accepts."""
    known = inspect.signature(candidate).parameters if case.options else ()
    return candidate(*inputs, **{name: x for name, x in case.options.items() if name in known})


def results(function: Callable, inputs: list) -> list[Tensor]:
    """The specification's results, computed in fp64 and rounded once to the case's dtype."""
    wide = (laid_out_alike(x, torch.float64) if x.is_floating_point() else x for x in inputs)
    outs = as_tuple(function(*wide))
    return [out.to(inputs[0].dtype) for out in outs]


def as_tuple(returned: object) -> tuple:
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def watch(device: str):
    if device != "cpu" or not triton_is_installed():
        return contextlib.nullcontext()
    from .trace import Trace

    return Trace()


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
