"""The child process of `judge.py`: `worker.py` calls it with jobs, and it answers with verdicts.

It tells when a case begins, so that each case has the time for itself.
"""

import contextlib
import importlib.util
import io
import itertools
import math
import os
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rope_kernels.modes import interpreter_is_on, triton_is_installed

from ..interpreted_functions import cannot_be_interpreted
from ..interpreter import run_as_compiled
from .beside import STORED, Beside, Content, has_a_memory
from .check import compare, is_right
from .counts import Run, copied, more_than_half_the_table, untimed, wasted
from .diagnose import kind_of_mistake
from .diagnose.evidence import Evidence
from .spec import Case, Spec, spec
from .verdict import NOT_YET, RIGHT, WRONG, Verdict

if TYPE_CHECKING:  # it imports Triton, which a reader may not have
    from .trace import Trace

WITHOUT_GRID = "is a kernel called without its grid, kernel[grid](...)?"
ADVICE = {  # what an error says -> what is meant, where a kernel is concerned
    "object of type 'int' has no len()": "a grid is a tuple, as in (n,)",
    "'int' object is not iterable": "pointers have no index: tl.load(x_ptr + i)",
    "exceeds dtype primitive_bitwidth": "a flag or a size is NAME: tl.constexpr",
    "has no attribute 'grid_idx'": WITHOUT_GRID,
    "has no attribute 'scalar'": WITHOUT_GRID,  # the same, after another launch
    "has no attribute 'is_ptr'": WITHOUT_GRID,  # the same, since Triton 3.9
    "active drivers": "it asks for a GPU, and the interpreter has none",
}
NO_KERNEL = "no kernel ran: PyTorch computed the result; launch your kernel"
NOT_BY_THE_KERNEL = "PyTorch computed the result: your kernel ran, and stored nothing in it"
COPIED = (
    "PyTorch wrote the result, a second tensor with the elements that your kernel stored; return "
    "what it stored, or a view of that"
)
PARTLY = "PyTorch computed a part of the result: your kernel stored only the rest"
CHANGED_AFTERWARDS = "PyTorch changed the result after the kernel had stored it"
CONVERTED = (
    "PyTorch wrote the result out of what your kernel stored; let the kernel store it so: tl.store "
    "converts to the dtype of its pointer"
)
OTHER_VALUES = 20261121  # a seed
KEPT = "what does the function keep from one call to the next?"
MAX_PRINTED = 4000  # characters
HOW_TO_BEGIN = "replace what the stub raises by your code, then run this cell again"
_NUMBERS = itertools.count()  # of jobs: each has files of its own


def start(folder: Path) -> None:
    """Get ready to run candidates, once in this process."""
    torch.set_num_threads(1)
    # new memory holds NaN: what a candidate does not write cannot pass for right
    torch.use_deterministic_algorithms(True, warn_only=True)
    if interprets():
        from .trace import let_numbers_be_indices

        let_numbers_be_indices()
        run_as_compiled()


def answer(job: dict, folder: Path, tell: Callable[[dict], None]) -> dict:
    """The fields of the verdict on a candidate; `tell` says when a case begins."""
    job_number = next(_NUMBERS)
    candidate = load(job["candidate"], folder / f"candidate_{job_number}.py")
    if job["out"]:
        candidate = in_place(candidate, job["out"])
    function = load(job["spec"], folder / f"spec_{job_number}.py")
    mistakes = {
        words: load(shipped, folder / f"mistake_{job_number}_{k}.py")
        for k, (words, shipped) in enumerate(job["spec"]["mistakes"].items())
    }
    wanted = spec(function, mistakes=mistakes, **as_asked(job["spec"]["asked"]))
    fields = judge(candidate, wanted, tell)
    if job["probe"] and fields["state"] == RIGHT:
        fields |= probed(candidate, wanted, as_case(job["probe"]))
    return fields | {"left_running": has_children()}


def has_children() -> bool:
    """Whether a candidate started a process and did not wait for its end."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def as_asked(options: dict) -> dict:
    """The options of a `Spec` from what JSON made of them."""
    tuples = {name: tuple(value) for name, value in options.items() if isinstance(value, list)}
    return options | tuples | {"extra": tuple(map(as_case, options["extra"]))}


def as_case(fields: dict) -> Case:
    """A case from what JSON made of it."""
    return Case(**fields | {"dtype": getattr(torch, fields["dtype"].split(".")[-1])})


def in_place(candidate: Callable, out: str) -> Callable:
    """The candidate as a function that writes over its first input, which it gets as `out`, too."""
    return lambda first, *others: candidate(first, *others, **{out: first})


def probed(candidate: Callable, wanted: Spec, case: Case) -> dict:
    """What a right candidate does with one case more: `counted`, or what is wrong with it."""
    attempt = Attempt(candidate, wanted, case, earlier=[])
    if outcome := attempt.outcome():
        reason = outcome["reason"] or kind_of_mistake([attempt.evidence()])
        return outcome | {"reason": reason, "case": case.name}
    return {"counted": counted(attempt)}


def counted(attempt: "Attempt") -> dict:
    """What the kernel of an attempt did; empty where nothing is interpreted."""
    trace, wanted = attempt.trace, attempt.wanted
    if trace is None:
        return {}
    memories, tensors = trace.memories, zip(wanted.names, attempt.given, strict=True)
    inputs = {x.untyped_storage().data_ptr(): name for name, x in tensors}
    return {
        "launches": trace.launches,
        "elements": attempt.given[0].numel(),
        "element_bytes": attempt.given[0].element_size(),
        "loaded": {inputs.get(memory.begin, memory.name): memory.loaded for memory in memories},
        "stored": sum(memory.written for memory in memories),
        "evaluations": sum(trace.evaluations.values()),
        "events": [vars(event) for event in trace.events],
        "copied": copied(attempt.beside),
    }


def load(shipped: dict, path: Path) -> Callable:
    """The function from its source, which is also a file: Triton reads kernels from there."""
    path.write_text(shipped["program"])
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    function = getattr(module, shipped["name"])
    if isinstance(function, Spec):
        function = function.function
    options = shipped["options"]
    return (lambda *x, **more: function(*x, **options, **more)) if options else function


def judge(candidate: Callable, wanted: Spec, tell: Callable[[dict], None]) -> dict:
    """The fields of a `Verdict`, as far as they are not its defaults; and what was `printed`."""
    right, wrong, misses, launches, printed, remark = [], [], [], 0, "", ""
    for number, case in enumerate(wanted.cases):
        tell({"begins": case.name})
        with contextlib.redirect_stdout(io.StringIO()) as said:
            attempt = Attempt(candidate, wanted, case, earlier=right)
            outcome = attempt.outcome()
            if outcome is None and number == 0:
                found, outcome = attempt.remark(), attempt.of_another_call()
        printed = printed or in_case(case, said.getvalue())
        launches += attempt.launches
        if outcome is None:
            right.append(case.name)
            if not remark and (found := found if number == 0 else attempt.remark()):
                remark = f"{found} (in the case '{case.name}')"
        elif outcome["state"] == NOT_YET:
            return outcome | {"printed": printed}
        else:
            wrong.append(outcome | {"case": case.name})
            misses.append(attempt)
    if wrong:
        if misses[0].missed is not None:  # wrong elements, and no reason yet
            of_one_result = (one for one in misses if one.missed == misses[0].missed)
            wrong[0]["reason"] = kind_of_mistake(one.evidence() for one in of_one_result)
        others = [other["case"] for other in wrong[1:]]
        fields = wrong[0] | {"right_cases": right, "wrong_cases": others}
    else:
        reason = f"{len(right)} cases: " + ", ".join(right)
        fields = {"state": RIGHT, "reason": reason, "right_cases": right, "launches": launches}
        fields["remark"] = remark
    return fields | {"printed": printed}


def in_case(case: Case, text: str) -> str:
    """What a candidate printed in the first case that printed anything, cut to a page."""
    if not text:
        return ""
    rest = "... (the check shows no more)\n" if len(text) > MAX_PRINTED else ""
    return f"Printed in the case '{case.name}':\n{text[:MAX_PRINTED]}{rest}"


class Attempt:
    """One run of a candidate on one case, and what is wrong with it.

    Attributes:
        launches: how many kernels the run launched, where the interpreter counts them.
        missed: the number of the first result with a wrong element; None before one is found.
    """

    def __init__(self, candidate: Callable, wanted: Spec, case: Case, earlier: list[str]) -> None:
        """`earlier`: names of the cases that came out right before this one."""
        self.candidate, self.wanted, self.case, self.earlier = candidate, wanted, case, earlier
        self.inputs = wanted.inputs(case)  # the specification's own
        self.given = wanted.inputs(case, "cpu" if interpreter_is_on() else "cuda")
        self.before = [memory_of(x).clone() for x in self.given]
        self.expected = results(wanted, self.inputs)
        self.returned: object = None
        self.missed: int | None = None
        self.trace = None
        named = dict(zip(wanted.names, self.given, strict=True))
        self.beside = Beside(named, wanted.overwrites, wanted.beside)

    @property
    def launches(self) -> int:
        return self.trace.launches if self.trace else 0

    def outcome(self) -> dict | None:
        """What is wrong, None if nothing is; of wrong elements, where, and no reason yet."""
        stopped = self._run()
        if stopped:
            return stopped
        outs = self._results()
        if len(outs) != len(self.expected):
            return broken(f"{len(outs)} results came back, {len(self.expected)} are asked for")
        for number, (out, want) in enumerate(zip(outs, self.expected, strict=True)):
            if isinstance(out, Tensor) and (out.is_meta or not has_a_memory(out)):
                return broken("the result is no tensor with all its elements in memory")
            verdict = compare(out, want, self._tolerance(want))
            if not verdict:
                return self._wrong_result(number, out, verdict)
        return self._side_effect()

    def of_another_call(self) -> dict | None:
        """What is wrong with a second call of the same tensors, which have other values now."""
        if not self.wanted.again:
            return None
        first = self._results()
        before = [out.clone() for out in first]
        others = self.wanted.inputs(self.case, seed=OTHER_VALUES)
        for x, value in zip(self.given, others, strict=True):
            x.copy_(value)
        with watch(), contextlib.redirect_stdout(io.StringIO()):  # the first call has printed
            try:
                self.returned = self.candidate(*self.given)
            except Exception as error:  # whatever a reader's function may raise
                return broken(f"a second call fails: {in_words(error)[0]}")
        return self._unlike_the_first(others, before) or self._over_the_first(first, before)

    def _unlike_the_first(self, others: list, before: list[Tensor]) -> dict | None:
        """Are the results of the second call those of other values?"""
        outs, wants = self._results(), results(self.wanted, others)

        def are(wants: list[Tensor]) -> bool:
            pairs = zip(outs, wants, strict=True)
            return all(compare(out, want, self._tolerance(want)) for out, want in pairs)

        if len(outs) == len(wants) and are(wants):
            return None
        what = "goes wrong"
        if len(outs) == len(wants) and are(before):
            what = "gives the result of the first"
        elif len(outs) == len(wants):
            for number, name in enumerate(self.wanted.names):
                mixed = [*others[:number], self.inputs[number], *others[number + 1 :]]
                if are(results(self.wanted, mixed)):
                    what = f"takes {name} from the first"
        return broken(f"a second call, with other values in the same tensors, {what}: {KEPT}")

    def _over_the_first(self, first: tuple, before: list[Tensor]) -> dict | None:
        """Is the first call's result another one now?"""
        given = {x.untyped_storage().data_ptr() for x in self.given}
        for out, then in zip(first, before, strict=True):
            if out.untyped_storage().data_ptr() not in given and not torch.equal(out, then):
                return broken(f"a second call writes over the result of the first: {KEPT}")
        return None

    def _tolerance(self, want: Tensor) -> tuple[float, float] | None:
        return self.wanted.tolerance if want.dtype == torch.float32 else None

    def _run(self) -> dict | None:
        """Call the candidate; an outcome if it stopped or returned nothing."""
        beside = self.beside if self.wanted.kernel else contextlib.nullcontext()
        with watch() as self.trace, beside:
            self.beside.trace = self.trace
            try:
                self.returned = self.candidate(*self.given)
            except NotImplementedError as error:
                return {"state": NOT_YET, "reason": str(error) or HOW_TO_BEGIN}
            except Exception as error:  # whatever a reader's function may raise
                if reason := cannot_be_interpreted(error):
                    return {"state": NOT_YET, "reason": reason}
                return broken(*in_words(error))
        if self.returned is not None or self.wanted.overwrites:
            return None
        if not self.launches and is_empty(self.candidate):
            return {"state": NOT_YET, "reason": HOW_TO_BEGIN}
        return broken("it returns None: is a `return` missing?")

    def _results(self) -> tuple:
        names = self.wanted.names
        if self.wanted.overwrites:
            return tuple(self.given[names.index(name)] for name in self.wanted.overwrites)
        return as_tuple(self.returned)

    def _wrong_result(self, number: int, out: object, verdict: Verdict) -> dict:
        """Which result is wrong, and where."""
        at = verdict.first_wrong_index
        if at is None:  # another shape or dtype, or no tensor at all
            return broken(verdict.reason)
        want = self.expected[number]
        label = f"result {number}" if len(self.expected) > 1 else "the result"
        if self.wanted.overwrites:
            label = self.wanted.overwrites[number]
        owner = ""
        if self.trace and self.trace.knows(out):
            owner = said(self.trace.owner_of(out, at))
        self.missed = number
        return broken("", owner) | {
            "result": label,
            "shape": list(want.shape),
            "dtype": verdict.dtype,
            "wrong": verdict.wrong,
            "first_wrong_index": list(at),
            "got": float(out[at]),
            "expected": float(want[at]),
            "largest_error": verdict.largest_error,
        }

    def evidence(self) -> Evidence:
        """All that can be known of the first result with a wrong element."""
        number, outs = self.missed, self._results()
        out = outs[number]

        def run(*others: Tensor) -> Tensor:
            return as_tuple(self.candidate(*(x.to(out.device) for x in others)))[number].cpu()

        wanted, want, got = self.wanted, self.expected[number], out.detach().cpu()
        one = replace(wanted, function=lambda *x: results(wanted, list(x))[number])
        wrong = ~torch.isclose(got.double(), want.double(), rtol=1e-2, atol=1e-3, equal_nan=True)
        if not wrong.any():
            wrong = ~is_right(got, want, self._tolerance(want))

        def nobody_wrote(index: tuple[int, ...]) -> bool:
            if self.trace and self.trace.knows(out):
                return self.trace.owner_of(out, index) is None
            return math.isnan(got[index])  # as `start` asked for

        return Evidence(
            spec=one,
            case=self.case,
            inputs=self.inputs,
            got=got,
            expected=want,
            wrong=wrong,
            nobody_wrote=nobody_wrote,
            run=run,
            earlier=self.earlier,
            trace=self.trace,
            overwritten=self._overwritten_inputs(),
            written_beside=self._written_beside(),
            number=number,
            results=[one.detach().cpu() for one in outs if isinstance(one, Tensor)],
            mistakes={
                words: results(wrong, self.inputs) for words, wrong in wanted.mistakes.items()
            },
        )

    def _overwritten_inputs(self) -> list[str]:
        """Names of the inputs that should have kept their memory and did not."""
        return [
            name
            for name, x, then in zip(self.wanted.names, self.given, self.before, strict=True)
            if name not in self.wanted.overwrites
            if not same_bits(memory_of(x), then)
        ]

    def _side_effect(self) -> dict | None:
        """The results are right; is something else wrong?"""
        reason = next(self._wrong_beside_the_results(), "")
        return broken(reason) if reason else None

    def _wrong_beside_the_results(self) -> Iterator[str]:
        used = names_used_by(self.candidate) if self.wanted.without else set()
        for name in self.wanted.without:
            if name in used:
                yield f"it uses {name}, which you are asked to do without"
        if beside := self._written_beside():
            yield f"it writes beside {beside}: between its elements, or around them"
        for name in self._overwritten_inputs():
            yield f"an input is overwritten: {name}"
        if self.trace is not None:
            yield from self._done_by_programs(self.trace)
        if self.wanted.half_the_table and (reason := more_than_half_the_table(self._counted())):
            yield reason

    def _done_by_programs(self, trace: "Trace") -> Iterator[str]:
        """What a kernel does that the results do not show."""
        for race in trace.races:
            yield f"a race between programs: {race}"
        for collision in trace.collisions:
            yield f"write collision: {collision}"
        if self.wanted.kernel:
            yield from self._without_the_kernel(trace)
        allowed = self.wanted.launches
        if allowed is not None and trace.launches > allowed:
            yield f"too many launches: {trace.launches}, where {allowed} would do"

    def remark(self) -> str:
        """What a right candidate does that it need not do; empty if nothing."""
        run = self._counted()
        return wasted(run, self.wanted, self.expected[0].numel()) or untimed(run)

    def _counted(self) -> Run:
        inputs = dict(zip(self.wanted.names, self.given, strict=True))
        return Run(self.candidate, inputs, self.trace, self.beside)

    def _written_beside(self) -> str:
        """The argument that it overwrites, if it writes beside its elements, too; else nothing."""
        for name, x, then in zip(self.wanted.names, self.given, self.before, strict=True):
            if name in self.wanted.overwrites and wrote_beside(x, then):
                return name
        return ""

    def _without_the_kernel(self, trace: "Trace") -> Iterator[str]:
        """What PyTorch did that the kernel should have done."""
        if not trace.launches:
            yield NO_KERNEL
            return
        for name in self.wanted.overwrites:
            given = {x.untyped_storage().data_ptr() for x in self.given}
            for memory in trace.memories:
                if memory.begin not in given:
                    yield f"a second tensor: {memory.name} is not {name}, which is enough"
        for out in self._results():
            yield from self._not_the_kernels(out, trace)
        for content in self.beside.loaded():
            if content.is_computed:
                yield does_a_part(content)

    def _not_the_kernels(self, out: Tensor, trace: "Trace") -> Iterator[str]:
        """What PyTorch did to one result."""
        content, share = self.beside.made(out), trace.share_stored_of(out)
        words = f": {content.words}" if content.operators else ""
        if self.wanted.overwrites:
            if content.operators:
                yield does_a_part(content)
        elif share == 0 and trace.has_elements_of(out):
            yield COPIED + words
        elif share == 0 and STORED in content.of and not content.is_computed:
            yield CONVERTED + words
        elif share == 0:
            yield NOT_BY_THE_KERNEL + words
        elif share < 1 and (words or not trace.sums_in(out)):  # sums begin with zeros
            yield PARTLY + words
        elif trace.was_changed_since(out):
            yield CHANGED_AFTERWARDS + words
        elif content.is_computed and STORED in content.of:  # changed to the same bits
            yield does_a_part(content)


def does_a_part(content: Content) -> str:
    words = f"{content.when}: {content.words}; let the kernel do it"
    return f"a part of the work is done outside the kernel, {words}"


def wrote_beside(x: Tensor, memory_before: Tensor) -> bool:
    """Has the memory around and between the elements of `x` changed?"""
    own = torch.zeros(memory_before.shape, dtype=torch.bool)
    own.as_strided(x.shape, x.stride(), x.storage_offset()).fill_(True)
    return not same_bits(memory_of(x).cpu()[~own], memory_before.cpu()[~own])


def names_used_by(candidate: Callable) -> set[str]:
    """Names in a candidate and in the functions shipped with it, apart from these functions."""
    module = getattr(candidate, "__globals__", {})
    own = [
        value
        for value in module.values()
        if isinstance(value, types.FunctionType) and value.__module__ == module["__name__"]
    ]
    codes = [function.__code__ for function in own]
    for code in codes:  # and those of lambdas and functions within
        codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    names = {name for code in codes for name in code.co_names}  # attributes count: module.name
    names |= {getattr(module.get(name), "__name__", name) for name in names}  # imported as another
    return names - {function.__name__ for function in own}


def is_empty(candidate: Callable) -> bool:
    """Does its body do nothing at all?"""
    code = getattr(candidate, "__code__", None)
    return code is not None and code.co_code == (lambda: None).__code__.co_code


def results(function: Callable, inputs: list) -> list[Tensor]:
    """The specification's results, computed in fp64 and rounded once to the case's dtype.

    Integers stay what they are.
    """
    outs = as_tuple(function(*[x.double() for x in inputs]))
    return [out.to(inputs[0].dtype) if out.is_floating_point() else out for out in outs]


def as_tuple(returned: object) -> tuple:
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def interprets() -> bool:
    """Whether launches are counted here."""
    return interpreter_is_on() and triton_is_installed()


def watch():
    if not interprets():
        return contextlib.nullcontext()
    from .trace import Trace

    return Trace()


def in_words(error: Exception) -> tuple[str, str]:
    """An error in a line, and who ran into it; Triton wraps what happens within a kernel."""
    inner = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    if triton_is_installed():
        from .trace import LeftItsTensors, name_of

        if isinstance(inner, LeftItsTensors):
            return f"out of bounds: {inner}", name_of(inner.program) * (inner.does == "writes")
    text = str(inner).strip().splitlines() or [""]
    for found, advice in ADVICE.items():
        if found in text[0]:
            text[0] += f" ({advice})"
    frames = [f for f in traceback.extract_tb(inner.__traceback__) if "candidate_" in f.filename]
    where = f", at: {frames[-1].line}" if frames and frames[-1].line else ""
    return f"it raises {type(inner).__name__}: {text[0]}{where}", ""


def broken(reason: str, owner: str = "") -> dict:
    return {"state": WRONG, "reason": reason, "owner": owner}


def said(owner: tuple | None) -> str:
    from .trace import name_of

    return "no program" if owner is None else name_of(owner)


def memory_of(x: Tensor) -> Tensor:
    """All of a tensor's storage, from its beginning to its end."""
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
