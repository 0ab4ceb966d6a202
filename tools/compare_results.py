"""Make the same random calls with two checkouts of `rope_kernels`; compare results bit for bit.

    python tools/compare_results.py OLD NEW --calls 2000 --jobs 2
    python tools/compare_results.py OLD NEW --calls 500 --device cuda

Each checkout runs in child processes of its own, through the public API alone. On the CPU the
kernels run in Triton's interpreter. Compared are outputs, gradients, memory that a call overwrote
(and all that it must not overwrite), shapes, strides, dtypes, the types of exceptions, and in the
interpreter how many kernels were launched. NaNs are equal to each other. A call depends on the seed
and its number alone: `--only 17 42` repeats two of them.

Calls that a checkout is known to answer otherwise are left out, and drawn with `--include NAME`:

    bf16-inv-freq        a module whose inv_freq is bf16 or fp16
    flags                bools and integers of the wrong type: inplace="False", cp_size=True
    nonfinite-inv-freq   a module whose inv_freq holds NaN or infinity
    overlap              in place: unusual overlaps of q with k, or of t with itself

Exit status: 0 no difference, 1 differences, 2 a child failed.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KNOWN = ("bf16-inv-freq", "flags", "nonfinite-inv-freq", "overlap")
FLOATS = ("float32", "bfloat16", "float16", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DIMS = ((64, 64), (16, 16), (30, 30), (80, 80), (96, 96), (100, 100), (128, 64), (100, 30), (34, 2),
        (48, 46), (256, 128))  # fmt: skip
LAYOUTS = ("contiguous", "contiguous", "transposed", "head dim strided", "offset", "packed",
           "expanded heads", "expanded", "negative")  # fmt: skip


# --- draw a call: plain data, from the seed and the number alone --------------------------------


def draw(seed: int, index: int, include: tuple[str, ...] = ()) -> dict:
    """Describe call number `index`."""
    rng = random.Random(f"{seed}/{index}")
    call = {
        "function": rng.choices(
            ("apply_rotary_pos_emb", "rope_qk", "rope_fw", "rope_bw"), (4, 3, 1, 1.5)
        )[0],
        "dtype": rng.choices(FLOATS, (4, 4, 2, 1))[0],
        "tensor_format": rng.choice(("sbhd", "bshd", "bhsd", "thd")),
        "sizes": {
            "s": rng.randint(1, 7),
            "b": rng.choice((1, 1, 2, 3)),
            "h": rng.choice((1, 1, 2, 3)),
            "k": rng.choice((1, 1, 2)),
        },
        "layouts": rng.choices(LAYOUTS, k=2),
        "interleaved": rng.random() < 0.4,
        "inplace": rng.random() < 0.25,
        "fused": rng.random() < 0.85,
        "mode": rng.choices(
            ("grad", "no_grad", "inference", "make_fx", "vmap", "jvp"), (60, 24, 8, 3, 2, 3)
        )[0],
        "times": rng.choice((1, 1, 1, 2)),
        "special values": rng.random() < 0.05,
    }
    call["sizes"]["d"], call["rotary_dim"] = rng.choice(DIMS)
    if rng.random() < 0.03:
        call["sizes"][rng.choice("sbh")] = 0
    _draw_positions(rng, call)
    _draw_freqs(rng, call)
    _draw_gradients(rng, call)
    call["mistake"] = None
    if rng.random() < 0.08:
        call["mistake"] = rng.choice(MISTAKES)
    elif include and rng.random() < 0.3:
        call["mistake"] = rng.choice([m for m, name in KNOWN_MISTAKES.items() if name in include])
    return call


def _draw_positions(rng: random.Random, call: dict) -> None:
    packed, sizes = call["tensor_format"] == "thd", call["sizes"]
    call["cp"] = None
    if rng.random() < 0.25:
        size = rng.choice((2, 3))
        call["cp"] = (size, rng.randrange(size))
    if packed:
        call["positions"] = rng.choices(("index", "starts", "ids", "ids, cu_seqlens"), (6, 2, 2, 1))
    else:
        call["positions"] = rng.choices(("index", "starts", "ids", "shared ids"), (6, 2, 2, 1))
    call["positions"] = call["positions"][0]
    call["positions dtype"] = rng.choice(INTEGERS)
    call["cu_seqlens"] = None
    if packed and call["positions"] != "ids":
        unit = 2 if call["cp"] else 1
        lengths = [unit * rng.choice((0, 0, 1, 2, 4)) for _ in range(rng.randint(1, 4))]
        padding = rng.choice((0, 0, 1, 3))
        sizes["s"] = sum(lengths) + padding
        call["cu_seqlens"] = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        call["cu_seqlens dtype"] = rng.choice(INTEGERS[:2])
    elif call["cp"] and rng.random() < 0.9:
        sizes["s"] += sizes["s"] % 2


def _draw_freqs(rng: random.Random, call: dict) -> None:
    call["freqs"] = rng.choices(
        ("table", "cos, sin", "cos, sin 3-D", "module", "table of module"), (4, 2, 2, 4, 1)
    )[0]
    call["freqs dtype"] = rng.choice(FLOATS)
    call["freqs layout"] = rng.choices(
        ("contiguous", "offset", "strided", "expanded", "mismatched", "negative"),
        (6, 2, 2, 1, 1, 1),
    )[0]
    call["extra rows"] = rng.choice((0, 0, 1, 7))
    call["first id"] = rng.choice((0, 0, 5, 100))
    left_open = call["positions"] != "index" or call["tensor_format"] == "thd"
    if left_open and rng.random() < 0.9:
        interpolation = None  # it depends on the number of positions, and would be refused
    else:
        interpolation = rng.choice((None, None, (2.0, 4), (1.5, 1000)))
    call["module"] = {
        "rotary_percent": rng.random() < 0.5,
        "interpolation": interpolation,
        "rotary_base": rng.choice((10000.0, 10000.0, 500000.0, 100)),
        "changed": rng.choices((None, "assigned", "in place", "cast"), (8, 1, 1, 1))[0],
    }


def _draw_gradients(rng: random.Random, call: dict) -> None:
    call["grad of"] = {
        "t": rng.random() < 0.7,
        "k": rng.random() < 0.7,
        "freqs": rng.random() < (0.05 if call["inplace"] else 0.35),
    }
    call["upstream"] = rng.choices(
        ("random", "expanded", "expanded heads", "transposed", "one output"), (6, 2, 1, 2, 1)
    )[0]
    call["double backward"] = rng.random() < 0.12
    call["leaf in place"] = rng.random() < 0.15
    call["storage"] = rng.choices(("separate", "packed heads", "packed dims"), (4, 2, 1))[0]


# --- make the call, in a child ------------------------------------------------------------------

# Each changes the arguments of a call, (tensors, freqs, options), into something to be refused.
MISTAKES = (
    "no tensor", "integer tensor", "rank", "dtype of k", "shape of k", "format", "short table",
    "odd width", "wide table", "half table", "no freqs", "one table", "dtypes of cos and sin",
    "batch of cos", "module pairing", "interleaved type", "cp_rank", "cp_size", "cu_seqlens start",
    "cu_seqlens falls", "cu_seqlens end", "cu_seqlens dtype", "cu_seqlens rank", "cu_seqlens",
    "ids and starts", "negative id", "large id", "shape of ids", "dtype of ids", "negative start",
    "shape of starts", "unknown option", "meta", "sparse",
)  # fmt: skip
KNOWN_MISTAKES = {
    "bf16 inv_freq": "bf16-inv-freq",
    "fp16 inv_freq": "bf16-inv-freq",
    "inplace is a str": "flags",
    "inplace is 1": "flags",
    "fused is a str": "flags",
    "cp_size is True": "flags",
    "NaN in inv_freq": "nonfinite-inv-freq",
    "infinite inv_freq": "nonfinite-inv-freq",
    "k overlaps q": "overlap",
    "windows": "overlap",
}


class Maker:
    """Makes the tensors of one call, and remembers the memory that they are in."""

    def __init__(self, seed: int, index: int, device: str) -> None:
        import torch

        self.torch, self.device = torch, device
        self.generator = torch.Generator().manual_seed(seed * 1_000_003 + index)
        self.memory = {}

    def normal(self, shape, dtype: str, name: str = ""):
        """Random values; made on the CPU, so that every device gets the same."""
        torch = self.torch
        x = torch.randn(tuple(shape), generator=self.generator, dtype=torch.float64)
        return self._kept(x.to(getattr(torch, dtype)).to(self.device), name)

    def integers(self, values, dtype: str, name: str = ""):
        x = self.torch.tensor(values, dtype=getattr(self.torch, dtype)).to(self.device)
        return self._kept(x, name)

    def _kept(self, x, name: str):
        if name:
            self.memory[name] = x
        return x

    def laid_out(self, shape, dtype: str, layout: str, name: str):
        """Random values of a shape, in a layout."""
        shape = list(shape)
        if layout == "transposed":
            return self.normal((shape[1], shape[0], *shape[2:]), dtype, name).transpose(0, 1)
        if layout == "head dim strided":
            swapped = (*shape[:-2], shape[-1], shape[-2])
            return self.normal(swapped, dtype, name).transpose(-1, -2)
        if layout == "offset":
            larger = self.normal([n + 3 for n in shape], dtype, name)
            return larger[tuple(slice(1, n + 1) for n in shape)]
        if layout == "packed":
            return self.normal((*shape[:-1], 3 * shape[-1]), dtype, name).chunk(3, -1)[1]
        if layout == "expanded heads":
            return self.normal((*shape[:-2], 1, shape[-1]), dtype, name).expand(shape)
        if layout == "expanded":
            return self.normal((), dtype, name).expand(shape)
        if layout == "negative" and dtype in ("float32", "float64"):
            pairs = self.normal((*shape, 2), dtype, name)
            return self.torch.view_as_complex(pairs).conj().imag
        return self.normal(shape, dtype, name)


def arguments_of(call: dict, package, make: Maker) -> tuple[list, object, dict]:
    """The tensors to rotate, freqs and options of a call."""
    tensors = _tensors(call, make)
    options = _where(call, make)
    freqs = _freqs(call, package, make, options)
    options |= {name: call[name] for name in ("interleaved", "inplace", "fused")}
    return tensors, freqs, options


def _shape(call: dict, heads: int) -> list[int]:
    sizes = call["sizes"] | {"h": heads, "t": call["sizes"]["s"]}
    return [sizes[dim] for dim in call["tensor_format"]]


def _tensors(call: dict, make: Maker) -> list:
    sizes, dtype = call["sizes"], call["dtype"]
    if call["function"] != "rope_qk":
        tensors = [make.laid_out(_shape(call, sizes["h"]), dtype, call["layouts"][0], "t")]
    elif call["storage"] == "separate":
        shapes = _shape(call, sizes["h"]), _shape(call, sizes["k"])
        named = zip(shapes, call["layouts"], "qk", strict=True)
        tensors = [make.laid_out(shape, dtype, layout, name) for shape, layout, name in named]
    elif call["storage"] == "packed heads":
        qkv = make.normal(_shape(call, sizes["h"] + 2 * sizes["k"]), dtype, "qkv")
        dim = call["tensor_format"].index("h")
        tensors = list(qkv.split([sizes["h"], sizes["k"], sizes["k"]], dim)[:2])
    else:
        shape = _shape(call, sizes["h"])
        qkv = make.normal([*shape[:-1], 3 * shape[-1]], dtype, "qkv")
        tensors = list(qkv.chunk(3, -1)[:2])
    if call["special values"] and tensors[0].numel() and call["layouts"][0] == "contiguous":
        values = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0]
        flat = tensors[0].flatten()[:5]
        tensors[0] = tensors[0].clone()
        tensors[0].view(-1)[: flat.numel()] = make.torch.tensor(values[: flat.numel()]).to(flat)
    return tensors


def _where(call: dict, make: Maker) -> dict:
    """cu_seqlens, start_positions, position_ids and the rank."""
    rng, sizes, options = random.Random(json.dumps(call["sizes"])), call["sizes"], {}
    packed, dtype = call["tensor_format"] == "thd", call["positions dtype"]
    cp_size, cp_rank = call["cp"] or (1, 0)
    if call["cp"]:
        options |= {"cp_size": cp_size, "cp_rank": cp_rank}
    if call["cu_seqlens"] is not None:
        values = [n * cp_size for n in call["cu_seqlens"]]
        options["cu_seqlens"] = make.integers(values, call["cu_seqlens dtype"], "cu_seqlens")
    first = call["first id"]
    if call["positions"] == "starts":
        count = len(call["cu_seqlens"]) - 1 if packed else sizes["b"]
        values = [first + rng.randrange(9) for _ in range(count)]
        options["start_positions"] = make.integers(values, dtype, "start_positions")
    elif "ids" in call["positions"]:
        entries = 1 if packed or call["positions"] == "shared ids" else sizes["b"]
        rows = [[first + rng.randrange(9) for _ in range(sizes["s"])] for _ in range(entries)]
        ids = make.integers(rows, dtype, "position_ids").reshape(entries, sizes["s"])
        options["position_ids"] = ids[0] if packed else ids
    return options


def _freqs(call: dict, package, make: Maker, options: dict):
    d2, torch = call["rotary_dim"], make.torch
    rows = _rows_needed(call) + call["extra rows"]
    if call["freqs"] in ("module", "table of module"):
        module = _module(call, package, make)
        return module if call["freqs"] == "module" else module(rows)
    if call["freqs"] == "table":
        wide = call["dtype"] == "float64" and call["freqs dtype"] == "float64"
        dtype, shapes = "float64" if wide else "float32", [[rows, 1, 1, d2]]
    else:
        batch = call["sizes"]["b"] if call["tensor_format"] != "thd" else 1
        three = [batch if call["extra rows"] else 1] if call["freqs"].endswith("3-D") else []
        dtype, shapes = call["freqs dtype"], [[*three, rows, d2]] * 2
    tables = []
    for number, shape in enumerate(shapes):
        name, layout = f"freqs[{number}]", call["freqs layout"]
        if layout == "strided":
            table = make.normal([*shape[:-1], 2 * d2], dtype, name)[..., ::2]
        elif layout == "expanded":
            table = make.normal((d2,), dtype, name).expand(shape)
        elif layout == "mismatched" and number and rows:
            table = make.normal([*shape[:-2], d2, rows], dtype, name).transpose(-1, -2)
        else:
            table = make.laid_out(shape, dtype, layout, name)
        tables.append(table * 3 if layout == "contiguous" and dtype == "float32" else table)
    if len(tables) == 2:
        return tuple(tables)
    with torch.no_grad():
        return tables[0]


def _rows_needed(call: dict) -> int:
    """Positions of a table that serves the call."""
    longest = call["sizes"]["s"] * (call["cp"] or (1, 0))[0]
    if call["positions"] == "index":
        return longest
    return (longest if call["positions"] == "starts" else 0) + call["first id"] + 9


def _module(call: dict, package, make: Maker):
    drawn, d2, torch = call["module"], call["rotary_dim"], make.torch
    dim, percent = (2 * d2, 0.5) if drawn["rotary_percent"] else (d2, 1.0)
    factor, trained = drawn["interpolation"] or (None, None)
    module = package.RotaryPositionEmbedding(
        dim, percent, factor, trained, drawn["rotary_base"], call["interleaved"]
    ).to(make.device)
    if drawn["changed"] == "assigned":
        module.inv_freq = make.normal((d2 // 2,), "float32").abs()
    elif drawn["changed"] == "in place":
        module(3)
        with torch.no_grad():
            module.inv_freq.mul_(0.75)
    elif drawn["changed"] == "cast":
        module = module.half()
    make.memory["inv_freq"] = module.inv_freq
    return module


def spoil(call: dict, arguments: tuple[list, object, dict], make: Maker) -> tuple:
    """Put the drawn mistake into the arguments; where it does not apply nothing happens."""
    tensors, freqs, options = arguments
    tensors, options, mistake = list(tensors), dict(options), call["mistake"]
    changes = _tensor_mistakes(call, tensors, options) | _option_mistakes(call, options, make)
    if hasattr(freqs, "inv_freq"):
        changes |= _module_mistakes(call, freqs)
    new_freqs = _freqs_mistakes(call, make)
    if mistake in new_freqs:
        freqs = new_freqs[mistake]()
    elif mistake in changes:
        with make.torch.no_grad():
            changes[mistake]()
    return tensors, freqs, options


def _tensor_mistakes(call: dict, tensors: list, options: dict) -> dict[str, Callable]:
    first, last = tensors[0], tensors[-1]

    def put(number: int, t) -> None:
        tensors[number] = t

    return {
        "no tensor": lambda: put(0, [1.0, 2.0]),
        "integer tensor": lambda: put(0, first.nan_to_num(0, 0, 0).int()),
        "rank": lambda: put(0, first[0]) if len(first) else None,
        "dtype of k": lambda: put(-1, last.half().float()),
        "shape of k": lambda: put(-1, last[..., :-1]),
        "meta": lambda: put(0, first.to("meta")),
        "sparse": lambda: put(0, first.to_sparse()),
        "k overlaps q": lambda: _overlap(call, tensors, options),
        "windows": lambda: _windows(first, tensors, options),
    }


def _option_mistakes(call: dict, options: dict, make: Maker) -> dict[str, Callable]:
    def put(name: str, *values: int, dtype: str = "int64") -> Callable:
        return lambda: options.update({name: make.integers(values, dtype)})

    def put_value(name: str, value) -> Callable:
        return lambda: options.update({name: value})

    return {
        "format": put_value("tensor_format", "hsbd"),
        "unknown option": put_value("positon_ids", None),
        "cp_rank": put_value("cp_rank", 7),
        "cp_size": put_value("cp_size", 0),
        "interleaved type": put_value("interleaved", int(call["interleaved"])),
        "cu_seqlens start": put("cu_seqlens", 1, 1),
        "cu_seqlens falls": put("cu_seqlens", 0, 2, 0),
        "cu_seqlens end": put("cu_seqlens", 0, 10_000),
        "cu_seqlens dtype": put("cu_seqlens", 0, 0, dtype="int16"),
        "cu_seqlens rank": put("cu_seqlens"),
        "cu_seqlens": put_value("cu_seqlens", None),
        "ids and starts": lambda: options.update(
            position_ids=make.integers([0], "int64"), start_positions=make.integers([0], "int64")
        ),
        "negative id": lambda: _fill(options, "position_ids", -1),
        "large id": lambda: _fill(options, "position_ids", 120),
        "negative start": lambda: _fill(options, "start_positions", -1),
        "shape of ids": put("position_ids", *range(31)),
        "dtype of ids": put("position_ids", 0, dtype="float32"),
        "shape of starts": put("start_positions", *range(31)),
        "inplace is a str": put_value("inplace", "False"),
        "inplace is 1": put_value("inplace", 1),
        "fused is a str": put_value("fused", "no"),
        "cp_size is True": put_value("cp_size", True),
    }


def _freqs_mistakes(call: dict, make: Maker) -> dict[str, Callable]:
    rows, d2 = _rows_needed(call), call["rotary_dim"]

    def table(count: int, width: int, dtype: str = "float32"):
        return make.normal((count, 1, 1, width), dtype)

    def pair() -> list:
        return [make.normal((rows, d2), "float32") for _ in range(2)]

    return {
        "short table": lambda: table(max(0, rows - 30), d2),
        "odd width": lambda: table(rows, d2 - 1),
        "wide table": lambda: table(rows, call["sizes"]["d"] + 2),
        "half table": lambda: table(rows, d2, "bfloat16"),
        "no freqs": lambda: None,
        "one table": lambda: tuple(pair()[:1]),
        "dtypes of cos and sin": lambda: tuple(
            x.to(dtype)
            for x, dtype in zip(pair(), (make.torch.float32, make.torch.half), strict=True)
        ),
        "batch of cos": lambda: tuple(x.expand(7, rows, d2) for x in pair()),
    }


def _module_mistakes(call: dict, module) -> dict[str, Callable]:
    def put(change: Callable) -> Callable:
        return lambda: setattr(module, "inv_freq", change(module.inv_freq.clone()))

    def put_first(value: float) -> Callable:
        return put(lambda inv_freq: inv_freq.index_fill(0, inv_freq.new_zeros(1).long(), value))

    return {
        "module pairing": lambda: setattr(module, "interleaved", not call["interleaved"]),
        "bf16 inv_freq": put(lambda inv_freq: inv_freq.bfloat16()),
        "fp16 inv_freq": put(lambda inv_freq: inv_freq.half()),
        "NaN in inv_freq": put_first(float("nan")),
        "infinite inv_freq": put_first(float("inf")),
    }


def _fill(options: dict, name: str, value: int) -> None:
    if options.get(name) is not None and options[name].dtype.is_signed:
        options[name] = options[name].clone()
        options[name][-1:] = value


def _overlap(call: dict, tensors: list, options: dict) -> None:
    """k is q, or q shifted by some elements."""
    q, shift = tensors[0], call["extra rows"]
    if len(tensors) == 2 and q.dim() and q.is_contiguous():
        memory = q.new_zeros(q.numel() + shift)
        views = memory[: q.numel()].view(q.shape), memory[shift:].view(q.shape)
        tensors[:] = views
        options["inplace"] = True


def _windows(t, tensors: list, options: dict) -> None:
    """Rows that overlap the next ones, or that miss them by a little."""
    if len(tensors) == 1 and t.dim() == 4 and t.numel():
        strides = t.shape[3] - 1, 2 * t.shape[3] + 3, t.shape[3] + 5, 1
        memory = t.new_zeros(sum(s * n for s, n in zip(strides, t.shape, strict=True)))
        tensors[0] = memory.as_strided(t.shape, strides)
        options["inplace"] = True


def perform(call: dict, package, make: Maker) -> dict:
    """Make the call and digest all that it did."""
    arguments = arguments_of(call, package, make)
    try:
        tensors, freqs, options = spoil(call, arguments, make)
    except (TypeError, ValueError) as error:
        if call["mistake"] not in KNOWN_MISTAKES:
            raise
        return {"error": type(error).__name__}  # refused where it was assigned
    results = {}
    for number in range(call["times"]):
        before = {name: x._version for name, x in make.memory.items() if not x.is_inference()}
        try:
            results |= _once(call, package, make, tensors, freqs, options, f"#{number} ")
        except Exception as error:
            results[f"#{number} error"] = type(error).__name__
        versions = {name: make.memory[name]._version != then for name, then in before.items()}
        results[f"#{number} written"] = [name for name, changed in versions.items() if changed]
        results |= {f"#{number} memory of {n}": digest(x) for n, x in make.memory.items()}
    return results


def _once(call, package, make: Maker, tensors, freqs, options, prefix: str) -> dict:
    torch, mode = make.torch, call["mode"]
    options = dict(options)
    tensor_format = options.pop("tensor_format", call["tensor_format"])
    function = getattr(package, call["function"])

    def rotate(*inputs):
        return function(*inputs, freqs, tensor_format, **options)

    context = {"no_grad": torch.no_grad, "inference": torch.inference_mode}
    with context.get(mode, contextlib.nullcontext)():
        if mode == "make_fx":
            from torch.fx.experimental.proxy_tensor import make_fx

            rotate = make_fx(rotate)(*tensors)
        elif mode == "vmap":
            inner, tensors = torch.func.vmap(rotate), [torch.stack((t, t + 1)) for t in tensors]
            return _digest_all(prefix, inner(*tensors))
        elif mode == "jvp":
            tangents = tuple(make.normal(t.shape, call["dtype"]) for t in tensors)
            inputs = tuple(t.clone() for t in tensors)
            outs, tangents = torch.func.jvp(rotate, inputs, tangents)
            return _digest_all(prefix, outs) | _digest_all(prefix + "tangent ", tangents)
        if mode != "grad":
            outs = rotate(*tensors)
            outs_tuple = outs if isinstance(outs, tuple) else (outs,)
            same = [out is t for out, t in zip(outs_tuple, tensors, strict=True)]
            return _digest_all(prefix, outs) | {prefix + "is its input": same}
        return _with_gradients(call, make, rotate, tensors, freqs, prefix)


def _with_gradients(call, make: Maker, rotate, tensors, freqs, prefix: str) -> dict:
    torch, wanted = make.torch, call["grad of"]
    tables = list(freqs) if isinstance(freqs, (tuple, list)) else [freqs]
    tables = [x for x in tables if isinstance(x, torch.Tensor)]
    leaves = []
    for t, wants in (*zip(tensors, (wanted["t"], wanted["k"]), strict=False),
                     *((x, wanted["freqs"]) for x in tables)):  # fmt: skip
        if isinstance(t, torch.Tensor) and t.is_floating_point():
            t.requires_grad_(bool(wants) and t.is_leaf)
            if t.requires_grad:
                leaves.append(t)
    inputs = tensors
    if call["inplace"] and not call["leaf in place"]:  # autograd refuses to overwrite a leaf
        inputs = [t * 1 if isinstance(t, torch.Tensor) else t for t in tensors]
    outs = rotate(*inputs)
    outs = outs if isinstance(outs, tuple) else (outs,)
    results = _digest_all(prefix, outs)
    results[prefix + "requires grad"] = [(out.requires_grad, out.is_leaf) for out in outs]
    outs = [out for out in outs if out.requires_grad]
    outs = outs[-1:] if call["upstream"] == "one output" else outs
    if not outs or not leaves:
        return results
    grads = [_upstream(call, make, out).requires_grad_(call["double backward"]) for out in outs]
    found = torch.autograd.grad(
        outs, leaves, grads, create_graph=call["double backward"], allow_unused=True
    )
    results |= _digest_all(prefix + "gradient ", found)
    first = [g for g in found if g is not None and g.requires_grad]
    if call["double backward"] and first:
        seeds = [make.normal(g.shape, str(g.dtype).removeprefix("torch.")) for g in first]
        again = torch.autograd.grad(first, [*leaves, *grads], seeds, allow_unused=True)
        results |= _digest_all(prefix + "second gradient ", again)
    return results


def _upstream(call: dict, make: Maker, out):
    layout = call["upstream"]  # "random" and "one output" are contiguous
    return make.laid_out(out.shape, call["dtype"], layout, "").detach()


def _digest_all(prefix: str, outs) -> dict:
    outs = outs if isinstance(outs, (tuple, list)) else (outs,)
    return {f"{prefix}{i}": digest(out) for i, out in enumerate(outs)}


def digest(x) -> list | None:
    """sha256 of the elements, all NaNs alike, with shape, strides and dtype."""
    if x is None:
        return None
    import torch

    shown = [list(x.shape), list(x.stride()), str(x.dtype).removeprefix("torch.")]
    x = x.detach().resolve_neg().cpu()
    if x.is_floating_point():
        x = torch.where(x.isnan(), torch.full((), float("nan"), dtype=x.dtype), x)
    data = x.contiguous().flatten().view(torch.uint8).numpy().tobytes() if x.numel() else b""
    return [hashlib.sha256(data).hexdigest()[:16], *shown]


class Launches:
    """Counts what the interpreter launches; on a GPU, where launches are hidden, nothing."""

    def __init__(self) -> None:
        self.count = 0
        try:
            from triton.runtime.interpreter import GridExecutor
        except ImportError:
            return
        launch = GridExecutor.__call__

        def counted(executor, *arguments, **options):
            self.count += 1
            return launch(executor, *arguments, **options)

        GridExecutor.__call__ = counted


def child(options: argparse.Namespace) -> int:
    """Make one checkout's share of the calls; a line of JSON for each."""
    import warnings

    import torch

    import rope_kernels

    if Path(options.old).resolve() not in Path(rope_kernels.__file__).resolve().parents:
        raise RuntimeError(f"rope_kernels was imported from {rope_kernels.__file__}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    launches = Launches()
    with open(options.new, "w") as file:
        for index in options.only:
            call = draw(options.seed, index, tuple(options.include))
            if options.device == "cuda":
                call["times"] = 3  # the second may take the fast path
            torch.manual_seed(index)
            then = launches.count
            results = perform(call, rope_kernels, Maker(options.seed, index, options.device))
            if options.device == "cpu":
                results["launches"] = launches.count - then
            print(json.dumps([index, results]), file=file, flush=True)
    return 0


# --- the parent ---------------------------------------------------------------------------------


def main() -> int:
    options = _options()
    if options.child:
        return child(options)
    indices = options.only or list(range(options.calls))
    shares = [indices[i :: options.jobs] for i in range(options.jobs)]
    with tempfile.TemporaryDirectory() as folder:
        tasks = [
            (side, checkout, share, Path(folder, f"{side}-{number}.jsonl"))
            for number, share in enumerate(shares)
            for side, checkout in (("old", options.old), ("new", options.new))
            if share
        ]
        with ThreadPoolExecutor(options.jobs) as pool:
            codes = list(pool.map(lambda task: _run_child(options, *task[1:]), tasks))
        found = {"old": {}, "new": {}}
        for side, _, _, path in tasks:
            lines = path.read_text().splitlines() if path.exists() else []
            found[side] |= dict(map(json.loads, lines))
    different = [i for i in indices if i in found["old"] and i in found["new"]
                 and found["old"][i] != found["new"][i]]  # fmt: skip
    for index in different:
        call = draw(options.seed, index, tuple(options.include))
        print(describe(index, call, found["old"][index], found["new"][index]))
    missing = [i for i in indices if i not in found["old"] or i not in found["new"]]
    if any(codes) or missing:
        print(f"a child ended early; calls without an answer from both: {missing[:20]}")
    print(summary(options, indices, found["old"]))
    print(f"{len(different)} differences in {len(indices) - len(missing)} calls")
    return 2 if any(codes) or missing else int(bool(different))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="folder that holds rope_kernels/")
    parser.add_argument("new", help="another one")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these calls")
    parser.add_argument("--include", choices=KNOWN, nargs="+", default=[], help="see above")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_child(options: argparse.Namespace, checkout: str, share: list[int], output: Path) -> int:
    """In a child both positional arguments mean other things: the checkout, and the output."""
    command = [sys.executable, __file__, checkout, str(output), "--child"]
    command += ["--seed", str(options.seed), "--device", options.device]
    command += ["--only", *map(str, share)]
    command += ["--include", *options.include] if options.include else []
    paths = [str(Path(checkout).resolve()), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment["TRITON_INTERPRET"] = "1" if options.device == "cpu" else "0"
    return subprocess.run(command, env=environment).returncode


def describe(index: int, call: dict, old: dict, new: dict) -> str:
    """A difference in words: what was called, and what differs."""
    lines = [f"call {index}:"]
    lines += [f"    {name}: {value}" for name, value in call.items() if value is not None]
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            lines.append(f"  differs: {name}: old {old.get(name)}, new {new.get(name)}")
    return "\n".join(lines)


def summary(options: argparse.Namespace, indices: list[int], answers: dict) -> str:
    """What the calls were, so that a run that compared nothing but errors is seen."""
    calls = {i: draw(options.seed, i, tuple(options.include)) for i in indices}
    lines = []
    for name in ("function", "dtype", "tensor_format", "freqs", "positions", "mode"):
        counts = Counter(call[name] for call in calls.values())
        lines.append(f"{name}: " + ", ".join(f"{k} {n}" for k, n in counts.most_common()))
    errors = Counter(v for a in answers.values() for k, v in a.items() if k.endswith("error"))
    raised = sum(any(k.endswith("error") for k in a) for a in answers.values())
    launched = sum(bool(a.get("launches")) for a in answers.values())
    second = sum(any("second" in k for k in a) for a in answers.values())
    lines.append(f"raised: {raised} calls, " + ", ".join(f"{k} {n}" for k, n in errors.items()))
    lines.append(f"launched a kernel: {launched} calls; double backward: {second}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
