"""Judge a reader's function on all cases of a specification, in a process of its own.

A kernel with a wrong index may end the process it runs in, on a GPU all later CUDA calls with it.
So the candidate's source, with that of everything it uses from its notebook, goes to a child
process; where that ends or does not come back, the verdict says so. The child runs Triton's
interpreter, which can tell which program stored what. Where there is a GPU, a candidate that
launches kernels and is right there is run once more, by a second child, compiled.
"""

import ast
import builtins
import functools
import inspect
import json
import os
import sys
import textwrap
import threading
import types
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import torch
from IPython.display import display

from ..child import Child
from ..timing import measure
from .spec import Case, Spec, spec
from .verdict import WRONG, Verdict

SECONDS = 120.0  # that a candidate may take
PATIENCE = 10.0  # seconds after which a reader is told that it is still running
QUIET = "ROPE_LAB_QUIET"  # set where outputs are stored or compared: no word about the time
_LARGE = Case("large", {"s": 2048, "b": 16, "h": 8, "g": 8, "d": 256, "n": 2**26}, torch.bfloat16)


def check_exercise(
    candidate: Callable, specification: Spec | Callable, share_of_copy: float | None = None
) -> Verdict:
    """Try a candidate on every case of a specification.

    Args:
        candidate: a function that takes the specification's arguments, written in a notebook or a
            module; what it uses from its notebook may be functions, kernels, modules and plain
            values.
        specification: a `Spec`, or a function whose arguments are annotated with shapes.
        share_of_copy: how fast it has to be, as a share of the speed of a memory copy; judged only
            where there is a GPU, on (2048, 16, 8, 256) in bf16.

    Raises:
        TypeError: something that the candidate uses cannot be sent to the child process.
    """
    wanted = spec(specification)
    job = {"candidate": _Shipment().add_call(candidate), "spec": _shipped_spec(wanted)}
    verdict = _Child.of("interpreted").judge(job)
    if verdict and verdict.launches and torch.cuda.is_available():
        compiled = _Child.of("compiled").judge(job)
        verdict = verdict if compiled else compiled
    if verdict and share_of_copy is not None:
        verdict = _with_speed(verdict, candidate, wanted, share_of_copy)
    return verdict


def _with_speed(verdict: Verdict, candidate: Callable, wanted: Spec, share: float) -> Verdict:
    """It is right, so it may run in this process."""
    if not torch.cuda.is_available():
        return replace(verdict, speed="not judged here: there is no GPU")
    inputs = wanted.inputs(_LARGE, "cuda")
    source, target = inputs[0], torch.empty_like(inputs[0])
    times = measure({"copy": lambda: target.copy_(source), "candidate": lambda: candidate(*inputs)})
    reached = times["copy"].median_us / times["candidate"].median_us
    words = f"{reached:.0%} of a copy on this {torch.cuda.get_device_name()}; asked: {share:.0%}"
    return replace(verdict, speed=words, fast_enough=reached >= share)


def _shipped_spec(wanted: Spec) -> dict:
    shipped = _Shipment().add_call(wanted.function)
    asked = {
        "angles": wanted.angles,
        "overwrites": wanted.overwrites,
        "leave_out": wanted.leave_out,
        "launches": wanted.launches,
        "kernel": wanted.kernel,
        "axes": wanted.axes,
        "without": wanted.without,
        "asks": wanted.asks,
        "loads": wanted.loads,
        "blocks": wanted.blocks,
        "extra": [vars(case) | {"dtype": str(case.dtype)} for case in wanted.extra],
    }
    mistakes = {words: _Shipment().add_call(wrong) for words, wrong in wanted.mistakes.items()}
    return shipped | {"asked": asked, "mistakes": mistakes}


class _Shipment:
    """Source text of a module that holds a function and all that it uses."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}  # name -> source

    def add_call(self, function: Callable) -> dict:
        """What the child needs to call `function`."""
        options = {}
        if isinstance(function, functools.partial):
            function, options = function.func, dict(function.keywords)
        if getattr(function, "__name__", "<lambda>") == "<lambda>":
            raise TypeError("the candidate has no name; accepted: a function made by `def`")
        name = function.__name__
        self.add(name, function)
        return {"program": "\n".join(self.parts.values()), "name": name, "options": options}

    def add(self, name: str, value: object) -> None:
        if name in self.parts:
            return
        self.parts[name] = ""  # being added; a function may use itself
        source = self._source(name, value)
        del self.parts[name]  # after what it uses
        self.parts[name] = source

    def _source(self, name: str, value: object) -> str:
        function = getattr(value, "fn", value)  # of a kernel
        if isinstance(value, types.ModuleType):
            return f"import {value.__name__} as {name}"
        if isinstance(value, Spec):
            self.add(value.__name__, value.function)
            return "" if value.__name__ == name else f"{name} = {value.__name__}"
        module = getattr(function, "__module__", None)
        if isinstance(function, types.FunctionType) and not _can_be_imported(module):
            self._add_globals_of(function)
            source = inspect.getsource(function)
            alias = "" if function.__name__ == name else f"\n{name} = {function.__name__}"
            return "\n" + _without_our_decorators(source) + alias
        if callable(value) and module and _can_be_imported(module):
            return f"from {module} import {function.__qualname__} as {name}"
        if isinstance(value, torch.dtype):
            return f"import torch\n{name} = {value}"
        if isinstance(value, int | float | str | bool | tuple | type(None)):
            return f"{name} = {value!r}"
        raise TypeError(
            f"{name} is of type {type(value).__name__}, which the check cannot pass on; accepted: "
            "functions, kernels, modules, numbers, strings. Make it inside the function"
        )

    def _add_globals_of(self, function: types.FunctionType) -> None:
        """What its body names, and what decorators, defaults and annotations name."""
        names, codes = [], [function.__code__]
        for code in codes:
            codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
            names += code.co_names
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        for part in (*tree.decorator_list, tree.args):
            names += [node.id for node in ast.walk(part) if isinstance(node, ast.Name)]
        for name in names:
            if name in function.__globals__ and not hasattr(builtins, name):
                self.add(name, function.__globals__[name])


def _can_be_imported(module: str | None) -> bool:
    found = sys.modules.get(module or "__main__")
    return module != "__main__" and getattr(found, "__spec__", None) is not None


def _without_our_decorators(source: str) -> str:
    """The child makes the `Spec` itself."""
    lines = inspect.cleandoc("\n" + source).splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(("def ", "@triton")))
    return "\n".join(lines[begin:])


class _Notice:
    """A line that a page shows until there is a verdict.

    It leaves nothing: what a reader saves has to compare with what `make test` runs.
    """

    def __init__(self) -> None:
        self.text, self.shown = "", None

    def __repr__(self) -> str:
        return self.text

    def say(self, text: str) -> None:
        if QUIET in os.environ:
            return
        self.text = text
        if self.shown:
            self.shown.update(self)
        else:
            self.shown = display(self, display_id=True)  # None, and a print, in a terminal

    def clear(self) -> None:
        if self.shown:
            self.shown.update({}, raw=True)


STARTING = "Starting the process that checks; this takes some seconds, once."


def _still_running() -> str:
    return (
        f"Still running after {PATIENCE:.0f} s. An endless loop? The check stops it after "
        f"{SECONDS:.0f} s; interrupting the kernel stops it now."
    )


class _Child(Child):
    """A process that judges, kept for the next candidate."""

    _children: ClassVar[dict[str, "_Child"]] = {}

    @classmethod
    def of(cls, engine: str) -> "_Child":
        child = cls._children.get(engine)
        if child is None or child.process.poll() is not None:
            child = cls._children[engine] = cls(engine)
        return child

    def __init__(self, engine: str) -> None:
        self.engine = engine
        interpret = "1" if engine == "interpreted" else "0"
        script = "-m", "rope_lab.grading.judge_process"
        notice = _Notice()
        notice.say(STARTING)
        super().__init__(*script, environment={"TRITON_INTERPRET": interpret})
        self.process.stdout.readline()  # it says that it is ready: no candidate waits for imports
        notice.clear()

    def judge(self, job: dict) -> Verdict:
        stopper = threading.Timer(SECONDS, self.process.kill)
        notice = _Notice()
        reminder = threading.Timer(PATIENCE, lambda: notice.say(_still_running()))
        for timer in (stopper, reminder):
            timer.start()
        answer, words = self.ask(job)
        finished_in_time = stopper.is_alive()
        for timer in (stopper, reminder):
            timer.cancel()
        notice.clear()
        if answer:
            fields = json.loads(answer)
            if printed := fields.pop("printed", ""):
                print(printed, end="" if printed.endswith("\n") else "\n")
            tuples = {name: tuple(value) for name, value in fields.items() if type(value) is list}
            return Verdict(**fields | tuples, boxed=True, engine=self.engine)
        if finished_in_time:
            last = words.splitlines()[-1] if words else ""
            reason = f"it ended the process (exit {self.process.returncode}) {last}".strip()
        else:
            reason = f"it ran for {SECONDS:.0f} seconds without coming to an end"
        return Verdict(state=WRONG, reason=reason, boxed=True, engine=self.engine)
