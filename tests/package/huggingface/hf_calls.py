"""Calls of every rotation function in transformers, random, built from its own signature."""

import importlib.metadata
import re
from dataclasses import dataclass
from functools import cache
from inspect import signature
from itertools import product
from pathlib import Path

import pytest
import torch

from ops import strides_of
from rope_kernels.huggingface.replacement import function_of

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
NAME = re.compile(r"^def (apply_rotary_pos_emb(?:_interleave|_vision)?)\(", re.M)
# Families with a function that stays the model's own
LEFT = {"clvp", "codegen", "dinov3_vit", "eomt_dinov3", "gptj", "minimax_m3_vl", "sapiens2"}
LEFT |= {"muse_glimmer_assistant", "pe_audio", "pe_audio_video", "pe_video"}


@dataclass(frozen=True)
class Function:
    """A function of a modeling module."""

    family: str
    name: str

    @property
    def module(self):
        stem = f"transformers.models.{self.family}.modeling_{self.family}"
        return importlib.import_module(stem)

    @property
    def itself(self):
        """The Python function, of which transformers makes a module where kernels is installed."""
        return function_of(vars(self.module)[self.name])


@cache
def every_function():
    """All that the installed transformers has, by the text of its files."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    root = Path(transformers.__file__).parent / "models"
    found = []
    for path in sorted(root.glob("*/modeling_*.py")):
        for name in NAME.findall(path.read_text(encoding="utf-8")):
            found.append(Function(path.parent.name, name))
            assert path.stem == f"modeling_{path.parent.name}"
    return found


def version():
    """Of the installed transformers."""
    return ".".join(importlib.metadata.version("transformers").split(".")[:2])


@dataclass(frozen=True)
class Sizes:
    b: int = 2
    s: int = 5
    q_heads: int = 3
    k_heads: int = 1
    d: int = 12


# What a table may be: its dimensions, those of q, and where `unsqueeze` puts a new one
LAYOUTS = {
    "(b, s, w) for (b, h, s, d)": ("bsw", "bhsd", 1),
    "(b, s, w) for (b, s, h, d)": ("bsw", "bshd", 2),
    "(1, s, w) for (b, h, s, d)": ("1sw", "bhsd", 1),
    "(1, s, w), counted from the end": ("1sw", "bshd", -2),
    "(s, w) for (b, h, s, d)": ("sw", "bhsd", 0),
    "(s, w) for (b, s, h, d)": ("sw", "bshd", 1),
    "(s, w) for (s, h, d)": ("sw", "shd", 1),
    "(b, s, w) at 0, where b is 1 or nothing fits": ("bsw", "bhsd", 0),
}
DTYPES = {  # of the tensors, and of the table
    "bf16": (BF16, BF16),
    "fp16": (FP16, FP16),
    "fp32": (FP32, FP32),
    "bf16, table in fp32": (BF16, FP32),
    "fp16, table in fp32": (FP16, FP32),
    "fp32, table in bf16": (FP32, BF16),
}
WIDTHS = (1 / 3, 1 / 2, 2 / 3, 1)  # of a table, as a share of d


@dataclass(frozen=True)
class Call:
    """One call: which layout, how wide a table, which dtypes."""

    layout: str
    width: float
    dtypes: str
    sizes: Sizes = Sizes()

    def call_of(self, function, device):
        """The keywords of a call, and the tensors that get gradients."""
        dtype, in_table = DTYPES[self.dtypes]
        table, of_q, unsqueeze_dim = LAYOUTS[self.layout]
        sizes = self.sizes
        count = {"b": sizes.b, "s": sizes.s, "d": sizes.d, "1": 1}
        count["w"] = 2 * round(self.width * sizes.d / 2)
        rows = torch.randn([count[x] for x in table], device=device) * 3
        parameters = signature(function).parameters
        call = {"cos": rows.cos().to(in_table), "sin": rows.sin().to(in_table)}
        for name in ("q", "k", "x"):
            if name in parameters:
                heads = sizes.k_heads if name == "k" else sizes.q_heads
                shape = [(count | {"h": heads})[x] for x in of_q]
                call[name] = _random(shape, table == "bsw" and of_q == "bhsd", dtype, device)
        if "unsqueeze_dim" in parameters:
            call["unsqueeze_dim"] = unsqueeze_dim
        return call


def _random(shape, transposed, dtype, device):
    """Elements in the order of the shape, or as in most models, where heads were the third."""
    if transposed:
        b, h, s, d = shape
        x = torch.randn(b, s, h, d, device=device).to(dtype).transpose(1, 2)
    else:
        x = torch.randn(shape, device=device).to(dtype)
    return x.requires_grad_()


def _rotated(call):
    return [call[name] for name in ("q", "k", "x") if call.get(name) is not None]


def cases(layouts=tuple(LAYOUTS), dtypes=tuple(DTYPES), sizes=Sizes()):
    return [Call(*case, sizes) for case in product(layouts, WIDTHS, dtypes)]


def outcome(function, call, seed=0):
    """What a call returns and its gradients; or the class of the error."""
    asked = [x for x in call.values() if isinstance(x, torch.Tensor) and x.requires_grad]
    try:
        outs = function(**call)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
        return "an error"
    outs = (outs,) if isinstance(outs, torch.Tensor) else outs
    rotated = [x for x in outs if x is not None]
    generator = torch.Generator(outs[0].device).manual_seed(seed)
    shapes = [(x.shape, x.dtype, x.device) for x in rotated]
    grads = [
        torch.randn(shape, generator=generator, device=device).to(dtype)
        for shape, dtype, device in shapes
    ]
    if not asked[0].is_contiguous():  # An attention's gradients have the memory order of q.
        grads = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in grads]
    return *outs, *torch.autograd.grad(rotated, asked, grads)


def differs(got, wanted, call=None):
    """What two outcomes differ in; None: they have the same bits.

    With the call, they also have the same strides, but results may have those of what is rotated.
    """
    if isinstance(got, str) or isinstance(wanted, str):
        return None if got is wanted else f"{got} / {wanted}"
    for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if one is other is None:
            continue
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{number}: {one.dtype} {one.shape}, wanted {other.dtype} {other.shape}"
        if call is not None:
            alike = [other, *_rotated(call)[number : number + 1]]
            if strides_of(one) not in [strides_of(torch.empty_like(x)) for x in alike]:
                return f"{number}: strides {one.stride()}, wanted {other.stride()} of {one.shape}"
        if not torch.equal(one, other):
            return f"{number}: {(one != other).float().mean().item():.2%} differ"
    return None
