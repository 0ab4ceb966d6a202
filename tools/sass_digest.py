"""Digest the machine code of every call that the tests and the benchmark make; needs no GPU.

    python tools/sass_digest.py CHECKOUT --target sm_90 -o after.json
    python tools/sass_digest.py --compare before.json after.json

The first form imports `rope_kernels` from CHECKOUT in a child process, makes each call with
tensors that only pretend to be on a GPU, compiles what Triton is asked to launch, and writes one
line per call. SASS can be compared only within one Triton version; PYTHONPATH picks another one:

    pip install --no-deps --target OTHER triton==3.6.0
    PYTHONPATH=OTHER python tools/sass_digest.py CHECKOUT -o after_3.6.json

The second form sorts the calls into four classes. "identical": the same instructions. "same
opcodes": the same opcodes in the same order, with other registers or operands. "same figures": the
same registers, spills, stack, shared memory, load and store widths and instruction count.
"different": everything else. It also names calls whose grid or number of warps changed. It exits
with 1 if a call differs or is missing.

`tools/digests` holds the digests from before the kernel was split into parts.
"""

import argparse
import contextlib
import hashlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ("registers", "spilled", "stack", "shared", "loads", "stores", "instructions")
CLASSES = ("identical", "same opcodes", "same figures", "different")


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
    if old["sass"] == new["sass"] and all(old[name] == new[name] for name in FIGURES):
        return "identical"
    if any(old[name] != new[name] for name in FIGURES):
        return "different"
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


# --- the calls ----------------------------------------------------------------------------------

Calls = Iterator[tuple[str, Callable[[], object]]]


def every_call(package, cases: list[dict]) -> Calls:
    """Name and call of everything that is compiled."""
    yield from calls_of_tests(package)
    for case in cases:
        yield from calls_of_case(package, case)
    yield from more_calls(package)
    if "rotary_dim" in inspect.signature(package.rope_fw).parameters:
        yield from calls_with_slices(package)


def calls_of_tests(package) -> Calls:
    """Those of tests/test_compiled_code.py, under its names, with their backward passes."""
    import torch

    s, b, h, d = 64, 2, 8, 128
    cu_seqlens, ids = torch.tensor([0, 10, s]), torch.zeros(b, s).long()
    make = package.RotaryPositionEmbedding
    rope, interleaved, half_rotary = make(d), make(d, interleaved=True), make(d, 0.5)

    def bf16(*shape):
        return torch.randn(shape, dtype=torch.bfloat16)

    odd = bf16(s * b * h * d + 1)[1:].view(s, b, h, d)
    one_tensor = {
        "table": (bf16(s, b, h, d), rope(s), "sbhd", {}),
        "on the fly": (bf16(s, b, h, d), rope, "sbhd", {}),
        "interleaved": (bf16(s, b, h, d), interleaved, "sbhd", {"interleaved": True}),
        "packed": (bf16(s, h, d), rope, "thd", {"cu_seqlens": cu_seqlens}),
        "one entry, one head": (bf16(s, 1, 1, d), rope, "sbhd", {}),
        "half rotary, new": (bf16(s, b, h, d), half_rotary, "sbhd", {}),
        "half rotary, in place": (bf16(s, b, h, d), half_rotary, "sbhd", {"inplace": True}),
        "d = 80": (bf16(s, b, 40, 80), make(80), "sbhd", {}),
        "odd address": (odd, rope, "sbhd", {}),
        "fp32, table": (torch.randn(s, b, h, d), rope(s), "sbhd", {}),
        "fp32, on the fly": (torch.randn(s, b, h, d), rope, "sbhd", {}),
        "fp32, packed": (torch.randn(s, h, d), rope, "thd", {"cu_seqlens": cu_seqlens}),
    }
    for name, (t, freqs, tensor_format, options) in one_tensor.items():
        for function in (package.rope_fw, package.rope_bw):
            yield (
                f"tests | {name} | {function.__name__}",
                lambda f=function, t=t, a=(freqs, tensor_format), o=options: f(t, *a, **o),
            )
    q, k = bf16(b, s, 3 * h, d).transpose(1, 2).split(h, dim=1)[:2]
    yield (
        "tests | q and k, packed qkv, in place | rope_qk",
        lambda: package.rope_qk(q, k, rope, "bhsd", inplace=True),
    )
    pair = bf16(b, s, h, d), bf16(b, s, 1, d)
    yield (
        "tests | q and k, position ids | rope_qk",
        lambda: package.rope_qk(*pair, rope, "bshd", position_ids=ids),
    )


def more_calls(package) -> Calls:
    """What neither the tests nor the benchmark compile: each remaining branch of the kernel."""
    import torch

    s, b, h = 64, 2, 4
    starts, cu_seqlens = torch.arange(b), torch.tensor([0, 16, 16, 2 * s])
    ways = {
        "plain": {},
        "starts": {"start_positions": starts},
        "ids": {"position_ids": torch.zeros(b, s, dtype=torch.int32)},
        "shared ids": {"position_ids": torch.zeros(1, s, dtype=torch.int64)},
        "cp": {"cp_size": 2, "cp_rank": 1},
        "cp, starts": {"cp_size": 2, "cp_rank": 0, "start_positions": starts},
        "thd": {"cu_seqlens": cu_seqlens},
        "thd, cp, starts": {
            "cu_seqlens": 2 * cu_seqlens,
            "cp_size": 2,
            "start_positions": torch.arange(3),
        },
        "thd, ids": {"position_ids": torch.zeros(s * b, dtype=torch.int64)},
    }

    def calls(dtype: str, pairing: bool, d: int, d2: int, kinds: tuple, ways: dict) -> Calls:
        rope = package.RotaryPositionEmbedding(d2, interleaved=pairing)
        of = getattr(torch, dtype)
        every_kind = {
            "table": rope(4 * s),
            "module": rope,
            "cos, sin": (torch.zeros(4 * s, d2, dtype=of), torch.zeros(4 * s, d2, dtype=of)),
        }
        for kind in kinds:
            for way, options in ways.items():
                packed = way.startswith("thd")
                t = torch.zeros((s * b, h, d) if packed else (b, s, h, d), dtype=of)
                arguments = t, every_kind[kind], "thd" if packed else "bshd"
                options = options | {"interleaved": pairing}
                pair = "interleaved" if pairing else "halves"
                yield (
                    f"more | {dtype}, d {d}, d2 {d2}, {pair}, {kind}, {way} | rope_fw",
                    lambda arguments=arguments, options=options: package.rope_fw(
                        *arguments, **options
                    ),
                )

    every_kind, plain = ("table", "module", "cos, sin"), {"plain": {}}
    for pairing in (False, True):
        yield from calls("bfloat16", pairing, 64, 64, ("table", "module"), ways)
        for sizes in ((64, 64), (100, 30), (256, 128)):
            yield from calls("float32", pairing, *sizes, every_kind, plain)
            yield from calls("bfloat16", pairing, *sizes, every_kind, plain)
        for dtype in ("float16", "float64"):
            yield from calls(dtype, pairing, 80, 80, every_kind, plain)
    yield from calls("float32", False, 64, 64, ("module",), ways)


def calls_with_slices(package) -> Calls:
    """One angle per pair, other slices, the inverse and another order of the results."""
    import torch

    s, b, h = 64, 2, 4
    for d, d2, start in ((128, 128, 0), (192, 64, 128), (120, 120, 0), (72, 72, 0), (100, 50, 4)):
        t = torch.zeros(s, b, h, d, dtype=torch.bfloat16)
        table = torch.zeros(s, 1, 1, d2 // 2)
        one_per_pair = {"angles": table, "cos, sin": (table[:, 0, 0], table[:, 0, 0])}
        slice_of = {"rotary_dim": d2, "rotary_start": start}
        ways = {
            "new": {},
            "in place": {"inplace": True},
            "inverse": {"inverse": True},
            "interleaved": {"interleaved": True},
            "to half": {"interleaved": True, "output_pairing": "half"},
        }
        for kind, freqs in one_per_pair.items():
            for way, options in ways.items():
                name = f"slices | d {d}, d2 {d2} from {start}, {kind}, {way}"
                for function in (package.rope_fw, package.rope_bw):
                    yield (
                        f"{name} | {function.__name__}",
                        lambda f=function, a=(t, freqs), o=slice_of | options: f(*a, **o),
                    )


def calls_of_case(package, case: dict) -> Calls:
    """A benchmark case: each kind of freqs, forward, backward, and through autograd."""
    kinds = ["angles", "module"] + (["cos and sin"] if case["tensor_format"] != "thd" else [])
    for kind in kinds:
        for direction in ("forward", "backward", "autograd"):
            if case["inplace"] and direction == "autograd" and not case["k_heads"]:
                continue  # the benchmark does not time it
            yield (
                f"bench | {case['label']} | {kind} | {direction}",
                lambda kind=kind, direction=direction: _benchmark_call(
                    package, case, kind, direction
                ),
            )


def _benchmark_call(package, case: dict, kind: str, direction: str) -> None:
    """Tensors are never written, so the largest cost nothing: their memory is not touched."""
    import torch

    (freqs, options), tensor_format = _freqs(package, case, kind), case["tensor_format"]
    options |= {"interleaved": case["interleaved"], "inplace": case["inplace"]}
    heads = [case["h"], case["k_heads"]] if case["k_heads"] else [case["h"]]
    tensors = [_empty(case, count) for count in heads]
    if direction == "backward" and len(tensors) == 1:
        package.rope_bw(*tensors, freqs, tensor_format, **options)
        return
    function = package.rope_qk if len(tensors) == 2 else package.apply_rotary_pos_emb
    if direction == "forward":
        function(*tensors, freqs, tensor_format, **options)
        return
    leaves = [t.requires_grad_() for t in tensors]
    inputs = [t.clone() for t in leaves] if case["inplace"] else leaves
    results = function(*inputs, freqs, tensor_format, **options)
    results = results if isinstance(results, tuple) else (results,)
    grads = [_empty(case, count) for count in heads]
    torch.autograd.grad(results, leaves, grads)


def _empty(case: dict, heads: int):
    """A tensor in the case's format, in memory as the case stores it."""
    import torch

    dtype, memory = getattr(torch, case["dtype"]), case["stored"] or case["tensor_format"]
    sizes = {"s": case["s"], "b": case["b"], "h": heads, "d": case["d"], "t": case["s"]}
    t = torch.empty([sizes[dim] for dim in memory], dtype=dtype)
    return t.permute([memory.index(dim) for dim in case["tensor_format"]])


def _freqs(package, case: dict, kind: str) -> tuple[object, dict]:
    """`freqs` and the options that say where tokens are, as benchmarks/providers/ours.py does."""
    import torch

    s, b, d2 = case["s"], case["b"], case["rotary_dim"] or case["d"]
    if kind == "cos and sin":
        shape = (1 if case["positions"] == "index" else b, s, d2)
        dtype = getattr(torch, case["dtype"])
        return (torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)), {}
    options = {}
    if case["tensor_format"] == "thd":
        options["cu_seqlens"] = torch.tensor(_cu_seqlens(case), dtype=torch.int32)
    elif case["positions"] == "ids":
        options["position_ids"] = torch.zeros(b, s, dtype=torch.int64)
    elif case["positions"] == "starts":
        options["start_positions"] = torch.zeros(b, dtype=torch.int32)
    if kind == "module":
        make = package.RotaryPositionEmbedding
        return make(d2, rotary_base=case["base"], interleaved=case["interleaved"]), options
    rows = s + (4096 if case["positions"] == "starts" else 0)
    return torch.empty(rows, 1, 1, d2), options


def _cu_seqlens(case: dict) -> list[int]:
    if case["cu_seqlens"]:
        return list(case["cu_seqlens"])
    count, s = case["sequences"], case["s"]
    cuts = [i * s // count for i in range(count + 1)]
    assert all(start < end for start, end in pairwise(cuts))
    return cuts


if __name__ == "__main__":
    sys.exit(main())
