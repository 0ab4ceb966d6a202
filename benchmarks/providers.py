"""Providers: a name, the fastest layout, and a function that computes a case.

A provider defines these, and the first class makes the measured calls from them, in the same way
for all: copies, `x * 2`, `rope_kernels`, PyTorch, and Hugging Face transformers. Projects that
aren't installed are in `peers/`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from types import ModuleType

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

import rope_kernels
from benchmarks.case import (
    COS_AND_SIN,
    EPS,
    FP32_OF_PAIRS,
    NO_TABLE,
    ON_THE_FLY,
    OURS,
    ROTATION,
    Case,
    TableKind,
)
from benchmarks.inputs import (
    Inputs,
    Layout,
    as_models_have_them,
    function_of,
    own_layout,
    rounded_error,
)

Results = tuple[Tensor, ...]
Function = Callable[..., Results]

# By default, Inductor times two tiles of a pointwise kernel and keeps one, which isn't stable:
# Hugging Face's function took 42.5 us in one run and 36.6 us in the next (sbhd (4096, 2, 32, 128),
# H200, torch 2.11.0, 2026-11-27 and -28). This mode tries more tiles.
MODE = "max-autotune-no-cudagraphs"
COMPILED = f"the whole call, by torch.compile with mode {MODE}"
VIEWS, CONTIGUOUS = "bshd", "bhsd"  # the memory order of (b, h, s, d)
NOT_ASKED = "that is"  # begins reasons that no record lists, because nobody would ask


@dataclass(frozen=True)
class Run:
    """A call to measure. Only its first result is checked: later calls in place rotate the same
    tensors again, which moves the same bytes and keeps norms."""

    call: Callable[[], Results]
    error: Callable[[Results], float] | None = None  # against fp64; None: nothing to check
    how: str = ""  # layout and memory, for the page


class Provider:
    """A way to compute cases. Subclasses override attributes and the first methods."""

    name: str
    origin = ""  # package and version, or repository and revision; '': this repository
    functions: tuple[str, ...] = ("",)  # of cases; '': the rotation by any function
    rotates_partly = True
    packs = True  # supports packed sequences
    has_backward = True
    takes_a_pair = False  # q and k together
    is_ours_or_a_limit = False  # is also measured in cases that are for ours alone
    measures = "the whole call"  # the timed part of the call
    built_with = ""  # flags of nvcc that change code, if it is compiled from sources
    dtypes: tuple[str, ...] = ()  # empty: all

    def layout(self, case: Case) -> Layout:
        """Its fastest layout, or the case's own."""
        return own_layout(case)

    def function(self, inputs: Inputs) -> Function:
        """Tensors in the layout, and weights of norms -> results. Imports the package."""
        raise NotImplementedError

    def gradient(self, inputs: Inputs) -> Function | None:
        """Gradients of the results -> gradients of the tensors; None: use autograd."""
        return None

    def overwrites(self, case: Case) -> bool:
        """Whether it overwrites its tensors, or in a backward, its gradients."""
        return False

    def allowed_error(self, case: Case) -> float:
        """The largest error against fp64 that is right: a table, products and sums are rounded."""
        return rounded_error(case, roundings=3)

    def prepare(self) -> None:
        """Import or compile what it needs. An exception says why it can't be measured here."""

    def about(self) -> dict:
        """Its origin and what is timed, for the record."""
        return {name: getattr(self, name) for name in ("origin", "measures", "built_with")}

    def cannot(self, case: Case) -> str | None:
        """Why it doesn't support a case; None: it does."""
        reasons = {
            f"{NOT_ASKED} no call that it has": case.function not in self.functions,
            f"{NOT_ASKED} for ours alone": case.alone and not self.is_ours_or_a_limit,
            f"no {case.dtype}": self.dtypes and case.dtype not in self.dtypes,
            "no partial rotary": case.d2 != case.d and not self.rotates_partly,
            "no packed sequences": case.cuts and not self.packs,
            "no backward": case.direction != "forward" and not self.has_backward,
            "takes q and k, and there is one head": self.takes_a_pair and case.heads < 2,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def run(self, inputs: Inputs) -> Run:
        """The call to measure. Everything that it needs is created here."""
        case, layout = inputs.case, self.layout(inputs.case)
        gradient = self.gradient(inputs) if case.direction == "backward" else None
        if gradient is not None:
            call = partial(gradient, *inputs.take(inputs.grad, layout))
        else:
            function = self.function(inputs)
            weights = (weight.clone() for weight in inputs.weights)
            tensors = *inputs.take(inputs.x, layout), *weights
            call = partial(function, *tensors)
            if case.direction != "forward":
                grads = inputs.take(inputs.grad, layout)
                call = with_autograd(function, case.direction, tensors, grads)
        how = f"{layout}, in place" if self.overwrites(case) else str(layout)
        return Run(call, partial(inputs.error, layout=layout), how)


def with_autograd(
    function: Function, direction: str, tensors: Results, grads: Results
) -> Callable[[], Results]:
    """A call that autograd records, or its backward, or both."""
    leaves = [t.requires_grad_() for t in tensors]

    def both() -> Results:
        return torch.autograd.grad(function(*leaves), leaves, grads)

    if direction != "backward":
        return both if direction == "both" else partial(function, *leaves)
    results = function(*(leaf.clone() for leaf in leaves))  # Some overwrite their arguments.
    return partial(torch.autograd.grad, results, leaves, grads, retain_graph=True)


# limits


class Copy(Provider):
    """`copy_` between two contiguous buffers of all rows: reads and writes each element once."""

    name = "copy_"
    is_ours_or_a_limit = True

    def cannot(self, case: Case) -> str | None:
        return f"{NOT_ASKED} another clock's limit" if case.clock == "host" else None

    def run(self, inputs: Inputs) -> Run:
        rows = (inputs.x, inputs.v) if inputs.case.to_cache else (inputs.x,)
        source = torch.cat([x.flatten() for x in rows])
        out = torch.empty_like(source)
        return Run(lambda: (out.copy_(source),))


class TimesTwo(Provider):
    """`x * 2`: the smallest eager operation with the same bytes, for host time."""

    name = "x * 2"
    is_ours_or_a_limit = True

    def cannot(self, case: Case) -> str | None:
        return f"{NOT_ASKED} another clock's limit" if case.clock == "device" else None

    def layout(self, case: Case) -> Layout:
        return Layout("bshd")

    def function(self, inputs: Inputs) -> Function:
        return lambda *tensors: tuple(x * 2 for x in tensors)

    def run(self, inputs: Inputs) -> Run:
        return Run(super().run(inputs).call)


# ours


class Ours(Provider):
    """`rope_kernels`, or the package of another checkout, with the case's layout and options."""

    functions = ("", "rope_qk", "qk_norm_rope", "rope_to_cache")
    is_ours_or_a_limit = True

    def __init__(
        self,
        name: str = OURS,
        table: Callable[[Case], TableKind] = lambda case: case.table,
        package: ModuleType = rope_kernels,
    ) -> None:
        """`table` is the case's own, or another one for the same rotation."""
        self.name, self.table, self.package = name, table, package

    def cannot(self, case: Case) -> str | None:
        if self.name != OURS and (case.function or self.table(case) == case.table):
            return f"{NOT_ASKED} rope_kernels itself here"
        return None

    def overwrites(self, case: Case) -> bool:
        return case.inplace and (case.direction == "forward" or not case.k_heads)

    def allowed_error(self, case: Case) -> float:
        """It rounds once, unless a table or the case rounds more often."""
        table = self.table(case)
        is_rounded = table.parts == 2 and table.dtype == case.dtype
        roundings = 3 if is_rounded or case.rounding == "model" else 1
        return rounded_error(case, roundings, exact_angles=table == NO_TABLE)

    def function(self, inputs: Inputs) -> Function:
        case, freqs, options = inputs.case, self.freqs(inputs), self.options(inputs)
        called = function_of(self.package, case.called)
        if case.to_cache:
            caches = inputs.new_caches()
            written = inputs.v, freqs, *caches, inputs.slots
            return lambda q, k: (called(q, k, *written, **options), *caches)
        if case.k_heads:
            return lambda *tensors: called(*tensors, freqs, case.tensor_format, **options)
        return lambda *tensors: (called(*tensors, freqs, case.tensor_format, **options),)

    def gradient(self, inputs: Inputs) -> Function | None:
        """`rope_bw`, which exists for one tensor."""
        case = inputs.case
        if case.k_heads or case.is_norm:
            return None
        given = self.freqs(inputs), case.tensor_format
        options, rope_bw = self.options(inputs), function_of(self.package, "rope_bw")
        return lambda grad: (rope_bw(grad, *given, **options),)

    def freqs(self, inputs: Inputs) -> object:
        """A module, angles, or (cos, sin)."""
        table = self.table(inputs.case)
        if table == NO_TABLE:
            return inputs.rope(self.package)
        return inputs.angles() if table.parts == 1 else inputs.table(table)

    def options(self, inputs: Inputs) -> dict[str, object]:
        """The call's keywords."""
        case, table = inputs.case, self.table(inputs.case)
        by_name = {"cu_seqlens": inputs.cu_seqlens, "start_positions": inputs.starts}
        options = {name: x for name, x in by_name.items() if x is not None}
        if case.positions not in ("index", "starts"):
            ids = inputs.token_positions()
            options["position_ids"] = ids if case.tensor_format == "thd" else ids.view(case.b, -1)
        if table.dtype and table.parts == 2:
            options["rotary_dim"] = case.d2
            if case.cuts:  # as many rows as tokens: they belong to positions
                options["start_positions"] = 0
        if case.is_norm:
            options |= {"eps": EPS, "norm_after": case.norm_after, "rounding": case.rounding}
        named = {"interleaved": case.interleaved, "inplace": case.inplace}
        return options | {name: True for name, asked in named.items() if asked}


class RotationInPlace(Ours):
    """`rope_qk` of the same q and k, in place: decoding steps are compared with it."""

    def cannot(self, case: Case) -> str | None:
        decodes = case.to_cache and case.positions == "decoded"
        return None if decodes else f"{NOT_ASKED} no decoding step"

    def run(self, inputs: Inputs) -> Run:
        run = super().run(inputs.of(replace(inputs.case, function="rope_qk", inplace=True)))
        return replace(run, how=f"{run.how}: it has no v, and writes to no cache")


# PyTorch


class PyTorch(Provider):
    """Eager PyTorch, as in notebook 00, in the case's own layout.

    As in TransformerEngine's unfused function, cos and sin of a table of angles are rounded to the
    tensors' dtype, and the rest is computed in it.
    """

    name = "PyTorch eager"

    def function(self, inputs: Inputs) -> Function:
        case, angles = inputs.case, inputs.angles()[:, 0, 0]  # (positions, d2)
        positions = inputs.positions[0]

        def function(*tensors: Tensor) -> Results:
            rows = angles[positions] if case.cuts else angles  # Sequences may change in each call.
            freqs = rows.view(*along_tokens(case), case.d2)
            return tuple(rotate(t, freqs) for t in tensors)

        return function


class Compiled(PyTorch):
    """The same with torch.compile: one kernel, which evaluates cos and sin for every element."""

    name = "torch.compile"
    measures = COMPILED

    def function(self, inputs: Inputs) -> Function:
        return compiled(super().function(inputs))


class CompiledCosAndSin(PyTorch):
    """With torch.compile, and cos and sin of each token, as in models."""

    name = "torch.compile, cos and sin"
    measures = COMPILED

    def function(self, inputs: Inputs) -> Function:
        case = inputs.case
        tables = inputs.cos_sin(inputs.x.dtype)
        cos, sin = (table.view(*along_tokens(case), case.d2) for table in tables)

        def rotated(t: Tensor) -> Tensor:
            if case.d2 == case.d:
                return rotate_by(t, cos, sin)
            return torch.cat((rotate_by(t[..., : case.d2], cos, sin), t[..., case.d2 :]), dim=-1)

        return compiled(lambda *tensors: tuple(rotated(t) for t in tensors))


class CompiledNorm(Provider):
    """One of two norms below and a rotation, with torch.compile and tables of their own."""

    functions = ("qk_norm_rope",)
    measures = COMPILED

    def __init__(self, name: str, draft: Callable[..., Tensor], dtype: torch.dtype) -> None:
        self.name, self.draft, self.dtype = name, draft, dtype  # of the tables

    def cannot(self, case: Case) -> str | None:
        if case.table != FP32_OF_PAIRS:
            return f"{NOT_ASKED} another table"
        return super().cannot(case)

    def function(self, inputs: Inputs) -> Function:
        case, draft = inputs.case, self.draft
        tables = inputs.cos_sin(self.dtype)
        cos, sin = (table.view(*along_tokens(case), case.d2) for table in tables)

        def both(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Results:
            return draft(q, q_weight, cos, sin), draft(k, k_weight, cos, sin)

        return compiled(both)


def compiled(function: Function) -> Function:
    """Compile a function with torch.compile, for each shape separately.

    `run.py` resets torch.compile before each case. Otherwise it would compile for dynamic shapes
    from the second one on, and stop compiling after the eighth. A backward runs several times, so
    it must keep its buffers.
    """
    functorch_config.donated_buffer = False
    return torch.compile(function, mode=MODE)


def along_tokens(case: Case) -> list[int]:
    """The shape, without its last dimension, with which a table of tokens broadcasts."""
    return [case.s if dim in "st" else 1 for dim in case.tensor_format[:-1]]


def rotate(t: Tensor, freqs: Tensor) -> Tensor:
    """The unfused function for half-split pairs; `freqs` broadcast to `t`."""
    cos, sin = freqs.cos().to(t.dtype), freqs.sin().to(t.dtype)
    d2 = freqs.shape[-1]
    rotary, tail = t[..., :d2], t[..., d2:]
    # Also with an empty tail, as in TransformerEngine's function: a copy that takes 69 of 886 us.
    return torch.cat((rotate_by(rotary, cos, sin), tail), dim=-1)


def rotate_by(rotary: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate whole rows by cosines and sines that broadcast to them."""
    first, second = rotary.chunk(2, dim=-1)
    return rotary * cos + torch.cat((-second, first), dim=-1) * sin


def rounded_once(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Compute in fp32, with a column of the tables for each pair, and round the result."""
    exact = x.float()
    row = weight * exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
    first, second = row.chunk(2, -1)
    cos, sin = cos.chunk(2, -1)[0], sin.chunk(2, -1)[0]
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.cat(turned, -1).to(x.dtype)


def rounded_often(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Round as Hugging Face's Qwen 3, with tables in the dtype of `x`."""
    exact = x.float()
    row = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
    return rotate_by(weight * row.to(x.dtype), cos, sin)


# Hugging Face


class HuggingFace(Provider):
    """Llama's eager function: new tensors by elementwise operators.

    `transformers.models.llama.modeling_llama.apply_rotary_pos_emb(q, k, cos, sin,
    unsqueeze_dim=1)` of transformers 5.23.0. cos and sin are as from `LlamaRotaryEmbedding`: a row
    per token, in the dtype of q.

    In a model, q and k are views of (b, s, h, d) memory, and attention returns gradients in this
    order or contiguous. A compiled backward copies a view first. So both orders are measured, the
    same for tensors and gradients, and the providers' names say which. A case in bhsd has an order
    of its own, and is measured once.
    """

    base_name = "Hugging Face"
    rotates_partly = packs = False
    takes_a_pair = True

    def __init__(self, memory: str = VIEWS) -> None:
        self.memory = memory
        self.name = self.base_name + (", contiguous" if memory == CONTIGUOUS else "")

    @property
    def origin(self) -> str:
        return f"transformers {version('transformers')}"

    def layout(self, case: Case) -> Layout:
        return as_models_have_them(case, self.memory)

    def cannot(self, case: Case) -> str | None:
        if case.tensor_format == "bhsd" and self.memory != VIEWS:
            return f"{NOT_ASKED} {self.base_name} itself here"
        return super().cannot(case)

    def function(self, inputs: Inputs) -> Function:
        cos, sin = inputs.cos_sin(inputs.x.dtype)
        apply = self.apply()
        return lambda q, k: tuple(apply(q, k, cos, sin))

    def apply(self) -> Function:
        """Import the project's function."""
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        return apply_rotary_pos_emb


class HuggingFaceCompiled(HuggingFace):
    """The same with torch.compile."""

    base_name = "Hugging Face, compiled"
    measures = COMPILED

    def apply(self) -> Function:
        return compiled(super().apply())


# In the order of the tables.
PROVIDERS: tuple[Provider, ...] = (
    *(Copy(), TimesTwo()),
    Ours(),
    Ours(ON_THE_FLY, lambda case: NO_TABLE),
    Ours(COS_AND_SIN, lambda case: TableKind(case.dtype)),
    RotationInPlace(ROTATION),
    *(PyTorch(), Compiled(), CompiledCosAndSin()),
    *(HuggingFace(), HuggingFace(CONTIGUOUS)),
    *(HuggingFaceCompiled(), HuggingFaceCompiled(CONTIGUOUS)),
    CompiledNorm("torch.compile, fp32", rounded_once, torch.float32),
    CompiledNorm("torch.compile, rounded often", rounded_often, torch.bfloat16),
)
