"""Installed providers: copies, `x * 2`, `rope_kernels`, PyTorch, Hugging Face transformers."""

from importlib.metadata import version

import torch
from torch import Tensor

from benchmarks.case import COS_AND_SIN, ON_THE_FLY, OURS, Case, Row
from benchmarks.provider import Function, Provider, Run
from benchmarks.workload import Layout, Workload, as_models_have_them, own_layout, rounded_error
from rope_kernels import apply_rotary_pos_emb, rope_bw, rope_qk

# By default, Inductor times two tiles of a pointwise kernel and keeps one, which isn't stable:
# Hugging Face's function took 42.5 us in one run and 36.6 us in the next (sbhd (4096, 2, 32, 128),
# H200, torch 2.11.0, 2026-11-27 and -28). This mode tries more tiles.
MODE = "max-autotune-no-cudagraphs"
COMPILED = f"the whole call, by torch.compile with mode {MODE}"
VIEWS, CONTIGUOUS = "bshd", "bhsd"  # the memory order of (b, h, s, d)


# limits


class Copy(Provider):
    """`copy_` between two contiguous buffers: reads and writes each element once.

    q and k are in one buffer.
    """

    name = "copy_"
    is_ours_or_a_limit = True

    def cannot(self, case: Case, direction: str) -> str | None:
        return "a limit of another clock" if case.clock == "host" else None

    def run(self, workload: Workload, function, direction: str) -> Run:
        out = torch.empty_like(workload.x)
        return Run(lambda: (out.copy_(workload.x),))

    def function(self, workload: Workload) -> None:
        return None


class TimesTwo(Provider):
    """`x * 2`: the smallest eager operation with the same bytes, for host time."""

    name = "x * 2"
    is_ours_or_a_limit = True

    def cannot(self, case: Case, direction: str) -> str | None:
        return None if case.clock == "host" else "a limit of another clock"

    def layout(self, case: Case) -> Layout:
        return Layout("bshd")

    def function(self, workload: Workload):
        return lambda *tensors: tuple(x * 2 for x in tensors)

    def run(self, workload: Workload, function, direction: str) -> Run:
        return Run(super().run(workload, function, direction).call)


# ours


class Ours(Provider):
    """`rope_kernels` with the case's layout and options, and the case's angles or others."""

    is_ours_or_a_limit = True

    def __init__(self, name: str, freqs: str = "") -> None:
        self.name = name
        self.freqs = freqs
        self.roundings = 3 if freqs == "cos and sin" else 1

    def cannot(self, case: Case, direction: str) -> str | None:
        if self.freqs == case.freqs:
            return "that is rope_kernels itself here"
        if self.freqs == "cos and sin" and case.tensor_format == "thd":
            return "cos and sin of each token come with dense batches"
        return None

    def allowed_error(self, case: Case) -> float:
        on_the_fly = (self.freqs or case.freqs) == "module"
        return rounded_error(case, self.roundings, exact_angles=on_the_fly)

    def layout(self, case: Case) -> Layout:
        return own_layout(case, pair=case.k_heads > 0)

    def overwrites(self, case: Case, direction: str) -> bool:
        return case.inplace and (direction == "forward" or not case.k_heads)

    def function(self, workload: Workload):
        case, arguments, options = workload.case, *self._arguments(workload)
        options["inplace"] = case.inplace
        if case.k_heads:
            return lambda q, k: rope_qk(q, k, *arguments, **options)
        return lambda t: (apply_rotary_pos_emb(t, *arguments, **options),)

    def gradient(self, workload: Workload):
        if workload.case.k_heads:
            return None
        arguments, options = self._arguments(workload)
        options["inplace"] = workload.case.inplace
        return lambda grad: (rope_bw(grad, *arguments, **options),)

    def _arguments(self, workload: Workload) -> tuple[tuple, dict]:
        case = workload.case
        kind = self.freqs or case.freqs
        options = {"interleaved": case.interleaved}
        if kind == "cos and sin":  # They have a row per token, so there are no positions.
            options["rotary_dim"] = case.d2
            return (workload.cos_sin(workload.x.dtype), case.tensor_format), options
        options |= {
            "cu_seqlens": workload.cu_seqlens,
            "start_positions": workload.starts,
            "position_ids": workload.ids,
        }
        freqs = workload.module if kind == "module" else workload.angles()
        return (freqs, case.tensor_format), options


# PyTorch


class PyTorch(Provider):
    """Eager PyTorch, as in notebook 00, in the case's own layout.

    As in TransformerEngine's unfused function, cos and sin of a table of angles are rounded to the
    tensors' dtype, and the rest is computed in it.
    """

    name = "PyTorch eager"

    def layout(self, case: Case) -> Layout:
        return own_layout(case)

    def function(self, workload: Workload) -> Function:
        case, angles = workload.case, workload.angles()[:, 0, 0]  # (s2, d2)
        packed, positions = case.tensor_format == "thd", workload.positions[0]

        def function(*tensors: Tensor) -> tuple[Tensor, ...]:
            rows = angles[positions] if packed else angles  # Sequences may change in each call.
            freqs = rows.view(*along_tokens(case), case.d2)
            return tuple(rotate(t, freqs) for t in tensors)

        return function


class Compiled(PyTorch):
    """The same with torch.compile: one kernel, which evaluates cos and sin for every element."""

    name = "torch.compile"
    measures = COMPILED

    def function(self, workload: Workload) -> Function:
        return compiled(super().function(workload))


class CompiledCosAndSin(PyTorch):
    """With torch.compile, and cos and sin of each token, as in models."""

    name = "torch.compile, cos and sin"
    measures = COMPILED

    def function(self, workload: Workload) -> Function:
        case = workload.case
        tables = workload.cos_sin(workload.x.dtype)
        cos, sin = (table.view(*along_tokens(case), case.d2) for table in tables)

        def rotated(t: Tensor) -> Tensor:
            if case.d2 == case.d:
                return rotate_by(t, cos, sin)
            return torch.cat((rotate_by(t[..., : case.d2], cos, sin), t[..., case.d2 :]), dim=-1)

        return compiled(lambda *tensors: tuple(rotated(t) for t in tensors))


def compiled(function: Function) -> Function:
    """Compile a function with torch.compile, for each shape separately.

    `measure.py` resets torch.compile before each shape. Otherwise it would compile for dynamic
    shapes from the second one on, and stop compiling after the eighth.
    """
    return torch.compile(function, mode=MODE)


def along_tokens(case: Case | Row) -> list[int]:
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

    def cannot(self, case: Case, direction: str) -> str | None:
        if case.tensor_format == "bhsd" and self.memory != VIEWS:
            return f"that is {self.base_name} itself here"
        return super().cannot(case, direction)

    def function(self, workload: Workload) -> Function:
        cos, sin = workload.cos_sin(workload.x.dtype)
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


PROVIDERS = (
    *(Copy(), TimesTwo()),
    *(Ours(OURS), Ours(ON_THE_FLY, "module"), Ours(COS_AND_SIN, "cos and sin")),
    *(PyTorch(), Compiled(), CompiledCosAndSin()),
    *(HuggingFace(), HuggingFace(CONTIGUOUS)),
    *(HuggingFaceCompiled(), HuggingFaceCompiled(CONTIGUOUS)),
)
