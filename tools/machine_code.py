"""Print what calls compile to, a line a launch, for an NVIDIA GPU that need not be here.

    PYTHONPATH=../before python tools/machine_code.py > before.txt
    PYTHONPATH=. python tools/machine_code.py > after.txt
    diff before.txt after.txt

The calls are those of `calls/sample.py`, the same in the size of a model's layer, and random
ones of `calls/draw.py`, with more heads and positions than the interpreter could turn. The lab of
the checkout in PYTHONPATH plans and compiles what it would launch. With another Triton:

    pip install --no-deps --target OTHER triton==3.6.0
    PYTHONPATH=../before:OTHER python tools/machine_code.py > before.txt

A line has the grid and the warps of a launch, registers, spills, stack, shared memory, widths of
loads and stores and the number of instructions, and two digests: of the opcodes in their order, and
of the instructions with registers and operands. Names of kernels do not enter, nor lines of source.
"""

import argparse
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from calls.call import Call
from calls.draw import draw
from calls.plans import plans_of
from calls.sample import sample_calls
from rope_kernels.launch import kernel_of
from rope_kernels.modes import Engine
from rope_lab.compiler.compile import compile_for
from rope_lab.compiler.stages import operations

LAYER = {"s": 4096, "h": 32}  # positions and heads


def calls(drawn: int) -> Iterator[tuple[str, Call]]:
    """All calls by name, so many random ones among them."""
    for name, sample in sample_calls().items():
        yield f"sample | {name}", sample.call
        yield f"large | {name}", replace(sample.call, **LAYER)
    for number in range(drawn):
        call = draw(0, number)
        call.s, call.h, call.k, call.fused = 64 * call.s, 4 * call.h, 4 * call.k, True
        yield f"drawn | {number}", call


def lines_of(call: Call, target: str) -> Iterator[str]:
    """What is compared of each launch."""
    try:
        plans = plans_of(call, Engine.AMD if target.startswith("gfx") else Engine.NVIDIA)
    except (TypeError, ValueError) as refused:  # a drawn one, or one of plain PyTorch
        yield type(refused).__name__
        return
    for launch, (plan, tensors) in enumerate(plans):
        yield f"{launch} | {_line(plan, tensors, target)}"


def _line(plan, tensors, target: str) -> str:
    kernel = kernel_of(plan.kernel)
    arguments = {name: plan.arguments.get(name) for name in kernel.arg_names[len(tensors) :]}
    code = compile_for(target, kernel, *tensors, **arguments, **plan.options)
    found = operations(code, "sass")
    facts = {
        "programs": plan.programs,
        "warps": plan.options["num_warps"],
        **{name: getattr(code, name) for name in ("registers", "spilled", "stack", "shared")},
        "loads": code.loads,
        "stores": code.stores,
        "instructions": sum(x.opcode != "NOP" for x in found),
        "opcodes": _digest(x.opcode for x in found),
        "code": _digest(x.text.replace(code.kernel, "kernel") for x in found),
    }
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


if __name__ == "__main__":
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--target", default="sm_90", help="compute capability (default: sm_90)")
    parser.add_argument("--calls", type=int, default=400, help="random ones (default: 400)")
    parser.add_argument("--only", default="", help="only calls whose name contains this text")
    options = parser.parse_args()
    for name, call in calls(options.calls):
        if options.only in name:
            for line in lines_of(call, options.target):
                print(f"{name} | {line}", flush=True)
