"""Calls of `tools/calls/sample.py`, planned and compiled for a GPU that need not be here."""

from functools import cache

from calls.plans import plans_of
from calls.sample import Sample, sample_calls
from rope_kernels.launch.plan import Plan, Tensors
from rope_lab.compiler.compile import Compiled, compile_plan
from rope_lab.compiler.targets import target_of


@cache
def calls() -> dict[str, Sample]:
    """The sample, made once."""
    return sample_calls()


def planned(call: str, target: str) -> tuple[Plan, Tensors]:
    """The launch of the sample's call that is compiled, and the kernel's tensors."""
    sample = calls()[call]
    return plans_of(sample.call, target_of(target).engine)[sample.launch]


@cache
def compiled(call: str, target: str) -> Compiled:
    """A call of the sample, compiled for a GPU, once a process."""
    return compile_plan(target, *planned(call, target))
