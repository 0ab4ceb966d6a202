"""TransformerEngine: its CUDA kernel.

`transformer_engine.pytorch.attention.rope.apply_rotary_pos_emb(t, freqs, tensor_format, ...)`, by
keywords, as in 2.20.2; older ones keep it in other modules. This adapter has never run with the
package: it was not to be had where this was written. A stand-in with the same signature tests it.
"""

import importlib

from benchmarks.case import Case
from benchmarks.providers.base import Provider
from benchmarks.workload import Layout, Workload

_MODULES = ("attention.rope", "dot_product_attention.rope", "attention")


class TransformerEngine(Provider):
    """fp32 angles; one tensor a call; sbhd where the case's layout is none of its own."""

    name = "TransformerEngine"
    package, distribution = "transformer_engine", "transformer-engine"
    ids = False
    dtypes = ("float16", "bfloat16", "float32")

    def layout(self, case: Case) -> Layout:
        if case.tensor_format == "bhsd":
            return Layout("sbhd")
        return Layout(case.tensor_format, case.stored)

    def function(self, workload: Workload):
        apply = _find()
        options = {
            "tensor_format": self.layout(workload.case).tensor_format,
            "start_positions": workload.starts,
            "interleaved": workload.case.interleaved,
            "cu_seqlens": workload.cu_seqlens,
            "fused": True,
        }
        options = {name: value for name, value in options.items() if value is not None}
        angles = workload.angles()
        return lambda *tensors: tuple(apply(t, angles, **options) for t in tensors)


def _find():
    for name in _MODULES:
        try:
            module = importlib.import_module(f"transformer_engine.pytorch.{name}")
            return module.apply_rotary_pos_emb
        except (ModuleNotFoundError, AttributeError):
            continue
    raise ImportError(f"no apply_rotary_pos_emb in transformer_engine.pytorch's {_MODULES}")
