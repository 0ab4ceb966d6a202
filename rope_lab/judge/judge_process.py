"""The child process of `judge.py`: `worker.py` calls it with jobs, and it answers with verdicts.

It tells when a case begins, so that each case has the time for itself.
"""

import contextlib
import inspect
import io
import itertools
import math
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rope_kernels.modes import interpreter_is_on, triton_is_installed

from ..interpreter import run_as_compiled
from ..interpreter.functions import cannot_be_interpreted
from ..worker import module_at
from .check import compare, is_right
from .counts import BY_NUMPY, COPIES, BesideKernels, more_than_half_the_table, wasted
from .diagnose import kind_of_mistake
from .diagnose.evidence import Evidence
from .diagnose.written import unlike_its_look
from .lanes import HOW_LANES_WAIT
from .launched import each_launch, interprets
from .refusals import in_words as refused_in_words
from .refusals import launches_noted
from .spec import CHANGED, MANY, Case, Spec, laid_out_alike
from .state import has_changed, state
from .verdict import NOT_YET, RIGHT, WRONG, Cases, Comparison, OnTheClimb, Verdict, cause_of

if TYPE_CHECKING:  # it imports Triton, which a reader may not have
    from .trace import Trace

WITHOUT_GRID = "is a kernel called without its grid, kernel[grid](...)?"
TRITONS_OWN = "a kernel has tl's functions and dtypes, no others: tl.arange, tl.cos, tl.float32"
NO_INDEX = "blocks and pointers have no index: an element is loaded, tl.load(x_ptr + i)"
CALLED = "a method is called with brackets: x.numel()"
NO_SHAPES = "a kernel knows no shapes of tensors: pass n"
A_BLOCK_OF_NUMBERS = "a block of n numbers is tl.arange(0, n)"
A_TUPLE = "a grid is a tuple, as in (n,)"
A_SHAPE = "x.shape is a tuple; x.numel() is the number of elements"
NO_OFFSETS = "an address is pointer + index, for each lane: tl.load(x_ptr + i, mask=...)"
A_BLOCK_FOR_A_NUMBER = "is a pointer indexed by a block? tl.store(out_ptr + i, x)"
ADVICE = {  # what an error says -> what is meant, where a kernel is concerned
    "object of type 'int' has no len()": A_TUPLE,
    'list (not "tuple")': A_TUPLE,
    "program_id() missing": "the number along the grid's first axis is tl.program_id(0)",
    "kernel() missing": "a launch passes every argument: in order, and a tl.constexpr by its name",
    "'float' object cannot be interpreted": "a grid's numbers are whole: triton.cdiv(n, block)",
    "'builtin_function_or_method' and": CALLED,
    "<class 'builtin_function_or_method'>": CALLED,
    "arange() missing 1 required": A_BLOCK_OF_NUMBERS,
    "'range' object": A_BLOCK_OF_NUMBERS,
    "arange's arguments must be of type": "a block's length is a tl.constexpr, such as BLOCK",
    "cannot add pointers": "to a pointer an index is added, and nothing else: out_ptr + i",
    "arange's range must be a power of 2": "round it up, and mask the lanes that are too many",
    "> and triton.language.int": "to a pointer an index is added, and nothing else: x_ptr + i; "
    "tl.load reads the element there",
    "for ** or pow()": "a kernel has no powers: write a product",
    "'int' object is not iterable": NO_INDEX,
    "'ellipsis' object is not iterable": NO_INDEX,
    "unsupported tensor index": NO_INDEX,
    "only 0-dimensional arrays": A_BLOCK_FOR_A_NUMBER,
    "only length-1 arrays": A_BLOCK_FOR_A_NUMBER,  # the same, from an older numpy
    "of type <class 'torch.Size'>": A_SHAPE,
    "to torch.Size": A_SHAPE,
    "of type <class 'tuple'>": "a kernel gets tensors and numbers: pass one number of the tuple",
    "if pointer argument is not a block": NO_OFFSETS,
    "multiple values for argument 'mask'": NO_OFFSETS,
    "cannot cast [": "a pointer is an address: tl.load reads the element there",
    "Expected dtype ['fp32', 'fp64']": "tl.sin and tl.cos take fp32: angle.to(tl.float32)",
    "exceeds dtype primitive_bitwidth": "a flag or a size is NAME: tl.constexpr",
    "has no attribute 'grid_idx'": WITHOUT_GRID,
    "has no attribute 'scalar'": WITHOUT_GRID,  # the same, after another launch
    "has no attribute 'is_ptr'": WITHOUT_GRID,  # the same, since Triton 3.9
    "Cannot make_shape_compatible": "[:, None] makes a column of a block, and [None, :] a row",
    "Expected pointer argument to have shape": "the address has no row, or no column",
    "in `tl.store`": "the address comes first, and then the value: tl.store(out_ptr + i, x)",
    "and triton.language.float": "an index is a whole number: a // b, not a / b",
    "Unsupported ptr type": "an address begins with a pointer: tl.load(x_ptr + i)",
    "'int' object has no attribute 'to'": "an index of a loop: tl.cast(i, tl.int64)",
    "active drivers": "it asks for a GPU, and the interpreter has none",
}
ADVICE_IN_A_KERNEL = {  # the same, where these words mean something else elsewhere
    "'tensor' object has no attribute": "it has few methods: x.to(tl.float32), x[:, None]",
    "'int' object is not callable": NO_SHAPES,
    "index out of range": NO_SHAPES,
    "is not defined": "a kernel knows its arguments, and what its own lines set",
    "'tensor' has no len()": NO_SHAPES,
}
OTHERS_NAMES = re.compile(r"\b(torch|math|np|numpy)\.")
NO_KERNEL = "no kernel ran: PyTorch computed the result; launch your kernel"
NOT_BY_THE_KERNEL = (
    "PyTorch wrote the result: your kernel ran, and stored nothing in it; return what it stores, "
    "or a view of that (tl.store converts to the dtype of its pointer)"
)
PARTLY = "PyTorch computed a part of the result: your kernel stored only the rest"
OUTSIDE = "out of bounds"  # how a reason begins
COLLISION = "write collision"  # the same
IN_ORDER_ALONE = (
    "right only if the programs run one after the other, the first one first: what an atomic "
    "operation returns depends on their order, which a GPU doesn't promise"
)
_ASKED = 5  # cases for the mistake behind a wrong address
MAX_PRINTED = 4000  # characters
MANY_PROGRAMS = 3000  # that a large tensor may take: the interpreter needs a millisecond for each
HOW_TO_BEGIN = "replace what the stub raises by your code, then run this cell again"
_NUMBERS = itertools.count()  # of files


def start(folder: Path) -> Callable[[], bool]:
    """Get ready to run candidates, once in this process; whether one has changed it since."""
    settle()
    if interprets():
        run_as_compiled()
    return partial(has_changed, state())


def settle() -> None:
    """Before each case, which an earlier one may have changed."""
    torch.set_num_threads(1)
    # new memory holds NaN: what a candidate does not write cannot pass for right
    torch.use_deterministic_algorithms(True, warn_only=True)


def answer(job: dict, folder: Path, tell: Callable[[str], None]) -> dict:
    """The `verdict` on a candidate, and what it `printed`; `tell` says when a case begins.

    And the `launches` that were interpreted, as jobs for the compiler. Of a launch that is to be
    drawn, its accesses.
    """
    if "launch" in job:
        return accesses_in_words(job["launch"], folder)
    candidate = load(job["candidate"], folder, "candidate")
    if job["out"]:
        candidate = in_place(candidate, job["out"])
    wanted = replace(
        job["wanted"],
        function=load(job["function"], folder, "spec"),
        mistakes={words: load(made, folder, "mistake") for words, made in job["mistakes"].items()},
    )
    with launches_noted() as launches:
        verdict, printed = judge(candidate, wanted, tell)
        if job["probe"] and verdict:
            verdict = probed(verdict, candidate, wanted, job["probe"])
    if verdict.state == WRONG and (words := unlike_its_look(job["candidate"]["program"])):
        verdict = replace(verdict, because="; ".join(filter(None, (verdict.because, words))))
    return {"verdict": verdict, "printed": printed, "launches": [*launches.values()]}


def accesses_in_words(launch: dict, folder: Path) -> dict:
    """As `accesses_of`, with what the kernel `printed`; or why the launch is `refused`."""
    from .accesses import accesses_of

    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            found = accesses_of(load(launch["kernel"], folder, "candidate"), launch)
        except Exception as error:  # whatever a reader's kernel may raise
            found = {"refused": cannot_be_interpreted(error) or in_words(error)[0]}
    return found | {"printed": said.getvalue()[:MAX_PRINTED]}


def in_place(candidate: Callable, out: str) -> Callable:
    """The candidate as a function that writes over its first input, which it gets as `out`, too."""
    return lambda first, *others: candidate(first, *others, **{out: first})


def probed(verdict: Verdict, candidate: Callable, wanted: Spec, case: Case) -> Verdict:
    """On a right candidate with one case more: what it did there is counted, or it is wrong."""
    attempt = Attempt(candidate, wanted, case, earlier=list(verdict.cases.right))
    outcome = attempt.outcome()
    if outcome is None:
        return replace(verdict, climb=OnTheClimb(counted=counted(attempt)))
    reason = outcome.reason or kind_of_mistake([attempt.evidence()])
    cases = replace(outcome.cases, right=verdict.cases.right)
    return replace(outcome, reason=reason, cases=cases)


def counted(attempt: "Attempt") -> dict:
    """What the kernel of an attempt did; empty where nothing is interpreted."""
    trace, wanted = attempt.trace, attempt.wanted
    if trace is None:
        return {}
    memories, tensors = trace.memories, zip(wanted.names, attempt.given, strict=True)
    inputs = {x.untyped_storage().data_ptr(): name for name, x in tensors}
    return {
        "elements": attempt.given[0].numel(),
        "element_bytes": attempt.given[0].element_size(),
        "loaded": {inputs.get(x.begin, x.name): x.moved["loaded"] for x in memories},
        "stored": sum(x.moved["stored"] for x in memories),
        "evaluations": sum(trace.evaluations.values()),
        "events": [vars(event) for event in trace.events],
    }


def load(shipped: dict, folder: Path, kind: str) -> Callable:
    """The function from its source, which is also a file: Triton reads kernels from there.

    `kind`: how the file's name begins. A line of a "candidate" is told where it goes wrong.
    """
    path = folder / f"{kind}_{next(_NUMBERS)}.py"
    path.write_text(shipped["program"], encoding="utf-8")
    function = getattr(module_at(str(path)), shipped["name"])
    if isinstance(function, Spec):
        function = function.function
    return partial(function, **shipped["options"]) if shipped["options"] else function


def judge(candidate: Callable, wanted: Spec, tell: Callable[[str], None]) -> tuple[Verdict, str]:
    """The verdict on a candidate, and what it printed in the first case in which it did."""
    right: list[str] = []
    misses: list[Attempt] = []
    wrong: list[Verdict] = []  # of each of these
    printed, remark, traced = "", "", Traced()
    for case in wanted.cases:
        if case.name == MANY and (wrong or traced.programs_for(wanted, case) > MANY_PROGRAMS):
            continue
        tell(case.name)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            attempt = Attempt(candidate, wanted, case, earlier=right)
            outcome = attempt.outcome()
        if said.getvalue() and not printed:
            printed = f"Printed in the case '{case.name}':\n{said.getvalue()[:MAX_PRINTED]}"
        traced.add(attempt)
        if outcome is None:
            right.append(case.name)
            if not remark and (found := attempt.remark()):
                remark = f"{found} (in the case '{case.name}')"
        elif outcome.state == NOT_YET:
            return outcome, printed
        else:
            misses.append(attempt)
            wrong.append(outcome)
    if not wrong and (case := traced.updated) and depends_on_the_order(candidate, wanted, case):
        right.remove(case.name)
        cases = Cases(right=tuple(right), wrong=case.name)
        return Verdict(state=WRONG, reason=IN_ORDER_ALONE, cases=cases), printed
    if not wrong:
        reason = f"{len(right)} cases: " + ", ".join(right)
        launches, moves = traced.launches, traced.moves_between
        cases = Cases(right=tuple(right), launches=launches, moves_between=moves)
        return Verdict(state=RIGHT, reason=reason, remark=remark, cases=cases), printed
    also_wrong = tuple(other.cases.wrong for other in wrong[1:])
    first = explained(wrong[0], misses)
    cases = replace(first.cases, right=tuple(right), also_wrong=also_wrong)
    return replace(first, cases=cases), printed


@dataclass
class Traced:
    """What is kept of the traces of all cases."""

    launches: int = 0
    moves_between: dict[tuple, str] = field(default_factory=dict)  # as `Trace` has it
    updated: Case | None = None  # the first one whose programs update something atomically
    programs_an_element: float = math.inf  # the fewest of any case

    def add(self, attempt: "Attempt") -> None:
        trace = attempt.trace
        if trace is None:
            return
        self.launches += trace.launches
        self.moves_between = trace.moves_between | self.moves_between
        if any(memory.has_atomics for memory in trace.memories) and not trace.waits:
            self.updated = self.updated or attempt.case
        programs_an_element = len(trace.programs) / attempt.given[0].numel()
        self.programs_an_element = min(self.programs_an_element, programs_an_element)

    def programs_for(self, wanted: Spec, case: Case) -> float:
        """How many programs a case may take, by those that ran; 0 where none was traced."""
        if self.programs_an_element == math.inf:
            return 0
        return self.programs_an_element * wanted.inputs(case)[0].numel()


def depends_on_the_order(candidate: Callable, wanted: Spec, case: Case) -> bool:
    """Whether the results are others if the programs run from the last one to the first."""
    attempt = Attempt(candidate, wanted, case, earlier=[])
    with contextlib.redirect_stdout(io.StringIO()):
        return attempt.depends_on_the_order()


def explained(verdict: Verdict, misses: list["Attempt"]) -> Verdict:
    """The verdict on the first of the cases that are wrong, with the mistake, if one is known."""
    missed = misses[0].missed
    if missed is not None:  # wrong elements, and no reason yet
        of_one_result = (attempt for attempt in misses if attempt.missed == missed)
        reason = kind_of_mistake(attempt.evidence() for attempt in of_one_result)
        return replace(verdict, reason=reason)
    if verdict.reason.startswith((OUTSIDE, COLLISION)):
        # past the end of a tensor another one may lie by chance: then the next case is asked
        found = (attempt.own_mistake() for attempt in misses[:_ASKED])
        return replace(verdict, because=next(filter(None, found), ""))
    return verdict


class Attempt:
    """One run of a candidate on one case, and what is wrong with it.

    Attributes:
        missed: the number of the first result with a wrong element; None before one is found.
        eager: what PyTorch ran beside the kernels.
    """

    def __init__(self, candidate: Callable, wanted: Spec, case: Case, earlier: list[str]) -> None:
        """`earlier`: names of the cases that came out right before this one."""
        settle()
        self.candidate, self.wanted, self.case, self.earlier = candidate, wanted, case, earlier
        self.inputs = wanted.inputs(case)  # the specification's own
        self.given = wanted.inputs(case, "cpu" if interpreter_is_on() else "cuda")
        self.before = [memory_of(x).clone() for x in self.given]
        self.expected = results(wanted, self.inputs)
        self.returned: object = None
        self.missed: int | None = None
        self.trace, self.eager = None, BesideKernels()

    def outcome(self) -> Verdict | None:
        """What is wrong, None if nothing is; of wrong elements, where, and no reason yet."""
        stopped = self._run()
        if stopped is not None:
            return stopped
        outs = self._results()
        if len(outs) != len(self.expected):
            words = f"{len(outs)} results came back, {len(self.expected)} are asked for"
            return self._wrong(words)
        for number, (out, want) in enumerate(zip(outs, self.expected, strict=True)):
            verdict = compare(out, want, self._tolerance(want))
            if not verdict:
                return self._wrong_result(number, out, verdict)
        reason = next(self._wrong_beside_the_results(), "")
        return self._wrong(reason) if reason else None

    def _wrong(self, reason: str, owner: str = "", compared: Comparison | None = None) -> Verdict:
        cases = Cases(wrong=self.case.name, owner=owner)
        return Verdict(state=WRONG, reason=reason, cases=cases, compared=compared)

    def _tolerance(self, want: Tensor) -> tuple[float, float] | None:
        return self.wanted.tolerance if want.dtype == torch.float32 else None

    def depends_on_the_order(self) -> bool:
        """Whether the results are others if the programs run from the last one to the first."""
        if self._run(backwards=True) is not None:
            return True
        outs = zip(self._results(), self.expected, strict=True)
        return not all(  # by more than the rounding of another order
            torch.allclose(out.cpu().double(), want.double(), rtol=1e-2, atol=1e-2, equal_nan=True)
            for out, want in outs
        )

    def _run(self, backwards: bool = False) -> Verdict | None:
        """Call the candidate; an outcome if it stopped or returned nothing."""
        if self.case.name == CHANGED:  # after a call with other numbers in the same memory
            for x in self.given:
                x.mul_(2)
            stopped = self._call(backwards)
            for x, own in zip(self.given, self.inputs, strict=True):
                x.copy_(own)
            if stopped is not None:
                return stopped
        return self._call(backwards)

    def _call(self, backwards: bool) -> Verdict | None:
        stopped, self.eager = None, BesideKernels()
        self.eager.note(self.given)
        with watch(backwards) as self.trace, self.eager, each_launch(self.eager.at_launch):
            try:
                self.returned = called(self.candidate, self.case, self.given)
            except NotImplementedError as error:
                return Verdict(state=NOT_YET, reason=str(error) or HOW_TO_BEGIN)
            except Exception as error:  # whatever a reader's function may raise
                if reason := cannot_be_interpreted(error):
                    return Verdict(state=NOT_YET, reason=reason)
                reason, owner = in_words(error)
                stopped = self._wrong(reason, owner)
        if stopped is not None:
            return stopped
        if self.returned is not None or self.wanted.overwrites:
            return None
        return self._wrong("it returns None: is a `return` missing? A launch returns None, too")

    def own_mistake(self) -> str:
        """Which mistake of the exercise leads to a wrong address; '' for none.

        The candidate runs once more, past those addresses, and its result is compared with theirs.
        Of several that have this result, those stay that have the results of later cases, too.
        """
        left = self._mistakes_in(self.case)
        cases = self.wanted.cases
        later = cases[cases.index(self.case) + 1 :] if self.case in cases else []
        for case in later:
            if len(left) < 2:
                break
            held = self._mistakes_in(case)
            left = [words for words in left if words in held] or left
        return left[0] if left else ""

    def _mistakes_in(self, case: Case) -> list[str]:
        """Those of the exercise whose result is the candidate's, in one case; a right one, too."""
        from .trace import Trace

        if not (self.wanted.mistakes or self.wanted.unmasked) or case.name == MANY:
            return []  # a mistake that an exercise knows shows in smaller cases
        inputs = self.wanted.inputs(case)
        functions = dict(self.wanted.mistakes)
        if self.wanted.unmasked:
            functions[self.wanted.unmasked] = self.wanted
        try:
            with Trace(goes_on=True), contextlib.redirect_stdout(io.StringIO()):
                got = as_tuple(called(self.candidate, case, self.wanted.inputs(case)))
            off = 1e-4 if case.dtype == torch.float32 else 1e-2
            same = partial(torch.allclose, rtol=off, atol=off, equal_nan=True)
            made = {words: results(f, inputs) for words, f in functions.items()}
            return [words for words, outs in made.items() if all(map(same, got, outs))]
        except Exception:  # whatever a reader's function may raise further on
            return []

    def _results(self) -> tuple:
        names = self.wanted.names
        if self.wanted.overwrites:
            return tuple(self.given[names.index(name)] for name in self.wanted.overwrites)
        return as_tuple(self.returned)

    def _wrong_result(self, number: int, out: object, verdict: Verdict) -> Verdict:
        """Which result is wrong, and where."""
        compared = verdict.compared
        if compared is None or compared.first_wrong_index is None:
            return self._wrong(verdict.reason)  # another shape or dtype, or no tensor at all
        label = f"result {number}" if len(self.expected) > 1 else "the result"
        if self.wanted.overwrites:
            label = self.wanted.overwrites[number]
        self.missed = number
        owner = self.trace.owner_of(out, compared.first_wrong_index) if self.trace else ""
        return self._wrong("", owner, replace(compared, name=label))

    def evidence(self) -> Evidence:
        """All that can be known of the first result with a wrong element."""
        number = self.missed
        out = self._results()[number]
        wanted, want, got = self.wanted, self.expected[number], out.detach().cpu()

        def of_one(function: Callable) -> Callable:
            return lambda *x: results(function, list(x))[number]

        known = {} if self.case.name == MANY else wanted.mistakes
        mistakes = {words: of_one(mistaken) for words, mistaken in known.items()}
        one = replace(wanted, function=of_one(wanted), mistakes=mistakes)
        wrong = ~torch.isclose(got.double(), want.double(), rtol=1e-2, atol=1e-3, equal_nan=True)
        if not wrong.any():
            wrong = ~is_right(got, want, self._tolerance(want))
        trace = self.trace
        stored = trace.stored_in(out) if trace else None
        return Evidence(
            spec=one,
            case=self.case,
            inputs=self.inputs,
            got=got,
            expected=want,
            wrong=wrong,
            unwritten=got.isnan() if stored is None else ~stored,  # as `start` asked for
            earlier=self.earlier,
            trace=trace,
            races=trace.races if trace else [],
            stored_twice=trace.stored_twice if trace else [],
            reread=trace.reread if trace else [],
            overwritten=list(self._overwritten()),
            mistakes={words: made(*self.inputs) for words, made in mistakes.items()},
        )

    def _overwritten(self) -> Iterator[str]:
        """Inputs that should have kept their memory and did not, or the memory around them."""
        for name, x, then in zip(self.wanted.names, self.given, self.before, strict=True):
            kept, where = then.clone(), ""
            if name in self.wanted.overwrites:
                where = ", between its elements or around them"
                kept.as_strided(x.shape, x.stride(), x.storage_offset()).copy_(x)
            if not same_bits(memory_of(x), kept):
                yield name + where

    def _wrong_beside_the_results(self) -> Iterator[str]:
        """What else is wrong where the results are right."""
        for what in self._overwritten():
            yield f"an input is overwritten: {what}"
        trace, allowed = self.trace, self.wanted.launches
        if trace is None:
            return
        for race in trace.races:
            yield f"a race between programs: {race}"
        for collision in trace.collisions:
            yield f"{COLLISION}: {collision}"
        for race in trace.lane_races:
            yield f"a race between lanes: {race}. {HOW_LANES_WAIT}"
        if self.wanted.kernel:
            yield from self._without_the_kernel(trace)
        if allowed is not None and trace.launches > allowed:
            yield f"too many launches: {trace.launches}, where {allowed} would do"
        if self.wanted.half_the_table and (more := more_than_half_the_table(trace, *self.given)):
            yield more

    def _without_the_kernel(self, trace: "Trace") -> Iterator[str]:
        """What PyTorch or NumPy did that the kernel should have done."""
        if not trace.launches:
            yield NO_KERNEL
            return
        given_to_kernels = [memory.tensor for memory in trace.memories]
        for x in (*given_to_kernels, *self._results()):
            if name := self.eager.maker_of(x):
                words = name if name == BY_NUMPY else f"PyTorch runs {name}"
                words += "; let the kernel do it"
                yield f"a part of the work is done outside the kernel: {words}"
        for out in self._results():
            stored = trace.stored_in(out)
            if stored is None or not stored.any():
                yield NOT_BY_THE_KERNEL
            elif not (stored.all() or self.wanted.overwrites):
                yield PARTLY

    def remark(self) -> str:
        """What a right candidate does that it need not do; empty if nothing."""
        if self.trace is None:
            return ""
        if self.trace.in_one_warp:
            return f"in more than one warp it would race: {self.trace.in_one_warp[0]}"
        if self.trace.locks:
            return f"whether a lock orders its programs is not checked: {self.trace.locks[0]}"
        copies = [one for one in self.eager.kernels if one.name in COPIES]
        if copies and self.wanted.kernel and not self.wanted.copies:
            moved = sum(one.bytes_read + one.bytes_written for one in copies)
            return f"it copies by {COPIES[copies[0].name]}, which moves {moved} bytes more"
        return wasted(self.trace, self.wanted)


def called(candidate: Callable, case: Case, inputs: list) -> object:
    """What it returns, called with those options of the case that it has."""
    known = inspect.signature(candidate).parameters if case.options else ()
    return candidate(*inputs, **{name: x for name, x in case.options.items() if name in known})


def results(function: Callable, inputs: list) -> list[Tensor]:
    """The specification's results, computed in fp64 and rounded once to the case's dtype."""
    outs = as_tuple(function(*[laid_out_alike(x, torch.float64) for x in inputs]))
    return [out.to(inputs[0].dtype) for out in outs]


def as_tuple(returned: object) -> tuple:
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def watch(backwards: bool):
    if not interprets():
        return contextlib.nullcontext()
    from .trace import Trace

    return Trace(backwards=backwards)


def in_words(error: Exception) -> tuple[str, str]:
    """An error in a line, and who ran into it."""
    inner = cause_of(error)
    if triton_is_installed():
        from ..compiler.compile_process import sentence_of
        from .recorder import LeftItsTensors, name_of

        sentence, line = sentence_of(error)
        if line:  # where there is a GPU, of the compiler
            return f"it does not compile: {refused_in_words(sentence, line)}", ""
        if isinstance(inner, LeftItsTensors):
            return f"{OUTSIDE}: {inner}", name_of(inner.program) * (inner.does == "writes")
    text = str(inner).strip().splitlines() or [""]
    frames = [f for f in traceback.extract_tb(inner.__traceback__) if "candidate_" in f.filename]
    line = (frames[-1].line if frames else "") or ""
    if advice := advice_on(text[0], line, in_a_kernel=inner is not error):
        text[0] += f" ({advice})"
    where = f", at: {line}" if line else ""
    return f"it raises {type(inner).__name__}: {text[0]}{where}", ""


def advice_on(text: str, line: str, in_a_kernel: bool) -> str:
    """What a reader should know of an error: of its first line, and the line that ran into it."""
    if in_a_kernel and OTHERS_NAMES.search(line):
        return TRITONS_OWN
    rules = ADVICE_IN_A_KERNEL | ADVICE if in_a_kernel else ADVICE
    return next((advice for found, advice in rules.items() if found in text), "")


def memory_of(x: Tensor) -> Tensor:
    """All of a tensor's storage, from its beginning to its end."""
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
