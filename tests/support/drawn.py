"""Random calls of all public functions, which any copy of the package can be asked for.

`draw` makes one from a seed: of the axes of `ops.py` and a few more, and of the functions that are
not in its table. `tools/drawn_calls.py` compares what two checkouts return.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import torch
from torch import Tensor

import ops
from benchmarks.row_inputs import function_of
from ops import AXES, BF16, FP16, FP32, FP64, OPS, PLACES, TABLES, Op, Sample
from rope_kernels import RotaryPositionEmbedding
from rope_kernels.norms.api import NORM_ROUNDINGS
from rope_kernels.rotation import CP_ORDERS, ROUNDINGS
from yardstick import positions_of_rank

Named = dict[str, Tensor]
HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
DTYPES = FP32, BF16, FP16, FP64
MORE = {  # beyond `AXES`; what is there several times is drawn more often
    "d": (64, 128, 256, 72, 80, 96, 100, 120, 30, 20),
    "s": (5, 1, 2, 6, 300 if HAS_GPU else 40),
    "fused": (True, True, True, True, True, False),
    "trained": (False, False, False, False, False, True),
    "wanted": ("all", "all", "first", "last"),  # of what may have a gradient
    "inplace": (False, False, True),
    "records_inplace": (False, True),
    "dtype_of_cos": (None, None, *DTYPES),
    "table": ("as_given", "as_given", *TABLES),
    "attention_factor": (1.0, 1.25),
    "rounding": (None, None, *ROUNDINGS),
}
NEAR = {BF16: 0.1, FP16: 0.02, FP32: 1e-4, FP64: 1e-9}  # as norms: |got - want| / |want|


@dataclass
class Call:
    """A drawn call. Each run makes its own inputs, from the same seed."""

    function: str
    arguments: dict[str, object]  # for a report
    run: Callable[[ModuleType], Named]
    define: Callable[[], Named]  # in fp64
    near: float

    @property
    def listed(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.arguments.items()]


def draw(seed: int, index: int, never: Sequence[str] = ()) -> Call:
    """Call number `index`, whatever calls come before it; never one with these "name=value"."""
    rng = random.Random(f"{seed}, {index}")
    call = None
    while call is None or not set(never).isdisjoint(call.listed):
        call = TURNS[index % len(TURNS)](rng, rng.randrange(2**32))
    return call


def named_results(
    outs: Sequence[Tensor], leaves: Named, make_grads: Callable[[Sequence[Tensor]], list[Tensor]]
) -> Named:
    """Results, and the gradients of `leaves` where any result has one."""
    named = {f"result {i}": out.detach() for i, out in enumerate(outs)}
    pairs = zip(outs, make_grads(outs), strict=True)
    pairs = [(out, grad.to(out.dtype)) for out, grad in pairs if out.requires_grad]
    if pairs:
        outs, grads = zip(*pairs, strict=True)
        found = torch.autograd.grad(outs, [*leaves.values()], grads)
        named |= {f"gradient of {name}": x for name, x in zip(leaves, found, strict=True)}
    return named


# calls of the functions that rotate


def draw_rotation(op: Op, rng: random.Random, seed: int) -> Call:
    axes = AXES | MORE | {axis: values for axis, values in op.axes.items() if axis != "d"}
    if op.weights:
        axes["rounding"] = NORM_ROUNDINGS
    case: dict = {}
    while not case or not is_legal(op, case):
        case = {axis: rng.choice(values) for axis, values in axes.items()}
    sample = make_sample(op, case, seed)
    tables = sample.freqs if isinstance(sample.freqs, tuple) else ()
    near = max(NEAR[x] for x in (case["dtype"], *[table.dtype for table in tables]))
    run, define = partial(run_rotation, op, case, seed), partial(define_rotation, op, case, seed)
    return Call(op.name, case, run, define, near)


def is_legal(op: Op, case: dict) -> bool:
    if case["inplace"]:
        refused = {"expanded_heads"} | ({"negative_view"} if "cache" in case else set())
        if not op.inplace or not refused.isdisjoint((case["layout"], case.get("layout_of_k"))):
            return False
        if case["output_pairing"] == "half" or case["trained"]:
            return False
    return ops.is_legal(case)


def make_sample(op: Op, case: dict, seed: int) -> Sample:
    """The inputs of a call, always the same, and its options."""
    torch.manual_seed(seed)
    sample = op.kind[0](op, case, DEVICE)
    sample.more = {"rounding": case["rounding"]}
    freqs = sample.freqs
    if isinstance(freqs, RotaryPositionEmbedding):
        freqs.attention_factor = case["attention_factor"]
    elif isinstance(freqs, tuple) and freqs[0].shape[-1] != sample.d:
        sample.how["rotary_dim"] = sample.d2  # not every checkout takes it for d2 by itself
    sample.tables = sample.trained_tables()
    for x in sample.written.values():  # a cache has gaps
        value = x.clone()
        ops.memory_of(x).fill_(math.nan)
        x.copy_(value)
    return sample


def leaves_of(sample: Sample) -> Named:
    """What a gradient is asked of."""
    case, op = sample.case, sample.op
    records = case["records_inplace"] and not op.weights  # norms have no gradient in place
    if not op.differentiable or (case["inplace"] and not records):
        return {}
    leaves = sample.leaves()
    names = {"all": slice(None), "first": slice(1), "last": slice(-1, None)}
    return {name: leaves[name] for name in [*leaves][names[case["wanted"]]]}


def run_rotation(op: Op, case: dict, seed: int, package: ModuleType) -> Named:
    """Results, gradients, and all memory of what was given, as it is after the call."""
    sample = make_sample(op, case, seed)
    leaves = leaves_of(sample)
    given, freqs = sample.apart(sample.given | sample.tables | leaves | sample.written)
    if isinstance(freqs, RotaryPositionEmbedding):
        how = {"interleaved": freqs.interleaved, "attention_factor": freqs.attention_factor}
        freqs = package.RotaryPositionEmbedding(sample.d2, **how).to(DEVICE)
    options = sample.options()
    if case["inplace"]:
        options["inplace"] = True
        if leaves:  # autograd lets no leaf be overwritten
            given |= {name: CopyWithStrides.apply(given[name]) for name in op.inplace}
    outs = function_of(package, op.name)(**given, freqs=freqs, **options)
    outs = *(outs if isinstance(outs, tuple) else (outs,)), *sample.written.values()
    named = named_results(outs, leaves, partial(grads_of, sample, seed))
    memory = sample.given | sample.written
    return named | {f"memory of {n}": ops.memory_of(x) for n, x in memory.items() if x is not None}


def define_rotation(op: Op, case: dict, seed: int) -> Named:
    sample = make_sample(op, case, seed)
    leaves = {n: x.detach().double().requires_grad_() for n, x in leaves_of(sample).items()}
    outs = sample.defined(sample.given | sample.tables | leaves)
    return named_results(outs, leaves, partial(grads_of, sample, seed))


def grads_of(sample: Sample, seed: int, outs: Sequence[Tensor]) -> list[Tensor]:
    """What arrives from the rest of a network: the same for a definition, whose dtype is fp64."""
    torch.manual_seed(seed + 1)
    return sample.gradients_like([out.detach().to(sample.dtype) for out in outs])


class CopyWithStrides(torch.autograd.Function):
    """A copy in the strides that it has, which a recorded call may overwrite."""

    @staticmethod
    def forward(ctx, x):
        return ops.copies_of({"x": x})["x"]

    @staticmethod
    def backward(ctx, grad):
        return grad


# calls of the others


def draw_rotate_half(rng: random.Random, seed: int) -> Call:
    shape = rng.choice((1, 5)), 3, 2, rng.choice((2, 30, 64))
    case = {"layout": rng.choice([*PLACES]), "dtype": rng.choice(DTYPES)}
    interleaved = rng.random() < 0.5

    def results(function: Callable, dtype: torch.dtype) -> Named:
        torch.manual_seed(seed)
        x = PLACES[case["layout"]](shape, case["dtype"], DEVICE)
        grad = torch.randn_like(x)
        x = x.detach().to(dtype).requires_grad_()
        return named_results([function(x)], {"x": x}, lambda outs: [grad])

    def run(package: ModuleType) -> Named:
        return results(partial(package.rotate_half, interleaved=interleaved), case["dtype"])

    def quarter_turn(x: Tensor) -> Tensor:
        if interleaved:
            return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), -1)

    arguments = case | {"shape": shape, "interleaved": interleaved}
    return Call("rotate_half", arguments, run, lambda: results(quarter_turn, FP64), NEAR[FP64])


def draw_cp_positions(rng: random.Random, seed: int) -> Call:
    cp_size, cp_order = rng.choice((1, 2, 3, 4)), rng.choice(CP_ORDERS)
    rank = {"cp_size": cp_size, "cp_rank": rng.randrange(cp_size), "cp_order": cp_order}
    lengths = [2 * cp_size * rng.randrange(5) for _ in range(rng.choice((1, 3)))]
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    arguments = {"seq_len": lengths[0]} if len(lengths) == 1 else {"cu_seqlens": starts}

    def run(package: ModuleType) -> Named:
        where = {"seq_len": lengths[0], "device": DEVICE}
        if len(lengths) > 1:
            where = {"cu_seqlens": torch.tensor(starts, device=DEVICE)}
        return {"result 0": package.cp_positions(**where, **rank)}

    def define() -> Named:
        whole = [positions_of_rank(length, *rank.values()) for length in lengths]
        return {"result 0": torch.cat(whole).to(DEVICE)}

    return Call("cp_positions", arguments | rank, run, define, 0.0)


def draw_angles(rng: random.Random, seed: int) -> Call:
    """A module's table."""
    makes, rows, offset = draw_module(rng), rng.choice((0, 1, 33)), rng.choice((0, 7))

    def run(package: ModuleType) -> Named:
        module = package.RotaryPositionEmbedding(**makes).to(DEVICE)
        return {"result 0": module(rows, offset)}

    def define() -> Named:
        position = torch.arange(rows, device=DEVICE)[:, None, None, None] + offset
        inv_freq = RotaryPositionEmbedding(**makes).inv_freq.double().to(DEVICE)
        if makes["interleaved"]:
            return {"result 0": position * inv_freq.repeat_interleave(2)}
        return {"result 0": position * inv_freq.repeat(2)}

    arguments = makes | {"max_seq_len": rows, "offset": offset}
    return Call("RotaryPositionEmbedding", arguments, run, define, NEAR[FP32])


def draw_cos_sin(rng: random.Random, seed: int) -> Call:
    """Cosines and sines of positions, which have a gradient where they are floats."""
    makes, rows = draw_module(rng), rng.choice((0, 1, 33))
    makes["attention_factor"] = rng.choice(MORE["attention_factor"])
    kind, dtype = rng.choice((int, torch.int32, torch.int64, FP32)), rng.choice(DTYPES)

    def results(cos_sin: Callable[[Tensor | int], Sequence[Tensor]]) -> Named:
        torch.manual_seed(seed)
        given, leaves = rows, {}
        if kind is not int:
            given = torch.randint(2**20, (2, rows), device=DEVICE).to(kind)
        if kind is FP32:
            leaves = {"positions": given.requires_grad_()}
        outs = cos_sin(given)
        grads = [torch.randn(out.shape).to(DEVICE, dtype) for out in outs]
        return named_results(outs, leaves, lambda outs: grads)

    def run(package: ModuleType) -> Named:
        module = package.RotaryPositionEmbedding(**makes).to(DEVICE)
        return results(partial(module.cos_sin, dtype=dtype))

    def cos_sin_fp64(positions: Tensor | int) -> list[Tensor]:
        if kind is int:
            positions = torch.arange(positions, device=DEVICE)
        inv_freq = RotaryPositionEmbedding(**makes).inv_freq.double().to(DEVICE)
        angle = positions[..., None] * inv_freq
        return [makes["attention_factor"] * x for x in (angle.cos(), angle.sin())]

    arguments = makes | {"positions": kind, "rows": rows, "dtype": dtype}
    define = partial(results, cos_sin_fp64)
    return Call("RotaryPositionEmbedding.cos_sin", arguments, run, define, NEAR[dtype])


def draw_module(rng: random.Random) -> dict[str, object]:
    base = rng.choice((10000.0, 5e5))
    interleaved = rng.random() < 0.5
    return {"dim": rng.choice(MORE["d"]), "rotary_base": base, "interleaved": interleaved}


OTHERS = draw_rotate_half, draw_cp_positions, draw_angles, draw_cos_sin
TURNS = *[partial(draw_rotation, op) for op in OPS] * 2, *OTHERS
