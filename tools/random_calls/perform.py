"""Make a drawn call, go back through it, and digest all that it did."""

import contextlib
import hashlib
from collections.abc import Callable

from .draw import KNOWN_MISTAKES, OF_NORMS, OF_TWO
from .make import Arguments, Maker, arguments_of, sums_of_rows
from .mistakes import spoil


def perform(call: dict, package, make: Maker) -> dict:
    """What the call did, by name: plain data."""
    arguments = arguments_of(call, package, make)
    try:
        arguments = spoil(call, arguments, make)
    except (TypeError, ValueError) as error:
        if call["mistake"] not in KNOWN_MISTAKES:
            raise
        return {"error": type(error).__name__}  # refused where it was assigned
    results = {}
    for number in range(call["times"]):
        before = {name: x._version for name, x in make.memory.items() if not x.is_inference()}
        try:
            results |= _once(call, package, make, arguments, f"#{number} ")
        except Exception as error:
            results[f"#{number} error"] = type(error).__name__
        versions = {name: make.memory[name]._version != then for name, then in before.items()}
        results[f"#{number} written"] = [name for name, changed in versions.items() if changed]
        results |= {f"#{number} memory of {n}": digest(x) for n, x in make.memory.items()}
    return results


def _function(call: dict, package, arguments: Arguments) -> Callable:
    """The public function of the tensors to rotate alone."""
    options, function = dict(arguments.options), getattr(package, call["function"])
    tensor_format = options.pop("tensor_format", call["tensor_format"])
    if call["function"] not in OF_NORMS:
        return lambda *tensors: function(*tensors, arguments.freqs, tensor_format, **options)

    def normalize(*tensors):
        sums = arguments.sums or sums_of_rows(call, package, tensors)
        named = {"sumsq": tuple(sums) if call["function"] in OF_TWO else sums[0]} if sums else {}
        given = *tensors, *arguments.weights, arguments.freqs, tensor_format
        return function(*given, **(named | options))

    return normalize


def _once(call: dict, package, make: Maker, arguments: Arguments, prefix: str) -> dict:
    torch, mode = make.torch, call["mode"]
    rotate, tensors = _function(call, package, arguments), arguments.tensors
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
        return _with_gradients(call, make, rotate, arguments, prefix)


def _with_gradients(
    call: dict, make: Maker, rotate: Callable, arguments: Arguments, prefix: str
) -> dict:
    torch, tensors, leaves = make.torch, arguments.tensors, _leaves(call, make, arguments)
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
        outs, list(leaves.values()), grads, create_graph=call["double backward"], allow_unused=True
    )
    results |= {
        f"{prefix}gradient of {name}": digest(x) for name, x in zip(leaves, found, strict=True)
    }
    first = [g for g in found if g is not None and g.requires_grad]
    if call["double backward"] and first:
        seeds = [make.normal(g.shape, str(g.dtype).removeprefix("torch.")) for g in first]
        again = torch.autograd.grad(first, [*leaves.values(), *grads], seeds, allow_unused=True)
        results |= _digest_all(prefix + "second gradient ", again)
    return results


def _leaves(call: dict, make: Maker, arguments: Arguments) -> dict:
    """Name -> tensor, of what the call wants gradients of; they require them from here on."""
    wanted, freqs = call["grad of"], arguments.freqs
    tables = freqs if isinstance(freqs, (tuple, list)) else [freqs]
    given = {f"freqs[{number}]": x for number, x in enumerate(tables)}
    given |= zip(("t", "k"), arguments.tensors, strict=False)
    given |= zip(("weight", "k_weight"), arguments.weights, strict=False)
    given |= zip(("sumsq", "k_sumsq"), arguments.sums, strict=False)
    leaves = {}
    for name, x in given.items():
        if isinstance(x, make.torch.Tensor) and x.is_floating_point():
            x.requires_grad_(wanted[name.split("[")[0]] and x.is_leaf)
            if x.requires_grad:
                leaves[name] = x
    return leaves


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
