"""Compare the machine code of two checkouts, call by call, for an NVIDIA GPU that need not be here.

    python tools/compare_machine_code.py OLD NEW --target sm_90

The calls are the sample of the compile matrix, the same in the size of a model's layer, and random
ones of `calls/draw.py`, with more heads and positions than the interpreter could turn. The lab of
each checkout plans and compiles what it would launch. PYTHONPATH names another Triton for both:

    pip install --no-deps --target OTHER triton==3.6.0
    PYTHONPATH=OTHER python tools/compare_machine_code.py OLD NEW

A call is "identical": the same instructions; "same opcodes": in the same order, with other
registers or operands; "same figures": the same registers, spills, stack, shared memory, load and
store widths and instruction count; "within 1 %": the same figures, but for an instruction count
that is up to 1 % larger or smaller; or "different". The calls of all classes but the first are
named, and those whose grid or number of warps changed. Exit status: 0 no call is different, 1 one
is, 2 a process died.
"""

import argparse
import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from calls.call import Call
from calls.draw import draw
from calls.sample import sample_calls
from two_checkouts import Checkout, parser_of

FIGURES = ("registers", "spilled", "stack", "shared", "loads", "stores", "instructions")
CLASSES = ("identical", "same opcodes", "same figures", "within 1 %", "different")
PERCENT = 1  # by which the instruction counts of "within 1 %" differ at most
OF_THE_SAMPLE, LARGE, DRAWN = "sample | ", "large | ", "drawn | "  # how names begin
LAYER = {"s": 4096, "h": 32}  # positions and heads

# --- in the process of a checkout ----------------------------------------------------------------


def answer(question: dict) -> list[dict]:
    """What the call of this name launches, compiled."""
    from calls.plans import plans_of
    from rope_lab.compiler.targets import target_of

    target = question["target"]
    try:
        plans = plans_of(call_named(question["name"]), target_of(target).engine)
    except (TypeError, ValueError) as refused:  # a drawn one, or one of plain PyTorch
        return [{"refused": type(refused).__name__}]
    return [report_of(*plan, target) for plan in plans.values()]


def call_named(name: str) -> Call:
    rest = name.partition(" | ")[2]
    if name.startswith(OF_THE_SAMPLE):
        return sample_calls()[rest].call
    if name.startswith(LARGE):
        return replace(sample_calls()[rest].call, **LAYER)
    call = draw(0, int(rest))
    call.s, call.h, call.k, call.fused = 64 * call.s, 4 * call.h, 4 * call.k, True
    return call


def report_of(plan, tensors, target: str) -> dict:
    """What is compared of a launch. Names of kernels do not enter, nor lines of their source."""
    from rope_lab.compiler.compile import compile_plan
    from rope_lab.compiler.stages import operations

    code = compile_plan(target, plan, tensors)
    found = operations(code, "sass")
    return {
        "sass": _digest(x.text.replace(code.kernel, "kernel") for x in found),
        "opcodes": _digest(x.opcode for x in found),
        "instructions": sum(x.opcode != "NOP" for x in found),
        "launch": [plan.programs, plan.num_warps],
        **{name: getattr(code, name) for name in ("registers", "spilled", "stack", "shared")},
        "loads": {str(width): count for width, count in code.loads.items()},
        "stores": {str(width): count for width, count in code.stores.items()},
    }


def _digest(lines) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


# --- the process that asks -----------------------------------------------------------------------


def main() -> int:
    options = _options()
    names = [name for name in names_of_calls(options.calls) if options.only in name]
    try:
        with (
            Checkout(options.old, "compare_machine_code", interpret=False) as old,
            Checkout(options.new, "compare_machine_code", interpret=False) as new,
            ThreadPoolExecutor(2) as pool,
        ):
            asked = pool.map(lambda one: reports(one, names, options.target), (old, new))
            return compare(*asked)
    except RuntimeError as died:
        print(died, file=sys.stderr)
        return 2


def reports(checkout: Checkout, names: list[str], target: str) -> dict[str, list[dict]]:
    """What each call launches in a checkout; says how far it is."""
    found = {}
    for name in names:
        found[name] = checkout.ask(name=name, target=target)
        said = f"{checkout.folder}: {len(found)} of {len(names)}, {name}"
        print(said, file=sys.stderr, flush=True)
    return found


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--target", default="sm_90", help="compute capability (default: sm_90)")
    parser.add_argument("--calls", type=int, default=400, help="random ones (default: 400)")
    parser.add_argument("--only", default="", help="only calls whose name contains this text")
    return parser.parse_args()


def names_of_calls(drawn: int) -> list[str]:
    """All calls, so many random ones among them."""
    kinds = {OF_THE_SAMPLE: sample_calls(), LARGE: sample_calls(), DRAWN: range(drawn)}
    return [f"{kind}{name}" for kind, names in kinds.items() for name in names]


def compare(before: dict[str, list[dict]], after: dict[str, list[dict]]) -> int:
    """Print which calls compile to the same code; return the exit status."""
    by_class, moved = {name: [] for name in CLASSES}, []
    for call, old in before.items():
        new = after[call]
        pairs = list(zip(old, new, strict=False))
        worst = max((_likeness(*pair) for pair in pairs), key=CLASSES.index, default="identical")
        by_class["different" if len(old) != len(new) else worst].append((call, pairs))
        if any(o.get("launch") != n.get("launch") for o, n in pairs):
            moved.append(f"{call}: {[x.get('launch') for x in old]}")
            moved[-1] += f" -> {[x.get('launch') for x in new]}"
    refused = sum("refused" in launches[0] for launches in before.values())
    for name, calls in by_class.items():
        print(f"{name}: {len(calls)} of {len(before)} calls")
        for call, pairs in calls if name != "identical" else ():
            print(f"    {call}{_changes(pairs)}")
    print(f"launch no one kernel: {refused} calls")
    print(f"other grid or number of warps: {len(moved)} calls")
    for line in moved:
        print(f"    {line}")
    return 1 if by_class["different"] else 0


def _likeness(old: dict, new: dict) -> str:
    if "refused" in old or "refused" in new:
        return "identical" if old == new else "different"
    changed = {name for name in FIGURES if old[name] != new[name]}
    if changed:
        more = abs(new["instructions"] - old["instructions"])
        within = changed == {"instructions"} and 100 * more <= PERCENT * old["instructions"]
        return "within 1 %" if within else "different"
    if old["sass"] == new["sass"]:
        return "identical"
    return "same opcodes" if old["opcodes"] == new["opcodes"] else "same figures"


def _changes(pairs: list[tuple[dict, dict]]) -> str:
    changes = {
        f"{name} {old.get(name)} -> {new.get(name)}"
        for old, new in pairs
        for name in (*FIGURES, "refused")
        if old.get(name) != new.get(name)
    }
    return ": " + ", ".join(sorted(changes)) if changes else ""


if __name__ == "__main__":
    sys.exit(main())
