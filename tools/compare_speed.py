"""Time two checkouts of `rope_kernels` in turns on one GPU; print a table, write JSON.

    python tools/compare_speed.py OLD NEW --rounds 7 -o speed.json
    taskset -c 5 python tools/compare_speed.py OLD NEW --clock host    # on one core: less scatter
    python tools/compare_speed.py OLD NEW --only norm_rope             # the calls with a norm
    python tools/compare_speed.py OLD NEW --dry-run     # no GPU: interpreter, made-up times

Each checkout has a child process of its own that stays until the end. The parent tells them over
pipes what to time, one at a time: for each case old and new take turns, and the one that begins
changes every round, so what drifts (clocks, temperature) drifts for both. A figure is the median of
the rounds.

Device time: CUDA events around one call. The L2 cache is filled with something else first, and the
GPU sleeps while the CPU queues the call, so no host time enters. A round is the mean of the middle
half of its samples. Host time: what the CPU needs to queue one call on a tiny tensor, the GPU
being idle; a round is the lowest mean of several runs of `--calls` calls.

Bars: device time within 1 %; host time within 3 % or 0.5 us. Faster is always fine. The column
"spread" is the scatter of the old checkout's rounds: where it is wider than the bar, and the
verdict "slower", repeat the case with `--only` and more rounds. Exit status: 0 all bars hold,
1 a bar is missed, 2 a child failed.
"""

import argparse
import datetime
import gc
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

DEVICE_SHARE, HOST_SHARE, HOST_US = 0.01, 0.03, 0.5
FLUSH_BYTES = 256 * 2**20  # or four times the L2 cache, if that is more
GPU_HERTZ = 3e9  # more than today's GPUs run at; sleeping too long costs only patience
HEADLINE, LLAMA = (2048, 16, 8, 256), (4096, 2, 32, 128)
PACKED_LLAMA = (8192, 1, 32, 128)


def device_cases() -> dict[str, dict]:
    """What is timed on the GPU. Sizes are s, b, h, d; what is not said is as in `_case`."""
    forms = {
        "headline bf16": {"sizes": HEADLINE},
        "headline bf16, on the fly": {"sizes": HEADLINE, "freqs": "module"},
        "headline bf16, cos and sin": {"sizes": HEADLINE, "freqs": "cos and sin"},
        "headline fp32": {"sizes": HEADLINE, "dtype": "float32"},
        "headline fp32, on the fly": {"sizes": HEADLINE, "dtype": "float32", "freqs": "module"},
        "llama": {"sizes": LLAMA},
        "llama, on the fly": {"sizes": LLAMA, "freqs": "module"},
        "llama, bhsd": {"sizes": LLAMA, "tensor_format": "bhsd"},
        "llama, half rotary": {"sizes": LLAMA, "rotary_dim": 64},
        "llama, in place": {"sizes": LLAMA, "inplace": True},
        "llama, interleaved": {"sizes": LLAMA, "interleaved": True},
        "llama, position ids": {"sizes": LLAMA, "tensor_format": "bshd", "ids": True},
        "llama, d 80": {"sizes": (4096, 2, 32, 80)},
        "long, on the fly": {"sizes": (131072, 1, 8, 128), "freqs": "module"},
        "packed": {"sizes": (65536, 1, 32, 128), "tensor_format": "thd", "sequences": 50},
    }
    cases = {}
    for name, form in forms.items():
        for direction in ("forward", "backward"):
            cases[f"{name}, {direction}"] = _case(form, direction)
    pairs = {
        "q and k, bhsd": {"tensor_format": "bhsd"},
        "q and k, bhsd, in place": {"tensor_format": "bhsd", "inplace": True},
        "q and k, on the fly": {"freqs": "module"},
    }
    for name, form in pairs.items():
        cases[f"{name}, forward"] = _case({"sizes": LLAMA, "k_heads": 8} | form, "forward")
    cases["q and k, backward"] = _case({"sizes": LLAMA, "k_heads": 8}, "autograd backward")
    for name, form in _norms(LLAMA, PACKED_LLAMA, k_heads=8, sequences=8).items():
        for what, freqs in (("on the fly", "module"), ("table", "cos and sin per pair")):
            with_freqs = form | {"freqs": freqs}
            cases[f"{name}, {what}, forward"] = _case(with_freqs, "forward")
            cases[f"{name}, {what}, backward"] = _case(with_freqs, "autograd backward")
    return {name: case | {"clock": "device"} for name, case in cases.items()}


def host_cases() -> dict[str, dict]:
    """What is timed on the CPU, with tiny tensors."""
    tiny = {"sizes": (64, 1, 16, 64)}
    forms = {
        "table": ({}, "forward"),
        "module": ({"freqs": "module"}, "forward"),
        "cos and sin": ({"freqs": "cos and sin"}, "forward"),
        "in place": ({"inplace": True}, "forward"),
        "thd, cu_seqlens": ({"tensor_format": "thd", "sequences": 4}, "forward"),
        "position ids": ({"tensor_format": "bshd", "ids": True}, "forward"),
        "rope_bw": ({}, "backward"),
        "rope_qk, table": ({"k_heads": 4}, "forward"),
        "rope_qk, module": ({"k_heads": 4, "freqs": "module"}, "forward"),
        "rope_qk, in place": ({"k_heads": 4, "freqs": "module", "inplace": True}, "forward"),
        "requires grad, table": ({}, "autograd forward"),
        "requires grad, module": ({"freqs": "module"}, "autograd forward"),
        "forward and backward, table": ({}, "both"),
        "forward and backward, module": ({"freqs": "module"}, "both"),
        "rope_qk, forward and backward": ({"k_heads": 4, "freqs": "module"}, "both"),
    }
    for name, form in _norms(tiny["sizes"], tiny["sizes"], k_heads=4, sequences=4).items():
        forms[name] = form | {"freqs": "module"}, "forward"
        forms[f"{name}, forward and backward"] = form | {"freqs": "module"}, "both"
    return {
        f"host: {name}": _case(tiny | form, direction) | {"clock": "host"}
        for name, (form, direction) in forms.items()
    }


def _norms(sizes: tuple, packed: tuple, k_heads: int, sequences: int) -> dict[str, dict]:
    """`norm_rope` and `qk_norm_rope`, each in three formats."""
    formats = {
        "sbhd": {"sizes": sizes},
        "bhsd": {"sizes": sizes},
        "thd": {"sizes": packed, "sequences": sequences},
    }
    cases = {}
    for function, heads in (("norm_rope", 0), ("qk_norm_rope", k_heads)):
        for tensor_format, form in formats.items():
            of_function = {"norm": True, "k_heads": heads, "tensor_format": tensor_format}
            cases[f"{function}, {tensor_format}"] = form | of_function
    return cases


def _case(form: dict, direction: str) -> dict:
    usual = {
        "norm": False,
        "k_heads": 0,
        "dtype": "bfloat16",
        "tensor_format": "sbhd",
        "rotary_dim": 0,
        "freqs": "table",
        "ids": False,
        "sequences": 0,
        "interleaved": False,
        "inplace": False,
    }
    return usual | form | {"direction": direction}


def shrunk(case: dict) -> dict:
    """The same call for the interpreter."""
    halved, sequences = 8 if case["rotary_dim"] else 0, 2 if case["sequences"] else 0
    return case | {"sizes": (4, 1, 2, 16), "rotary_dim": halved, "sequences": sequences}


# --- the child ----------------------------------------------------------------------------------


def make_call(case: dict, device: str) -> Callable[[], object]:
    """A function without arguments that makes the case's call, on tensors made here."""
    import torch

    import rope_kernels as package

    torch.manual_seed(20261120)
    inputs, grads = _tensors(case, device), _tensors(case, device)
    freqs, options = _freqs_and_options(case, package, device)
    arguments = freqs, case["tensor_format"]
    function, direction = getattr(package, _function_of(case)), case["direction"]
    if case["norm"]:
        inputs += [torch.ones_like(t.flatten(0, -2)[0]) for t in inputs]  # a weight for each
    if direction == "backward":
        return lambda: package.rope_bw(*grads, *arguments, **options)
    if direction == "forward":

        def forward() -> object:
            with torch.no_grad():
                return function(*inputs, *arguments, **options)

        return forward
    leaves = [t.requires_grad_() for t in inputs]
    if direction == "autograd forward":
        return lambda: function(*leaves, *arguments, **options)
    if direction == "both":
        return lambda: torch.autograd.grad(function(*leaves, *arguments, **options), leaves, grads)
    outs = function(*leaves, *arguments, **options)  # "autograd backward"
    return lambda: torch.autograd.grad(outs, leaves, grads, retain_graph=True)


def _function_of(case: dict) -> str:
    """Its name. (A "backward" is `rope_bw`, which has no norm.)"""
    if case["norm"]:
        return "qk_norm_rope" if case["k_heads"] else "norm_rope"
    return "rope_qk" if case["k_heads"] else "apply_rotary_pos_emb"


def _tensors(case: dict, device: str) -> list:
    import torch

    s, b, h, d = case["sizes"]
    heads = [h, case["k_heads"]] if case["k_heads"] else [h]
    sizes = [{"s": s, "b": b, "h": count, "d": d, "t": s} for count in heads]
    shapes = [[size[dim] for dim in case["tensor_format"]] for size in sizes]
    dtype = getattr(torch, case["dtype"])
    return [torch.randn(shape, dtype=dtype, device=device) for shape in shapes]


def _freqs_and_options(case: dict, package, device: str) -> tuple[object, dict]:
    import torch

    s, b, _, d = case["sizes"]
    module = package.RotaryPositionEmbedding(
        case["rotary_dim"] or d, interleaved=case["interleaved"]
    ).to(device)
    freqs, options = module, {name: case[name] for name in ("interleaved", "inplace")}
    if case["freqs"] == "cos and sin per pair":
        freqs, options["rotary_dim"] = module.cos_sin_per_pair(s), d
    elif case["freqs"] != "module":
        freqs = module(s)
    if case["freqs"] == "cos and sin":
        angles = freqs.flatten(1)
        freqs = tuple(x.to(getattr(torch, case["dtype"])) for x in (angles.cos(), angles.sin()))
    if case["ids"]:
        options["position_ids"] = torch.arange(s, device=device).expand(b, s).contiguous()
    if case["sequences"]:
        cuts = [i * s // case["sequences"] for i in range(case["sequences"] + 1)]
        options["cu_seqlens"] = torch.tensor(cuts, dtype=torch.int32, device=device)
    return freqs, options


class GPUTimer:
    """Times one call on a GPU, by either clock, in microseconds."""

    device = "cuda"

    def __init__(self, samples: int, calls: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("there is no GPU to measure on; --dry-run needs none")
        self.torch, self.samples, self.calls = torch, samples, calls
        cache_bytes = torch.cuda.get_device_properties().L2_cache_size
        self.flush = torch.zeros(max(FLUSH_BYTES, 4 * cache_bytes) // 4, device="cuda")

    def prepare(self, call: Callable) -> None:
        """Compile, fill the allocator's cache, and find out how long the GPU has to sleep."""
        for _ in range(5):
            call()
        self.torch.cuda.synchronize()
        queued = []
        for _ in range(3):
            begin = time.perf_counter()
            call()
            queued.append(time.perf_counter() - begin)
            self.torch.cuda.synchronize()
        self.sleep_cycles = int(GPU_HERTZ * (3 * min(queued) + 50e-6))

    def on_device(self, call: Callable) -> float:
        """The mean of the middle half of the samples: a median is as coarse as the events."""
        events = []
        for _ in range(self.samples):
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.flush.sum()
            self.torch.cuda._sleep(self.sleep_cycles)  # the CPU queues the call meanwhile
            start.record()
            call()
            end.record()
            events.append((start, end))
        self.torch.cuda.synchronize()
        samples = sorted(start.elapsed_time(end) * 1e3 for start, end in events)
        quarter = len(samples) // 4
        return statistics.mean(samples[quarter : len(samples) - quarter])

    def on_host(self, call: Callable, repeats: int = 5) -> float:
        """The lowest of several means: what disturbs a CPU only ever adds."""
        means = []
        gc.collect()
        gc.disable()
        try:
            for _ in range(repeats):
                self.torch.cuda.synchronize()
                begin = time.perf_counter_ns()
                for _ in range(self.calls):
                    call()
                means.append((time.perf_counter_ns() - begin) / self.calls / 1e3)
        finally:
            gc.enable()
        self.torch.cuda.synchronize()
        return min(means)

    def free(self) -> None:
        """Give back the memory of a case before the next."""
        gc.collect()
        self.torch.cuda.empty_cache()

    def about(self) -> dict:
        """The GPU."""
        return {"gpu": self.torch.cuda.get_device_name()}


class MadeUpTimer:
    """Makes each call once in the interpreter; its time is made up, within 0.4 % of 100 us."""

    device = "cpu"

    def __init__(self, slowdown: float) -> None:
        self.slowdown, self.count = slowdown, 0

    def prepare(self, call: Callable) -> None:
        """Does the call run at all?"""
        call()

    def on_device(self, call: Callable) -> float:
        self.count += 1
        scatter = int(hashlib.sha256(f"{self.count}".encode()).hexdigest(), 16) % 1000
        return 100.0 * self.slowdown * (1 + (scatter - 500) * 8e-6)

    on_host = on_device

    def free(self) -> None:
        """Nothing is held."""

    def about(self) -> dict:
        """No GPU."""
        return {"gpu": "none: these times are made up"}


def child(options: argparse.Namespace) -> int:
    """Answer the parent's requests, a line of JSON each, until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anything prints is no answer
    import torch

    import rope_kernels

    if Path(options.old).resolve() not in Path(rope_kernels.__file__).resolve().parents:
        raise RuntimeError(f"rope_kernels was imported from {rope_kernels.__file__}")
    timer = (
        MadeUpTimer(options.pretend_slowdown)
        if options.dry_run
        else GPUTimer(options.samples, options.calls)
    )
    call = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "about":
            answer = timer.about() | {"versions": _versions(torch)}
        elif request["do"] == "prepare":
            call = make_call(request["case"], timer.device)
            timer.prepare(call)
            answer = "ready"
        elif request["do"] == "free":
            call = None
            timer.free()
            answer = "freed"
        else:
            take = timer.on_device if request["do"] == "device" else timer.on_host
            answer = take(call)
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def _versions(torch) -> dict[str, str]:
    import triton

    found = {"torch": torch.__version__, "triton": triton.__version__}
    driver = Path("/proc/driver/nvidia/version")
    words = driver.read_text().split() if driver.exists() else []
    numbers = [word for word in words if word[:1].isdigit() and word.count(".") in (1, 2)]
    return found | {"driver": (numbers or ["unknown"])[0], "python": platform.python_version()}


# --- the parent ---------------------------------------------------------------------------------


class Child:
    """The process of one checkout."""

    def __init__(self, checkout: str, options: argparse.Namespace, slowdown: float) -> None:
        command = [sys.executable, __file__, checkout, checkout, "--child"]
        command += ["--samples", str(options.samples), "--calls", str(options.calls)]
        command += ["--dry-run", "--pretend-slowdown", str(slowdown)] if options.dry_run else []
        paths = [str(Path(checkout).resolve()), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TRITON_INTERPRET": "1" if options.dry_run else "0",
        }
        self.checkout = checkout
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, do: str, **more):
        """The answer to a request; a child that died has said why on standard error."""
        try:
            print(json.dumps({"do": do} | more), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self.process.wait()
            raise RuntimeError(f"the child of {self.checkout} ended with {code} at {do} {more}")
        return json.loads(answer)

    def end(self) -> None:
        """Close its input, on which it ends."""
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def time_case(case: dict, children: dict[str, Child], rounds: int) -> dict[str, list[float]]:
    """Times of each round, in microseconds, after one round that does not count."""
    taken = {side: [] for side in children}
    for one in children.values():
        one.ask("prepare", case=case)
    for number in range(rounds + 1):
        for side in sorted(children, reverse=bool(number % 2)):
            taken[side].append(children[side].ask(case["clock"]))
    for one in children.values():
        one.ask("free")
    return {side: times[1:] for side, times in taken.items()}


def verdict(clock: str, old: float, new: float) -> str:
    """Does the new time keep the bar?"""
    allowed = DEVICE_SHARE * old if clock == "device" else max(HOST_SHARE * old, HOST_US)
    if new - old > allowed:
        return "SLOWER"
    return "faster" if old - new > allowed else "same"


def row_of(name: str, case: dict, times: dict[str, list[float]]) -> dict:
    """One line of the table, with every round."""
    old, new = (statistics.median(times[side]) for side in ("old", "new"))
    return {
        "case": name,
        "clock": case["clock"],
        "old_us": round(old, 3),
        "new_us": round(new, 3),
        "ratio": round(new / old, 4),
        "spread": round((max(times["old"]) - min(times["old"])) / old, 4),
        "verdict": verdict(case["clock"], old, new),
        "rounds": times,
    }


def line_of(row: dict) -> str:
    """The same as text."""
    return (
        f"{row['case']:46} {row['old_us']:9.2f} {row['new_us']:9.2f} {row['ratio']:7.4f} "
        f"{row['spread']:7.2%}  {row['verdict']}"
    )


def main() -> int:
    options = _options()
    if options.child:
        return child(options)
    cases = device_cases() | host_cases()
    cases = {
        name: case
        for name, case in cases.items()
        if options.only in name and options.clock in (None, case["clock"])
    }
    if options.dry_run:
        cases = {name: shrunk(case) for name, case in cases.items()}
    children = {}
    try:
        for side, slowdown in (("old", 1.0), ("new", options.pretend_slowdown)):
            children[side] = Child(getattr(options, side), options, slowdown)
        about = {side: one.ask("about") for side, one in children.items()}
        print(f"{about['old']['gpu']}; {about['old']['versions']}")
        print(f"{'median of rounds, in us':46} {'old':>9} {'new':>9} {'ratio':>7}  spread  verdict")
        rows = []
        for name, case in cases.items():
            rows.append(row_of(name, case, time_case(case, children, options.rounds)))
            print(line_of(rows[-1]), flush=True)
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        for one in children.values():
            one.end()
    slower = [row["case"] for row in rows if row["verdict"] == "SLOWER"]
    print(f"{len(rows) - len(slower)} of {len(rows)} cases keep their bar")
    if options.output:
        found = about["old"] | {"date": datetime.date.today().isoformat()}
        found |= {"rounds": options.rounds, "samples": options.samples, "calls": options.calls}
        Path(options.output).write_text(json.dumps(found | {"rows": rows}, indent=1) + "\n")
    return int(bool(slower))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="folder that holds rope_kernels/")
    parser.add_argument("new", help="another one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--samples", type=int, default=50, help="device samples a round")
    parser.add_argument("--calls", type=int, default=2000, help="calls a host sample")
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument("--clock", choices=("device", "host"), help="only the cases timed by it")
    parser.add_argument("-o", "--output", help="JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="no GPU: times are made up")
    parser.add_argument(
        "--pretend-slowdown", type=float, default=1.0, help="of the new one, in a dry run"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
