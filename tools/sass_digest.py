"""Digest the machine code of some 3100 calls that rotate, or normalize and rotate; needs no GPU.

    python tools/sass_digest.py CHECKOUT --target sm_90 -o after.json
    python tools/sass_digest.py --compare before.json after.json

The first form imports `rope_kernels` from CHECKOUT in a child process, makes each call with
tensors that only pretend to be on a GPU, compiles what Triton is asked to launch, and writes one
line per call. The calls are those of `digested_calls`. SASS can be compared only within one Triton
version; PYTHONPATH picks another one:

    pip install --no-deps --target OTHER triton==3.6.0
    PYTHONPATH=OTHER python tools/sass_digest.py CHECKOUT -o after_3.6.json

The second form sorts the calls into five classes. "identical": the same instructions. "same
opcodes": the same opcodes in the same order, with other registers or operands. "same figures": the
same registers, spills, stack, shared memory, load and store widths and instruction count. "within
1 %": the same figures, but for an instruction count that is up to 1 % larger or smaller.
"different": everything else. It names the calls of all classes but the first, and calls whose grid
or number of warps changed. It exits with 1 if a call is different or missing.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from digested_calls import every_call

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ("registers", "spilled", "stack", "shared", "loads", "stores", "instructions")
CLASSES = ("identical", "same opcodes", "same figures", "within 1 %", "different")
PERCENT = 1  # by which the instruction counts of "within 1 %" differ at most


def main() -> int:
    options = _options()
    if options.compare:
        return compare(*(json.loads(Path(path).read_text()) for path in options.compare))
    if options.child:
        digest_calls(options)
        return 0
    cases = json.dumps(benchmark_cases())
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, *sys.argv[1:], "--child"]
        return subprocess.run(
            command, input=cases, text=True, env=_environment(options.checkout, cache)
        ).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", nargs="?", help="folder that holds rope_kernels/")
    parser.add_argument("--target", default="sm_90", help="compute capability (default: sm_90)")
    parser.add_argument("-o", "--output", help="JSON file to write")
    parser.add_argument("--only", default="", help="only calls whose name contains this text")
    parser.add_argument(
        "--resume", action="store_true", help="keep the calls that are in the output already"
    )
    parser.add_argument("--compare", nargs=2, metavar="JSON", help="compare two such files")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.compare and not (options.checkout and options.output):
        parser.error("give a CHECKOUT and -o FILE, or --compare with two files")
    return options


def _environment(checkout: str, cache: str) -> dict[str, str]:
    """The child imports `rope_kernels` from the checkout, and never reads an older cache."""
    paths = [str(Path(checkout).resolve()), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": cache,
        "TRITON_DUMP_PTXAS_LOG": "1",  # registers and spills, as Triton's own ptxas run saw them
    }


def benchmark_cases() -> list[dict]:
    """Every case of `benchmarks/shapes.py` beside this tool, once; the same for any checkout."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.shapes import SETS

    groups = [group for groups in SETS.values() for group in groups]
    cases = {case: None for group in groups for case in group.cases}
    return [asdict(case) | {"label": case.label} for case in cases]


# --- compare ------------------------------------------------------------------------------------


def compare(before: dict, after: dict) -> int:
    """Print which calls compile to the same code; return the exit status."""
    for name in ("triton", "target"):
        if before[name] != after[name]:
            print(f"{name}: {before[name]} against {after[name]}; their SASS cannot be compared")
            return 2
    missing = sorted(before["calls"].keys() ^ after["calls"].keys())
    both = [name for name in before["calls"] if name in after["calls"]]
    by_class = {name: [] for name in CLASSES}
    launches_changed = []
    for call in both:
        old, new = before["calls"][call], after["calls"][call]
        pairs = [
            (before["kernels"][o["kernel"]], after["kernels"][n["kernel"]])
            for o, n in zip(old, new, strict=False)
        ]
        worst = max((_likeness(o, n) for o, n in pairs), key=CLASSES.index, default="identical")
        by_class["different" if len(old) != len(new) else worst].append((call, pairs))
        if [(x["grid"], x["warps"]) for x in old] != [(x["grid"], x["warps"]) for x in new]:
            launches_changed.append(call)
    for name, calls in by_class.items():
        print(f"{name}: {len(calls)} of {len(both)} calls")
        for call, pairs in calls if name != "identical" else ():
            print(f"    {call}{_changes(pairs)}")
    print(f"other grid or number of warps: {len(launches_changed)} calls")
    for call in launches_changed:
        print(f"    {call}: {before['calls'][call]} -> {after['calls'][call]}")
    for call in missing:
        print(f"in one file only: {call}")
    return 1 if by_class["different"] or missing else 0


def _likeness(old: dict, new: dict) -> str:
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
        f"{name} {old[name]} -> {new[name]}"
        for old, new in pairs
        for name in FIGURES
        if old[name] != new[name]
    }
    return ": " + ", ".join(sorted(changes)) if changes else ""


# --- the child: make each call, catch and compile its launches ----------------------------------


def digest_calls(options: argparse.Namespace) -> None:
    """Compile what each call launches; write each call's kernels, and each kernel's figures once.

    The output is written again after every few kernels, so that `--resume` can go on from there.
    """
    pretend_gpu()
    import torch
    import triton

    import rope_kernels

    if Path(options.checkout).resolve() not in Path(rope_kernels.__file__).resolve().parents:
        raise RuntimeError(f"rope_kernels was imported from {rope_kernels.__file__}")
    catcher, output = Catcher(options.target), Path(options.output)
    about = {"triton": triton.__version__, "target": options.target}
    digests = about | {"calls": {}, "kernels": {}}
    if options.resume and output.exists():
        digests = json.loads(output.read_text())
        if {name: digests[name] for name in about} != about:
            raise RuntimeError(f"{output} is not of {about}: it cannot be resumed")
    calls, kernels = digests["calls"], digests["kernels"]
    for name, call in every_call(rope_kernels, json.load(sys.stdin)):
        if options.only not in name or name in calls:
            continue
        torch.manual_seed(0)
        launches = catcher.launches_of(call)
        if not launches:
            raise RuntimeError(f"{name!r} launched nothing: see `pretend_gpu` in {__file__}")
        for kernel, _ in launches:
            kernels.setdefault(kernel["id"], {k: v for k, v in kernel.items() if k != "id"})
        calls[name] = [
            {"kernel": kernel["id"], "grid": grid, "warps": kernel["warps"]}
            for kernel, grid in launches
        ]
        print(f"{len(calls)} calls, {len(kernels)} kernels: {name}", file=sys.stderr, flush=True)
        if len(calls) % 10 == 0:
            output.write_text(_one_line_each(digests))
    output.write_text(_one_line_each(digests))


def pretend_gpu() -> None:
    """Make the package take the compiled engine for tensors that are on the CPU.

    This is the one place that depends on how a checkout picks its engine. Every tensor says that it
    is on a GPU, which is what the package asks; what would follow on a real GPU is answered here.
    A checkout that asks something else needs a line here.
    """
    import torch

    class Stream:
        cuda_stream = 0

        def synchronize(self) -> None:
            """Nothing runs."""

        wait_stream = record_event = wait_event = lambda self, *arguments: None

    torch.Tensor.is_cuda = property(lambda t: True)
    torch.Tensor.is_cpu = property(lambda t: False)
    torch.Tensor.record_stream = lambda t, stream: None
    torch.cuda.current_stream = lambda device=None: Stream()
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda.synchronize = lambda device=None: None


class Catcher:
    """Takes every launch to the compiler and no further."""

    def __init__(self, target: str) -> None:
        from triton.backends.compiler import GPUTarget
        from triton.runtime import driver, jit

        capability = int(target.removeprefix("sm_"))

        class Driver:
            """What the JIT asks a driver before it launches."""

            def get_current_device(self) -> int:
                return 0

            def get_current_stream(self, device: int) -> int:
                return 0

            def get_current_target(self) -> GPUTarget:
                return GPUTarget("cuda", capability, 32)

        driver.set_active(Driver())
        self._launches = []
        self._reports = {}  # id of a compiled kernel -> the kernel, kept alive, and its report
        launch = jit.JITFunction.run

        def run(function, *arguments, grid, warmup=False, **constants) -> None:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                kernel = launch(function, *arguments, grid=grid, warmup=True, **constants)
            if id(kernel) not in self._reports:
                report = report_of(kernel, function.__name__, printed.getvalue())
                self._reports[id(kernel)] = kernel, report
            self._launches.append((self._reports[id(kernel)][1], _numbers(grid)))

        jit.JITFunction.run = run

    def launches_of(self, call: Callable[[], object]) -> list[tuple[dict, list[int] | None]]:
        """The kernels that a call launches, each with its grid."""
        self._launches.clear()
        call()
        return list(self._launches)


def _numbers(grid) -> list[int] | None:
    return None if callable(grid) else [int(size) for size in grid]


def report_of(kernel, name: str, ptxas_log: str) -> dict:
    """What is compared of a compiled kernel. Names do not enter, nor do lines of the source."""
    instructions = sass_of(kernel.asm["cubin"], name)
    opcodes = [opcode_of(instruction) for instruction in instructions]
    stack, stores, loads = map(
        int,
        re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", ptxas_log
        ).groups(),
    )
    report = {
        "sass": _digest(instructions),
        "opcodes": _digest(opcodes),
        "registers": int(re.search(r"Used (\d+) registers", ptxas_log)[1]),
        "spilled": stores + loads,
        "stack": stack,
        "shared": kernel.metadata.shared,
        "loads": widths("LDG", opcodes),
        "stores": widths("STG", opcodes),
        "instructions": sum(opcode != "NOP" for opcode in opcodes),
        "warps": kernel.metadata.num_warps,
    }
    return {"id": _digest([json.dumps(report)])} | report


def sass_of(cubin: bytes, name: str) -> list[str]:
    """Instructions of a cubin, with jumps as distances, and without the kernel's name."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        command = [tool, "--print-code", file]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return normalized(text, name)


def normalized(text: str, name: str) -> list[str]:
    """Instructions in the text of `nvdisasm --print-code`; see `sass_of`."""
    text = re.sub(rf"\b{re.escape(name)}\b", "kernel", text)
    labels, waiting, instructions = {}, [], []
    for line in text.splitlines():
        label = re.match(r"\s*([.$\w]+):\s*$", line)
        instruction = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)
        if label:
            waiting.append(label[1])
        elif instruction:
            address = int(instruction[1], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting.clear()
            instructions.append((address, re.sub(r"\s+", " ", instruction[2])))

    def from_here(address: int) -> Callable[[re.Match], str]:
        return lambda found: f"(+{labels[found[1]] - address})" if found[1] in labels else found[0]

    return [
        re.sub(r"`?\(?(\.L_x?_?\w+)\)?", from_here(address), body) for address, body in instructions
    ]


def opcode_of(instruction: str) -> str:
    """`@!P0 LDG.E.128 R4, ...` -> `LDG.E.128`."""
    return re.sub(r"^@!?U?P\w+ ", "", instruction).split(" ")[0]


def widths(kind: str, opcodes: list[str]) -> dict[str, int]:
    """Bytes per thread -> number of loads (LDG) or stores (STG) of global memory."""
    found = Counter()
    for opcode in opcodes:
        first, *suffixes = opcode.split(".")
        if first == kind:
            sizes = {"128": 16, "64": 8, "U16": 2, "S16": 2, "16": 2, "U8": 1, "S8": 1, "8": 1}
            found[next((sizes[x] for x in suffixes if x in sizes), 4)] += 1
    return {str(size): found[size] for size in sorted(found)}


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _one_line_each(digests: dict) -> str:
    """JSON with one line per call and per kernel, so that a diff can be read."""
    parts = [f'"{name}": {json.dumps(digests[name])}' for name in ("triton", "target")]
    for name in ("calls", "kernels"):
        rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in digests[name].items())
        parts.append(f'"{name}": {{\n{rows}\n}}')
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    sys.exit(main())
