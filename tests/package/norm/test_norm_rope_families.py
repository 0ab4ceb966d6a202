"""`rounding` in norms: as the modules and functions of transformers 5.17, for each kind of norm.

Plain PyTorch has their bits. The kernel adds a row's squares in another order, so a few elements
differ, by one unit. Its gradients are computed in fp32 and rounded once, which is more exact than
the model's.
"""

from dataclasses import dataclass, field
from importlib import import_module

import pytest
import torch

from inputs import FORMATS
from ops import OPS
from pairwise import cover
from rope_kernels.norms import norm_rope, qk_norm_rope
from rope_lab.compiler.plans import plans_of

pytest.importorskip("transformers")
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
D, HEADS = 64, (4, 2)
(NORM_ROPE,) = (op for op in OPS if op.name == "norm_rope")


@dataclass(frozen=True)
class Family:
    """Where a model normalizes and rotates, and how our call says so."""

    module: str
    norm: str  # the class
    options: dict = field(default_factory=dict)  # of our call
    weight: bool = True
    one_by_one: bool = False  # the function takes one tensor


LAST = {"rounding": "model_cast_last"}
FAMILIES = {
    "qwen3": Family("qwen3", "Qwen3RMSNorm"),
    "gemma3": Family("gemma3", "Gemma3RMSNorm", {"weight_offset": 1.0}),
    "gemma3n": Family("gemma3n", "Gemma3nRMSNorm", LAST, one_by_one=True),
    "afmoe": Family("afmoe", "AfmoeRMSNorm", LAST),
    "hunyuan": Family("hunyuan_v1_dense", "HunYuanDenseV1RMSNorm", {"norm_after": True}),
    "nanochat": Family(
        "nanochat", "NanoChatRMSNorm", {"norm_after": True, "inverse": True}, weight=False
    ),
}
MODES = {  # of q and k, of weights, and of the table
    "bf16": (BF16, BF16, BF16),
    "fp16": (FP16, FP16, FP16),
    "autocast": (BF16, FP32, FP32),
    "fp32": (FP32, FP32, FP32),
}
each_family = pytest.mark.parametrize("family", FAMILIES)


class Problem:
    """q and k in bshd, their norms, a table, and the gradients that come back."""

    def __init__(self, family, mode, device):
        self.family = FAMILIES[family]
        self.modeling = import_module(
            f"transformers.models.{self.family.module}.modeling_{self.family.module}"
        )
        self.stored, weights, tables = MODES[mode]
        self.autocast = mode == "autocast"
        s = 16 if device == "cpu" else 2048

        def random(*shape):
            return torch.randn(shape, device=device)

        self.tensors = [random(2, s, h, D).to(self.stored).requires_grad_() for h in HEADS]
        self.grads = [random(2, s, h, D).to(self.stored) for h in HEADS]
        kind = getattr(self.modeling, self.family.norm)
        self.norms = [kind(D) if self.family.weight else kind() for _ in HEADS]
        self.norms = [norm.to(device, weights) for norm in self.norms]
        for norm in self.norms:
            for weight in norm.parameters():
                weight.data.copy_(weight + 0.3 * random(*weight.shape))
        inv_freq = 1e4 ** -(torch.arange(0, D, 2, device=device) / D)
        angle = torch.arange(s, device=device)[:, None] * inv_freq
        angle = torch.cat([angle, angle], -1)
        self.table = angle.cos().to(tables), angle.sin().to(tables)

    def model(self):
        """What the model's attention computes, in the dtype of q and k."""
        with torch.autocast(self.tensors[0].device.type, BF16, enabled=self.autocast):
            rows = list(self.tensors)
            if not self.family.options.get("norm_after"):
                rows = self._normalized(rows)
            rows = self._rotated(rows)
            if self.family.options.get("norm_after"):
                rows = self._normalized(rows)
        return [row.to(self.stored) for row in rows]

    def _normalized(self, rows):
        return [norm(row) for norm, row in zip(self.norms, rows, strict=True)]

    def _rotated(self, rows):
        rows, tables = [row.transpose(1, 2) for row in rows], [x[None] for x in self.table]
        if self.family.one_by_one:
            rows = [self.modeling.apply_rotary_pos_emb(row, *tables) for row in rows]
        else:
            rows = self.modeling.apply_rotary_pos_emb(*rows, *tables)
        return [row.transpose(1, 2) for row in rows]

    @property
    def weights(self):
        if not self.family.weight:
            return [None, None]
        return [norm.weight for norm in self.norms]

    def ours(self, **options):
        norm = self.norms[0]
        eps = getattr(norm, "variance_epsilon", None) or norm.eps
        options = {"rounding": "model", "eps": eps} | self.family.options | options
        return qk_norm_rope(*self.tensors, *self.weights, self.table, "bshd", **options)

    def gradients(self, outs):
        """Of q, k and the weights; the graph is kept."""
        leaves = [*self.tensors, *(x for norm in self.norms for x in norm.parameters())]
        return torch.autograd.grad(outs, leaves, self.grads, retain_graph=True)


MOST_OF_GRADIENTS = {BF16: 2**-7, FP16: 2**-10, FP32: 1e-5}


def assert_near(problem, gots, wants):
    """Gradients, by their norms: a model's own are rounded at every step to the dtype of q."""
    for got, want in zip(problem.gradients(gots), problem.gradients(wants), strict=True):
        assert got.dtype == want.dtype
        assert (got - want).norm() <= MOST_OF_GRADIENTS[problem.stored] * want.norm()


@pytest.mark.parametrize("mode", MODES)
@each_family
def test_plain_pytorch_has_the_models_bits(family, mode, device):
    """Gradients of q and k too, but where a root or a sum is differentiated otherwise."""
    problem = Problem(family, mode, device)
    wants, gots = problem.model(), problem.ours(fused=False)
    for got, want in zip(gots, wants, strict=True):
        assert got.dtype == want.dtype and torch.equal(got, want)
    assert_near(problem, gots, wants)
    if family != "gemma3n":
        gots, wants = problem.gradients(gots), problem.gradients(wants)
        assert all(map(torch.equal, gots[:2], wants[:2]))


def test_with_an_offset_the_weight_comes_before_the_cast(device):
    problem = Problem("gemma3", "fp16", device)
    for fused in (True, False):
        gots, wants = problem.ours(fused=fused), problem.ours(fused=fused, **LAST)
        assert all(map(torch.equal, gots, wants))


# What is rounded, and machine code

ROUNDED = (  # norm_after, rounding, dtypes of weight and table (FP16: that of t; None: a module)
    *((after, "model", FP16, table) for after in (False, True) for table in (FP16, FP32)),
    *((after, "model", FP32, table) for after in (False, True) for table in (FP16, FP32)),
    *((False, "model_cast_last", weight, FP16) for weight in (FP16, FP32)),
    (False, "model_cast_last", FP32, FP32),
    *((False, "model", weight, None) for weight in (FP16, FP32)),
    (True, "model_cast_last", FP32, None),
)


@cover(
    how=ROUNDED,
    dtype=(FP16, BF16),
    tensor_format=FORMATS,
    interleaved=(False, True),
    inverse=(False, True),
    weight_offset=(0.0, 1.0),
)
@pytest.mark.usefixtures("needs_triton")
def test_a_kernel_rounds_where_pytorch_does(
    how, dtype, tensor_format, interleaved, inverse, weight_offset, device
):
    """Every product, normal, cosine and sum, with a tail and tokens of no sequence."""
    norm_after, rounding, of_weight, of_table = how
    case = {"norm_after": norm_after, "weight": "fp32" if of_weight == FP32 else "row"}
    case |= {"dtype_of_cos": FP32 if of_table == FP32 else None, "weight_offset": weight_offset}
    case |= {"freqs": "cos and sin" if of_table else "on the fly", "tensor_format": tensor_format}
    case |= {"interleaved": interleaved, "inverse": inverse, "dtype": dtype}
    sample = NORM_ROPE.sample(device, **case, d=60, rotary=52, start="at 5")
    sample.more = {"rounding": rounding}
    (got,), (want,) = (sample.call(fused=fused) for fused in (True, False))
    own_cosines = of_table is None and torch.cuda.is_available()  # they differ by 5e-7
    assert (got != want).sum() <= (10 if own_cosines else 2)  # of 2700
    few = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(got, want, rtol=few, atol=few)


@pytest.mark.needs_compiler
@pytest.mark.parametrize(
    "rounding, table_dtype",
    (("once", BF16), ("model", BF16), ("model", FP32), ("model_cast_last", FP32)),
)
@pytest.mark.parametrize("norm_after", (False, True))
def test_no_multiply_add_is_fused_but_by_default(rounding, table_dtype, norm_after, needs_triton):
    """Nor by a backward that squares rows again which the forward had rounded."""
    t, weight = (torch.empty(x, dtype=BF16, requires_grad=True) for x in ((64, 2, 8, 128), 128))
    options = {"rounding": rounding, "norm_after": norm_after}
    cos = torch.empty(64, 128, dtype=table_dtype)
    forward, backward, _ = plans_of(norm_rope, t, weight, (cos, cos), "sbhd", **options)
    assert ("fma." in forward.compiled().stages["ptx"]) is (rounding == "once")
    rounded = norm_after and (rounding, table_dtype) == ("model", BF16)
    assert backward.options["enable_fp_fusion"] is not rounded
