"""What notebook 12 finds out about its model on a GPU: launches, bits, losses, and time.

`device` and the sizes are arguments so that a test can run each experiment small and on a CPU.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from statistics import median

import torch
from torch import Tensor

from ..rungs import rung_8_rows
from ..steps import small_llama
from ..steps.prose import batch, prose
from ..steps.qwen3 import SHAPE_8B, WAYS, loss_of, new_qwen3, patched
from ..steps.rotations import by_package, by_rung, nothing
from ..steps.small_llama import SIZE, Layer, Rotary, Size, SmallLlama, rotated_by
from ..steps.training import deterministic, new_model, optimizer_of, step
from .launches import launches_of

ROUNDINGS = ("once", "upcast", "promoted", "model")
LLAMA_8B = Size(layers=1, width=4096, heads=32, kv_heads=8, head_dim=128, mlp=14336)
SHAPES = {  # layer -> its size, sequences, positions
    "small layer": (SIZE, 16, 256),
    "Llama-3-8B layer": (LLAMA_8B, 1, 8192),
}
COMPILED = True  # False leaves out what torch.compile makes, for a quick look
_ROUNDS = 7  # of steps
_EVERY = 5  # of so many steps a loss is kept
_ALONE = 20  # steps that are not timed: they compile and fill caches


def rotations(size: Size, positions: int, device: str) -> dict[str, Callable]:
    """Every rotation that is compared: PyTorch's own, our rung 8, the package's, and none."""
    return {
        "PyTorch": small_llama.apply_rotary_pos_emb,
        "rung 8": by_rung(rung_8_rows.my_rope, positions, size.head_dim, device),
        "package": by_package(),
        "none": nothing,
    }


def layer_call(
    size: Size, b: int, s: int, device: str, backward: bool, compiled: bool = False
) -> Callable[[Callable], object]:
    """A call of one layer in bf16, by the rotation that it gets."""
    torch.manual_seed(0)
    layer = Layer(size, 0).to(device, torch.bfloat16)
    x = torch.randn(b, s, size.width, device=device).bfloat16().requires_grad_(backward)
    cos, sin = Rotary(size.head_dim)(torch.arange(s, device=device)[None], x.dtype)
    grad = torch.randn_like(x)
    inputs = [x, *layer.parameters()]
    forward = torch.compile(layer) if compiled else layer

    def call(rotation: Callable) -> object:
        with rotated_by(rotation), torch.set_grad_enabled(backward):
            y = forward(x, cos, sin)
            return torch.autograd.grad(y, inputs, grad) if backward else y

    return call


def launches(device: str = "cuda", shape: str = "small layer") -> dict:
    """Launches of the rotation alone, and of a layer's forward with it, without gradients."""
    size, b, s = SHAPES[shape]
    q = torch.randn(b, s, size.heads, size.head_dim, device=device).bfloat16().transpose(1, 2)
    k = torch.randn(b, s, size.kv_heads, size.head_dim, device=device).bfloat16().transpose(1, 2)
    tables = Rotary(size.head_dim)(torch.arange(s, device=device)[None], q.dtype)
    layer, found = layer_call(size, b, s, device, backward=False), {}
    for name, rotation in rotations(size, s, device).items():
        alone = launches_of(partial(rotation, q, k, *tables))
        whole = launches_of(partial(layer, rotation))
        found[name] = {"rotation": alone["launches"], "layer": whole["launches"]}
    if not COMPILED:
        return found
    torch._dynamo.reset()
    alone = launches_of(partial(torch.compile(small_llama.apply_rotary_pos_emb), q, k, *tables))
    whole = launches_of(
        partial(
            layer_call(size, b, s, device, backward=False, compiled=True),
            small_llama.apply_rotary_pos_emb,
        )
    )
    found["compiled"] = {"rotation": alone["launches"], "layer": whole["launches"]}
    return found


def bits(device: str = "cuda", dtype: torch.dtype = torch.bfloat16, positions: int = 256) -> dict:
    """Logits and gradients that differ from those of the unpatched model, for each rotation.

    Returns:
        For a model all in `dtype` ('pure') and for one under autocast to it: 'logits' and
        'gradients', how many there are; and for each rotation how many of both differ.
    """
    others = {name: by_package(name) for name in ROUNDINGS}
    others["rung 8"] = by_rung(rung_8_rows.my_rope, positions, SIZE.head_dim, device)
    own = small_llama.apply_rotary_pos_emb
    pure = partial(results, device=device, dtype=dtype, positions=positions)
    cast = partial(results, device=device, autocast=dtype, positions=positions)
    found = {}
    for name, run in {"pure": pure, "autocast": cast}.items():
        logits, gradients = wanted = run(own)
        found[name] = {"logits": logits.numel(), "gradients": gradients.numel()}
        found[name]["run twice"] = different(run(own), wanted)
        found[name] |= {other: different(run(by), wanted) for other, by in others.items()}
    return found


def results(
    rotation: Callable,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    autocast: torch.dtype | None = None,
    positions: int = 16,
    size: Size = SIZE,
) -> tuple[Tensor, Tensor]:
    """Logits of two sequences of prose, and the gradients of all parameters in one tensor."""
    model = new_model(size, device, dtype)
    tokens = batch(prose(), 2, positions + 1, seed=0).to(device)
    context = torch.autocast(torch.device(device).type, autocast, enabled=autocast is not None)
    with rotated_by(rotation), deterministic(), context:
        logits = model(tokens[:, :-1])
        model.loss(tokens).backward()
    return logits.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])


def different(found: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]) -> dict[str, int]:
    """How many logits and how many gradients have other bits."""
    counts = [int((one != other).sum()) for one, other in zip(found, wanted, strict=True)]
    return dict(zip(("logits", "gradients"), counts, strict=True))


def training(
    device: str = "cuda", steps: int = 300, b: int = 16, s: int = 256, size: Size = SIZE
) -> dict:
    """The same training in bf16 with each rotation, on b windows of s bytes a step.

    Returns:
        For each: 'losses' of every fifth step; how many steps had 'other_losses' and how many of
        the model's weights are 'other_weights' than unpatched; and 'tokens_per_second'.
    """
    by, found, wanted = rotations(size, s, device), {}, None
    runs = {
        "unpatched": (by["PyTorch"], False),
        "unpatched, run twice": (by["PyTorch"], False),
        "rung 8": (by["rung 8"], False),
        "package": (by["package"], False),
        "compiled": (by["PyTorch"], True),
        "compiled, package": (by["package"], True),
    }
    for name, (rotation, compiled) in runs.items():
        if compiled and not COMPILED:
            continue
        model = new_model(size, device, torch.bfloat16)
        torch._dynamo.reset()
        if compiled:
            model.compile()
        with rotated_by(rotation), deterministic():
            losses, seconds = _timed_training(model, steps, b, s)
        run = losses, torch.cat([p.detach().flatten() for p in model.parameters()])
        wanted = wanted or run
        found[name] = {
            "losses": [round(loss, 4) for loss in losses.tolist()[::_EVERY]],
            "other_losses": int((losses != wanted[0]).sum()),
            "other_weights": int((run[1] != wanted[1]).sum()),
            "tokens_per_second": round(b * s * (steps - _ALONE) / seconds),
        }
    return found


def _timed_training(model: SmallLlama, steps: int, b: int, s: int) -> tuple[Tensor, float]:
    """The losses, and the seconds of all steps but the first `_ALONE`."""
    text, optimizer, losses, begin = prose(), optimizer_of(model), [], 0.0
    device = next(model.parameters()).device
    windows = [batch(text, b, s + 1, seed=number).to(device) for number in range(steps)]
    for number, tokens in enumerate(windows):
        if number == _ALONE:
            _wait(device)
            begin = time.perf_counter()
        losses.append(step(model, optimizer, tokens))
    _wait(device)
    return torch.stack(losses), time.perf_counter() - begin


def shares(device: str = "cuda", shapes: dict | None = None, runs: int = 20) -> dict:
    """Forward and backward of a layer, a step, with each rotation; and of the rotation alone.

    Returns:
        For each layer and for eager and compiled steps: rotation -> 'launches', 'kernel_us' by the
        profiler, and 'step_us', of one of `runs` steps in a row. Where the host is slower than the
        GPU, that is the host's time. 'alone' has the launches and kernels of the rotations alone.
    """
    found = {}
    for shape, (size, b, s) in (shapes or SHAPES).items():
        torch._dynamo.reset()
        by, calls = rotations(size, s, device), {}
        for how in ("eager", "compiled")[: 1 + COMPILED]:
            layer = layer_call(size, b, s, device, backward=True, compiled=how == "compiled")
            for name, rotation in by.items():
                if (how, name) != ("compiled", "rung 8"):  # its launcher breaks the graph
                    calls[how, name] = partial(layer, rotation)
        profiled = {case: launches_of(call) for case, call in calls.items()}
        us = _step_us(calls, runs, device)
        found[shape] = {
            how: {
                name: profiled[h, name] | {"step_us": us[h, name]} for h, name in calls if h == how
            }
            for how, _ in calls
        }
        found[shape]["alone"] = {
            name: launches_of(rotation_call(by[name], size, b, s, device))
            for name in ("PyTorch", "rung 8", "package")
        }
    return found


def rotation_call(rotation: Callable, size: Size, b: int, s: int, device: str) -> Callable:
    """Forward and backward of a rotation in bf16, of q and k as attention has them."""
    q, k = (
        torch.randn(b, s, heads, size.head_dim, device=device).bfloat16().requires_grad_()
        for heads in (size.heads, size.kv_heads)
    )
    tables = Rotary(size.head_dim)(torch.arange(s, device=device)[None], q.dtype)
    grads = [torch.randn_like(x.transpose(1, 2)) for x in (q, k)]

    def call() -> object:
        y = rotation(q.transpose(1, 2), k.transpose(1, 2), *tables)
        return torch.autograd.grad(y, (q, k), grads)

    return call


def qwen3(
    device: str = "cuda", shape: dict = SHAPE_8B, length: int = 4096, turns: int = 10
) -> dict:
    """A training step of Qwen3 in bf16: as it is, patched, and patched with norms.

    Returns:
        For eager and compiled steps, way -> 'launches' of a step by the profiler, and 'step_ms',
        the median of some steps. Ways take turns.
    """
    model = new_qwen3(device, shape, torch.bfloat16)
    tokens = torch.randint(shape["vocab_size"], (1, length + 1), device=device)
    ways = {way: partial(patched, model, options) for way, options in WAYS.items()}
    found = {}

    def train_once() -> None:
        model.zero_grad()
        loss_of(model, tokens).backward()

    for how in ("eager", "compiled")[: 1 + COMPILED]:
        if how == "compiled":
            torch._dynamo.reset()
            model.compile()
        launched = {}
        for way, entered in ways.items():
            with entered():
                launched[way] = launches_of(train_once)["launches"]
        times = in_turns(ways, train_once, turns, calls_before=1, device=device)
        found[how] = {
            way: {"launches": launched[way], "step_ms": round(median(ms), 2)}
            for way, ms in times.items()
        }
    return found


def in_turns(
    ways: dict[str, Callable[[], AbstractContextManager]],
    call: Callable[[], object],
    turns: int,
    calls_before: int = 0,
    device: str = "cuda",
) -> dict[str, list[float]]:
    """Milliseconds of a call in each way, one after the other, because clocks drift.

    Two turns more are not timed. A class that was patched costs the first call of a compiled model
    a longer look at its guards: of each turn `calls_before` are not timed.
    """
    times = {way: [] for way in ways}
    for _ in range(2 + turns):
        for way, entered in ways.items():
            with entered():
                for _ in range(calls_before):
                    call()
                _wait(device)
                begin = time.perf_counter()
                call()
                _wait(device)
            times[way].append(round((time.perf_counter() - begin) * 1e3, 3))
    return {way: ms[2:] for way, ms in times.items()}


def _step_us(calls: dict, runs: int, device: str) -> dict:
    """The median of the rounds; the calls take turns, so that clocks drift for all of them."""
    rounds = {case: [] for case in calls}
    for _ in range(_ROUNDS):
        for case, call in calls.items():
            _wait(device)
            begin = time.perf_counter()
            for _ in range(runs):
                call()
            _wait(device)
            rounds[case].append((time.perf_counter() - begin) / runs * 1e6)
    return {case: round(sorted(us)[_ROUNDS // 2], 2) for case, us in rounds.items()}


def _wait(device: str | torch.device) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
