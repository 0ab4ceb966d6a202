"""Make a call, go back through it, and keep all that it did."""

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from .call import Call
from .make import Arguments, Maker, arguments_of


def perform(call: Call, package, make: Maker, keep: Callable) -> dict:
    """What the call did, by name: what `keep` makes of each tensor, and plain data."""
    performance = Performance(call, package, make, keep, arguments_of(call, package, make))
    results = {}
    for number in range(call.times):
        before = {name: x._version for name, x in make.memory.items() if not x.is_inference()}
        try:
            results |= {f"#{number} {name}": x for name, x in performance.once().items()}
        except Exception as error:
            results[f"#{number} error"] = type(error).__name__
        versions = {name: make.memory[name]._version != then for name, then in before.items()}
        results[f"#{number} written"] = [name for name, changed in versions.items() if changed]
        results |= {f"#{number} memory of {name}": keep(x) for name, x in make.memory.items()}
    return results


@dataclass
class Performance:
    """A call with the arguments that it gets each time."""

    call: Call
    package: object
    make: Maker
    keep: Callable
    arguments: Arguments

    def rotate(self, *tensors):
        by_position, options = self.arguments.given(tensors)
        return getattr(self.package, self.call.function)(*by_position, **options)

    def once(self) -> dict:
        """What one call did, by name."""
        torch, mode, tensors = self.make.torch, self.call.mode, self.arguments.tensors
        if mode == "grad":
            return self._with_gradients()
        context = {"no_grad": torch.no_grad, "inference": torch.inference_mode}
        with context.get(mode, contextlib.nullcontext)():
            if mode == "vmap":
                stacked = [torch.stack((t, t + 1)) for t in tensors]
                return self._all("", torch.func.vmap(self.rotate)(*stacked))
            if mode == "jvp":
                tangents = tuple(self.make.normal(t.shape, self.call.dtype) for t in tensors)
                inputs = tuple(t.clone() for t in tensors)
                outs, tangents = torch.func.jvp(self.rotate, inputs, tangents)
                return self._all("", outs) | self._all("tangent ", tangents)
            rotate = self.rotate
            if mode == "make_fx":
                from torch.fx.experimental.proxy_tensor import make_fx

                rotate = make_fx(rotate)(*tensors)
            outs = rotate(*tensors)
            same = [out is t for out, t in zip(_as_tuple(outs), tensors, strict=False)]
            return self._all("", outs) | {"is its input": same}

    def _with_gradients(self) -> dict:
        call, torch, leaves = self.call, self.make.torch, self._leaves()
        inputs = self.arguments.tensors
        if call.inplace and not call.leaf_in_place:  # autograd refuses to overwrite a leaf
            inputs = [t * 1 for t in inputs]
        outs = _as_tuple(self.rotate(*inputs))
        results = self._all("", outs)
        results["requires grad"] = [(out.requires_grad, out.is_leaf) for out in outs]
        outs = [out for out in outs if out.requires_grad]
        outs = outs[-1:] if call.upstream == "one output" else outs
        if not outs or not leaves:
            return results
        twice = call.double_backward
        grads = [self._upstream(out).requires_grad_(twice) for out in outs]
        wanted = list(leaves.values())
        found = torch.autograd.grad(outs, wanted, grads, create_graph=twice, allow_unused=True)
        named = zip(leaves, found, strict=True)
        results |= {f"gradient of {name}": self.keep(x) for name, x in named}
        first = [g for g in found if g is not None and g.requires_grad]
        if twice and first:
            seeds = [self.make.normal(g.shape, str(g.dtype).removeprefix("torch.")) for g in first]
            again = torch.autograd.grad(first, [*wanted, *grads], seeds, allow_unused=True)
            results |= self._all("second gradient ", again)
        return results

    def _leaves(self) -> dict:
        """Name -> tensor, of what the call wants gradients of; they require them from here on."""
        wanted, given = self.call.grad_of, self.arguments
        named = dict(zip(("t", "k"), given.tensors, strict=False))
        named |= zip(("weight", "k_weight"), given.weights, strict=False)
        leaves = {}
        for name, x in named.items():
            if x is not None:
                x.requires_grad_(wanted.get(name, False) and x.is_leaf)
                if x.requires_grad:
                    leaves[name] = x
        return leaves

    def _upstream(self, out):
        layout = self.call.upstream  # "random" and "one output" are contiguous
        return self.make.laid_out(out.shape, self.call.dtype, layout, "").detach()

    def _all(self, prefix: str, outs) -> dict:
        return {f"{prefix}{i}": self.keep(out) for i, out in enumerate(_as_tuple(outs))}


def _as_tuple(outs) -> tuple:
    return outs if isinstance(outs, tuple) else (outs,)


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
