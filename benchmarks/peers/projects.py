"""Other projects' rotations, built from a few of their source files.

Triton kernels are imported from a single file. CUDA kernels are compiled with our launcher.
"""

import contextlib
from ctypes import CDLL
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from benchmarks.case import BASE, FP32_OF_PAIRS, Case, TableKind
from benchmarks.inputs import Inputs, Layout, as_models_have_them
from benchmarks.peers.code import DTYPE_CODES, HERE, build, call, import_file
from benchmarks.peers.sources import Source, download
from benchmarks.providers import Provider


class FromSources(Provider):
    """A project's RoPE without its package. `prepare` compiles or imports it."""

    source: Source
    dtypes = ("float16", "bfloat16", "float32")

    @property
    def origin(self) -> str:
        return f"[{self.source.revision}]({self.source.repository})"

    def cannot(self, case: Case) -> str | None:
        """As others. Host time isn't measured, because users don't call it by our launcher."""
        if case.clock == "host":
            return "no host time: it is called by our launcher"
        return super().cannot(case)

    def prepare(self) -> None:
        """Import or compile its files.

        Raises:
            FileNotFoundError: files are missing.
            Exception: of any other type, if this fails.
        """
        if missing := self.source.missing():
            raise FileNotFoundError(f"not unpacked: {', '.join(missing)}")
        self.code  # noqa: B018

    @cached_property
    def code(self) -> ModuleType | CDLL:
        """Its functions. They are loaded once."""
        return self.load()

    def load(self) -> ModuleType | CDLL:
        """Import its only file. Subclasses compile instead."""
        (file,) = self.source.files
        name = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
        return import_file(self.source.folder / file, name, self.stand_ins())

    def stand_ins(self) -> dict[str, dict]:
        """Modules of its package that the file imports, with the attributes that it needs."""
        return {}


class FromCuda(FromSources):
    """CUDA kernels, compiled with our launcher."""

    launcher: str  # a file in peers/launchers
    stubs = ""  # a folder in peers/stubs, with headers that replace the project's dependencies
    folders: tuple[str, ...]  # the project's folders with headers
    includes_torch = False  # whether it needs PyTorch's headers, too
    flags: tuple[str, ...] = ()  # those of its own build that change code
    measures = "its kernel, launched by its own host code"

    @property
    def built_with(self) -> str:
        return " ".join(("-O3", *self.flags))

    def load(self) -> CDLL:
        include = [HERE / "stubs" / self.stubs] if self.stubs else []
        include += [self.source.folder / folder for folder in self.folders]
        if self.includes_torch:
            include.append(Path(torch.__file__).parent / "include")
        return build(self.launcher, include, self.flags)


def _of_pairs(case: Case) -> TableKind:
    """cos and sin with a column per pair, in the tensors' dtype."""
    return TableKind(case.dtype, of_pairs=True)


class FlashAttention(FromSources):
    """`apply_rotary`, in bshd or thd: one tensor per call, and a new result.

    cos and sin have a column per pair, in the tensor's dtype. The project's autograd function calls
    it with `conjugate=True` in the backward.
    """

    name = "FlashAttention"
    source = Source(
        "FlashAttention",
        "https://github.com/Dao-AILab/flash-attention",
        "commit 0251105a2fb19d2957484b7f023cd8c115286ced",
        {"flash_attn/ops/triton/rotary.py": "ff4017fda3e4a6e18cf3a51b34f0fb073d8f678a"},
    )
    measures = "its function apply_rotary"

    def layout(self, case: Case) -> Layout:
        return Layout("thd" if case.tensor_format == "thd" else "bshd")

    def cannot(self, case: Case) -> str | None:
        if case.d > 256:
            return "head dimensions up to 256"
        return super().cannot(case)

    def function(self, inputs: Inputs):
        return self._rotation(inputs, conjugate=False)

    def gradient(self, inputs: Inputs):
        return self._rotation(inputs, conjugate=True)

    def _rotation(self, inputs: Inputs, **options):
        cos, sin = (x.contiguous() for x in inputs.table(_of_pairs(inputs.case)))
        apply = self.code.apply_rotary
        if inputs.cu_seqlens is not None:
            options["cu_seqlens"] = inputs.cu_seqlens
            options["max_seqlen"] = inputs.case.table_len
        return lambda *tensors: tuple(apply(t, cos, sin, **options) for t in tensors)


class FlashInfer(FromCuda):
    """`BatchQKApplyRotaryPosIdsCosSinCache`, a kernel for serving, with an fp32 table.

    q and k together, in place, which is faster than new results. Tokens have one dimension, and
    each has a position. The project's build (`flashinfer/jit/core.py`) uses -use_fast_math.
    """

    name = "flashinfer"
    source = Source(
        "flashinfer",
        "https://github.com/flashinfer-ai/flashinfer",
        "release 0.7.2.post1, commit beabf5004585b03da60e927bbb803acbaa62fe36",
        {
            "include/flashinfer/pos_enc.cuh": "87664f4cdb0afac7c8ba39b0102bed72155c26c6",
            "include/flashinfer/layout.cuh": "aeaf26b580c753293773b0c73d45a3badacee720",
            "include/flashinfer/math.cuh": "f06ae0feb9ab8c87857728f103f1559d4fd466f6",
            "include/flashinfer/page.cuh": "4e4d490cc824e4009f234b6a05f363eb375a907a",
            "include/flashinfer/utils.cuh": "9f78fd05c0b6ad58663c0fd86f27c73d40b07160",
            "include/flashinfer/vec_dtypes.cuh": "d0cfa148e12448c1f1311b01f485a0fa6b003a8c",
            "include/flashinfer/exception.h": "aaaa2b5b3e51d6274cb97087c346d69ffa6a8683",
        },
    )
    launcher, stubs, folders = "flashinfer", "flashinfer", ("include",)
    flags = "-use_fast_math", "-DNDEBUG"
    dtypes = ("bfloat16",)  # of the launcher; the project also supports fp16
    rotates_partly = False  # not supported by the launcher
    has_backward = False
    takes_a_pair = True

    def layout(self, case: Case) -> Layout:
        return Layout("thd", pair=True)

    def overwrites(self, case: Case) -> bool:
        return True

    def function(self, inputs: Inputs):
        positions = inputs.token_positions().to(torch.int32)
        return partial(self.rotate, positions, self.table(inputs))

    def table(self, inputs: Inputs) -> Tensor | None:
        """cos and sin side by side; None: no table."""
        return torch.cat(inputs.table(FP32_OF_PAIRS), dim=-1)

    def rotate(
        self, positions: Tensor, table: Tensor | None, q: Tensor, k: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rotate q and k in place."""
        sizes = len(positions), q.shape[-2], k.shape[-2], q.shape[-1]
        if table is None:
            call(self.code.rotate_on_the_fly, q, k, q, k, positions, *sizes, BASE)
        else:
            call(self.code.rotate_by_cache, q, k, q, k, table, positions, *sizes)
        return q, k


class FlashInferOnTheFly(FlashInfer):
    """`BatchQKApplyRotaryPosIds`: fp32 angles and the hardware's sine, without a table."""

    name = "flashinfer, on the fly"

    def table(self, inputs: Inputs) -> None:
        return None


class Liger(FromSources):
    """`rope_forward` and `rope_backward`, which its autograd function calls.

    They overwrite q and k, or the gradients, if their memory is (b, s, h, d), and otherwise copies.
    cos and sin have a row per token in the dtype of q, as in Hugging Face's models.
    """

    name = "Liger-Kernel"
    source = Source(
        "Liger-Kernel",
        "https://github.com/linkedin/Liger-Kernel",
        "release 0.8.5",
        {"src/liger_kernel/ops/rope.py": "4a650eae3bc86f100b831b324a4f0812fff87cdc"},
    )
    measures = "its functions rope_forward and rope_backward"
    packs = rotates_partly = False
    takes_a_pair = True

    def layout(self, case: Case) -> Layout:
        return as_models_have_them(case)

    def overwrites(self, case: Case) -> bool:
        return self.layout(case).memory == "bshd"

    def function(self, inputs: Inputs):
        cos, sin = inputs.cos_sin(inputs.x.dtype)
        return lambda q, k: self.code.rope_forward(q, k, cos, sin)[:2]

    def gradient(self, inputs: Inputs):
        cos, sin = inputs.cos_sin(inputs.x.dtype)
        return lambda dq, dk: self.code.rope_backward(dq, dk, cos, sin)[:2]


_TE_FORMATS = {"sbhd": 0, "bshd": 1, "thd": 2}  # NVTE_QKV_Format of our stub


class TransformerEngine(FromCuda):
    """`nvte_fused_rope_forward` and `nvte_fused_rope_backward`, in bshd or packed.

    One tensor per call, and a new contiguous result, with the arguments of
    `transformer_engine/pytorch/csrc/extensions/apply_rope.cpp`: fp32 angles (s, 1, 1, d). The
    project's build uses -O3 without fast math.
    """

    name = "TransformerEngine"
    source = Source(
        "TransformerEngine",
        "https://github.com/NVIDIA/TransformerEngine",
        "commit d0067d0da6cb01811b8072a7d304f0e00344ce2b",
        {
            "transformer_engine/common/fused_rope/fused_rope.cu": (
                "c7b762e9731d68f67fde71bd9c4f08b1d1c6e900"
            )
        },
    )
    launcher = "transformer_engine"
    stubs = "transformer_engine/fused_rope"  # for its include of "../common.h"
    folders = ("transformer_engine/common/fused_rope",)

    def layout(self, case: Case) -> Layout:
        return Layout("thd" if case.tensor_format == "thd" else "bshd")  # faster than sbhd

    def function(self, inputs: Inputs):
        return self._rotation(inputs, backward=False)

    def gradient(self, inputs: Inputs):
        return self._rotation(inputs, backward=True)

    def _rotation(self, inputs: Inputs, backward: bool):
        case, rotate = inputs.case, self.code.rotate
        angles, cuts = inputs.angles(), inputs.cu_seqlens
        order = self.layout(case).tensor_format
        s, b = (case.s, case.b) if cuts is None else (case.table_len, len(cuts) - 1)

        def rotation(*tensors: Tensor) -> tuple[Tensor, ...]:
            return tuple(rotated(t) for t in tensors)

        def rotated(t: Tensor) -> Tensor:
            out = torch.empty_like(t, memory_format=torch.contiguous_format)
            strides = [t.stride(order.index(dim)) if dim in order else 0 for dim in "sbhd"]
            strides[0] = t.stride(0) if order == "thd" else strides[0]
            sizes = s, b, t.shape[-2], case.d, angles.shape[-1]
            pointers = t, cuts, angles, out
            formats = DTYPE_CODES[t.dtype], _TE_FORMATS[order]
            call(rotate, int(backward), *pointers, *formats, *sizes, *strides, t.shape[0])
            return out

        return rotation


class Unsloth(FromSources):
    """`Fast_RoPE_Embedding`, its autograd function for one tensor (b, s, h, d).

    It works in place, but gradients are new tensors. cos and sin are (s, d), in the dtype of the
    tensor. The public function uses the same kernel for q and k in one launch.
    """

    name = "Unsloth"
    source = Source(
        "Unsloth",
        "https://github.com/unslothai/unsloth",
        "release 2026.10.9",
        {"unsloth/kernels/rope_embedding.py": "dc5f3962688a113811bdeef02c501141b0b6e899"},
    )
    measures = "its autograd function"
    rotates_partly = packs = False

    def layout(self, case: Case) -> Layout:
        return Layout("bshd")

    def overwrites(self, case: Case) -> bool:
        return case.direction == "forward"

    def stand_ins(self) -> dict[str, dict]:
        import triton

        return {
            "unsloth.device_type": {"DEVICE_COUNT": 1, "DEVICE_TYPE_TORCH": "cuda"},
            "unsloth.kernels.utils": {
                "long_indexing": lambda *tensors, **_: any(t.numel() >= 2**31 for t in tensors),
                "next_power_of_2": triton.next_power_of_2,
                "torch_gpu_device": lambda device: contextlib.nullcontext(),  # one GPU
                "torch_device_stream": lambda device: torch.cuda.current_stream(device),
            },
            "unsloth.kernels.rms_layernorm": {  # switches its tracing for torch.compile off
                **{"_TRACEABLE": False, "_BF16_TRACEABLE": False, "_traced_kernel": None},
                **{"_tag_compile_cache": None, "_eager_kernel": lambda kernel: kernel},
            },
        }

    def function(self, inputs: Inputs):
        cos, sin = (torch.cat((x, x), dim=-1) for x in inputs.table(_of_pairs(inputs.case)))
        apply = self.code.Fast_RoPE_Embedding.apply
        return lambda *tensors: tuple(apply(t, cos, sin) for t in tensors)


class Vllm(FromCuda):
    """`rotary_embedding`, a kernel for serving, in place.

    Tokens have one dimension, and each has an int64 position. The table is that of the project's
    `RotaryEmbedding`: cos and sin side by side, in the dtype of the tensors. k is optional. A block
    rotates q and then k of a token, so one tensor with all heads is measured separately from q and
    k.
    """

    name = "vLLM"
    source = Source(
        "vLLM",
        "https://github.com/vllm-project/vllm",
        "release 0.33.0, commit 4ba787ec9",
        {"csrc/pos_encoding_kernels.cu": "bad616fc8748b343cfd59cc0933872a9f042e1ea"},
    )
    launcher, stubs, folders = "vllm", "vllm", ("csrc",)
    includes_torch = True  # for its bfloat16
    rotates_partly = False  # not supported by the launcher
    has_backward = False

    def layout(self, case: Case) -> Layout:
        return Layout("thd")

    def overwrites(self, case: Case) -> bool:
        return True

    def function(self, inputs: Inputs):
        table = torch.cat(inputs.table(_of_pairs(inputs.case)), dim=-1)
        return partial(self.rotate, inputs.token_positions(), table)

    def rotate(
        self, positions: Tensor, table: Tensor, q: Tensor, k: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Rotate q, and k if it is passed, in place."""
        k_heads = 0 if k is None else k.shape[-2]
        sizes = len(positions), q.shape[-2], k_heads, q.shape[-1], len(table)
        dtype = DTYPE_CODES[q.dtype]
        call(self.code.rotate_in_place, positions, q, k, table, dtype, *sizes)
        return (q,) if k is None else (q, k)


class VllmPair(Vllm):
    """Half of the heads are q, the others k."""

    name = "vLLM, q and k"
    takes_a_pair = True

    def layout(self, case: Case) -> Layout:
        return Layout("thd", pair=True)


PROVIDERS = (
    FlashAttention(),
    *(FlashInfer(), FlashInferOnTheFly()),
    Liger(),
    TransformerEngine(),
    Unsloth(),
    *(Vllm(), VllmPair()),
)


def download_sources() -> int:
    """The command `sources`."""
    return download({p.source.name: p.source for p in PROVIDERS}.values())
