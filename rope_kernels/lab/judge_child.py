"""The child process of `lab.judge`: jobs on standard input, a line of JSON back for each."""

import contextlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ..engine import interpreter_is_on, triton_is_installed
from .check import compare
from .diagnose import Evidence, kind_of_mistake
from .spec import Case, Spec, spec

ADVICE = {  # what an error says -> what is meant, where a kernel is concerned
    "object of type 'int' has no len()": "a grid is a tuple, as in (n,)",
    "'int' object is not iterable": "pointers have no index: tl.load(x_ptr + i)",
    "has no attribute 'scalar'": "is a kernel called without its grid, kernel[grid](...)?",
}
HOW_TO_BEGIN = "replace what the stub raises by your code, then run this cell again"


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    # new memory holds NaN: what a candidate does not write cannot pass for right
    torch.use_deterministic_algorithms(True, warn_only=True)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a candidate prints is no answer
    if interpreter_is_on() and triton_is_installed():
        from .trace import let_numbers_be_indices

        let_numbers_be_indices()
    for number, line in enumerate(sys.stdin):
        job = json.loads(line)
        candidate = load(job["candidate"], folder / f"candidate_{number}.py")
        function = load(job["spec"], folder / f"spec_{number}.py")
        wanted = spec(function, **as_asked(**job["spec"]["asked"]))
        print(json.dumps(judge(candidate, wanted)), file=answers, flush=True)


def as_asked(
    angles: str, overwrites: list, leave_out: list, launches: int | None, extra: list
) -> dict:
    """The options of a `Spec` from what JSON made of them."""
    cases = [case | {"dtype": getattr(torch, case["dtype"].split(".")[-1])} for case in extra]
    return {
        "angles": angles,
        "overwrites": tuple(overwrites),
        "leave_out": tuple(leave_out),
        "launches": launches,
        "extra": tuple(Case(**case) for case in cases),
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
    return (lambda *inputs: function(*inputs, **options)) if options else function


def judge(candidate: Callable, wanted: Spec) -> dict:
    """The fields of a `Judgement`."""
    right, wrong, launches = [], [], 0
    for case in wanted.cases:
        watched = watch()
        outcome = try_case(candidate, wanted, case, right, watched, explain=not wrong)
        launches += getattr(watched, "launches", 0)
        if outcome is None:
            right.append(case.name)
        elif outcome["state"] == "not written yet":
            return EMPTY | outcome
        else:
            wrong.append(outcome | {"case": case.name})
    if not wrong:
        return EMPTY | {"state": "right", "right": right, "launches": launches}
    return EMPTY | wrong[0] | {"right": right, "also": [x["case"] for x in wrong[1:]]}


EMPTY = {
    "state": "right",
    "right": [],
    "case": "",
    "kind": "",
    "result": "",
    "shape": [],
    "dtype": "",
    "wrong": 0,
    "first_wrong_index": None,
    "got": 0.0,
    "expected": 0.0,
    "largest_error": 0.0,
    "owner": "",
    "also": [],
    "launches": 0,
}


def try_case(
    candidate: Callable,
    wanted: Spec,
    case: Case,
    earlier: list[str],
    watched: contextlib.AbstractContextManager,
    explain: bool,
) -> dict | None:
    """What is wrong with the candidate in this case; None if nothing is."""
    device = "cpu" if interpreter_is_on() else "cuda"
    inputs = wanted.inputs(case)  # for the specification
    given = wanted.inputs(case, device)
    before = [memory_of(x).clone() if isinstance(x, Tensor) else x for x in given]
    expected = results(wanted, inputs, exact=True)
    with watched as trace:
        try:
            outs = candidate(*given)
        except NotImplementedError as error:
            return {"state": "not written yet", "kind": str(error) or HOW_TO_BEGIN}
        except Exception as error:  # whatever a reader's function may raise
            return broken(*in_words(error))
    if outs is None and not wanted.overwrites:
        if not (trace and trace.launches) and is_empty(candidate):
            return {"state": "not written yet", "kind": HOW_TO_BEGIN}
        return broken("it returns None: is a `return` missing?")
    changed = [
        name
        for name, x, then in zip(wanted.names, given, before, strict=True)
        if isinstance(x, Tensor) and name not in wanted.overwrites
        if not same_bits(memory_of(x), then)
    ]
    if wanted.overwrites:
        outs = tuple(given[wanted.names.index(name)] for name in wanted.overwrites)
    outs = outs if isinstance(outs, tuple | list) else (outs,)
    if len(outs) != len(expected):
        return broken(f"{len(outs)} results came back, {len(expected)} are asked for")
    for number, (out, want) in enumerate(zip(outs, expected, strict=True)):
        label = wanted.overwrites[number] if wanted.overwrites else "the result"
        label = f"result {number}" if len(outs) > 1 and not wanted.overwrites else label
        verdict = compare(out, want)
        if verdict:
            continue
        if verdict.first_wrong_index is None:
            return broken(verdict.reason)
        if not explain:
            return broken("")
        evidence = make_evidence(candidate, wanted, case, inputs, out, want, number, trace, earlier)
        at, owner = verdict.first_wrong_index, ""
        if trace and trace.knows(out):
            owner = said(trace.owner_of(out, at))
        kind = kind_of_mistake(evidence)
        if kind.startswith("unwritten"):
            if changed:
                kind = f"an input is overwritten: {changed[0]}"
            elif trace and trace.launches and not trace.programs:
                kind = "no program ran: the grid is empty"
            elif not (trace and trace.launches):
                kind = "unwritten: new memory came back, and nothing was put there"
        return broken(kind) | {
            "result": label,
            "shape": list(want.shape),
            "dtype": str(want.dtype).removeprefix("torch."),
            "wrong": verdict.wrong,
            "first_wrong_index": list(at),
            "got": float(out[at]),
            "expected": float(want[at]),
            "largest_error": verdict.largest_error,
            "owner": owner,
        }
    for name, x, then in zip(wanted.names, given, before, strict=True):
        if name in wanted.overwrites:
            own = torch.zeros(then.shape, dtype=torch.bool)
            own.as_strided(x.shape, x.stride(), x.storage_offset()).fill_(True)
            if not same_bits(memory_of(x).cpu()[~own], then.cpu()[~own]):
                return broken(f"it writes beside {name}: between its elements, or around them")
    if changed:
        return broken(f"an input is overwritten: {changed[0]}")
    if trace and (trace.races or trace.collisions):
        return broken(f"a race between programs: {(trace.races + trace.collisions)[0]}")
    if trace and wanted.launches is not None and trace.launches > wanted.launches:
        return broken(f"too many launches: {trace.launches}, where {wanted.launches} would do")
    return None


def is_empty(candidate: Callable) -> bool:
    """Does its body do nothing at all?"""
    code = getattr(candidate, "__code__", None)
    return code is not None and code.co_code == (lambda: None).__code__.co_code


def results(function: Callable, inputs: list, exact: bool = False) -> list[Tensor]:
    """The specification's results, computed in fp64 and rounded once to the case's dtype."""

    def is_float(x: object) -> bool:
        return isinstance(x, Tensor) and x.is_floating_point()

    floats = [*(x.dtype for x in inputs if is_float(x)), torch.float32]
    if exact:
        inputs = [x.double() if is_float(x) else x for x in inputs]
    outs = function(*inputs)
    outs = outs if isinstance(outs, tuple | list) else (outs,)
    return [out.to(floats[0]) for out in outs]


def make_evidence(candidate, wanted, case, inputs, out, want, number, trace, earlier) -> Evidence:
    def run(*others: Tensor | int) -> Tensor:
        outs = candidate(*[x.to(out.device) if isinstance(x, Tensor) else x for x in others])
        return (outs if isinstance(outs, tuple | list) else (outs,))[number].cpu()

    one = Spec(
        lambda *xs: results(wanted, list(xs), exact=True)[number],
        *(wanted.arguments, wanted.angles, wanted.overwrites),
    )
    got = out.detach().cpu()
    wrong = ~torch.isclose(got.double(), want.double(), rtol=1e-2, atol=1e-3, equal_nan=True)
    if not wrong.any():
        wrong = got != want
    poison = got.isnan() if got.is_floating_point() else torch.zeros_like(wrong)

    def nobody_wrote(index: tuple[int, ...]) -> bool:
        if trace and trace.knows(out):
            return trace.owner_of(out, index) is None
        return bool(poison[index])

    seen = (trace.races, trace.twice) if trace else ([], [])
    return Evidence(one, case, inputs, got, want, wrong, nobody_wrote, run, earlier, *seen)


def watch():
    if not (interpreter_is_on() and triton_is_installed()):
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


def broken(kind: str, owner: str = "") -> dict:
    return {"state": "wrong", "kind": kind, "owner": owner}


def said(owner: tuple | None) -> str:
    from .trace import name_of

    return "no program" if owner is None else name_of(owner)


def memory_of(x: Tensor) -> Tensor:
    """All of a tensor's storage, from its beginning to its end."""
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
