"""The tensors of a case that normalizes and rotates q and k: two weights beside them."""

from functools import cached_property

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.workload import Errors, Layout, Workload
from rope_kernels import qk_norm_rope

EPS = 1e-6
LARGEST_ERROR = 2e-2  # norm of the difference over the norm: bf16, rounded several times


class NormWorkload(Workload):
    """Results are q and k forward; backward the gradients of q, k and their weights."""

    def __init__(self, case: Case, device: str = "cuda") -> None:
        super().__init__(case, device)
        generator = torch.Generator(device).manual_seed(20261121)
        options = {"device": device, "generator": generator}
        self.layout = Layout(case.tensor_format, pair=True)
        self.weights = tuple(
            (torch.rand(case.d, **options) + 0.5).to(self.x.dtype) for _ in range(2)
        )

    @property
    def packed(self) -> dict[str, Tensor]:
        """The options of our functions that say where packed sequences start."""
        return {} if self.cu_seqlens is None else {"cu_seqlens": self.cu_seqlens}

    def leaves(self) -> tuple[Tensor, ...]:
        """Fresh q, k, and their weights."""
        tensors = self.take(self.x, self.layout)
        weights = (weight.clone() for weight in self.weights)
        return tuple(t.requires_grad_() for t in (*tensors, *weights))

    def grads(self) -> tuple[Tensor, ...]:
        """Of the results."""
        return self.take(self.grad, self.layout)

    def errors(self, results: tuple[Tensor, ...], layout: Layout, direction: str) -> Errors:
        """How far results are from fp64: the worst of them.

        Raises:
            ValueError: the results have other shapes than they should.
        """
        wanted = self._wanted[direction]
        shapes = [tuple(result.shape) for result in results]
        if shapes != [tuple(want.shape) for want in wanted]:
            raise ValueError(f"results have shapes {shapes}")
        differences = [x.detach().double() - want for x, want in zip(results, wanted, strict=True)]
        relative = [d.norm() / want.norm() for d, want in zip(differences, wanted, strict=True)]
        largest = [difference.abs().max() for difference in differences]
        # torch's maximum keeps a NaN, Python's may lose it
        return Errors(float(torch.stack(relative).max()), float(torch.stack(largest).max()))

    @cached_property
    def _wanted(self) -> dict[str, tuple[Tensor, ...]]:
        """Results and gradients in fp64, by the definition."""
        leaves = [x.detach().double().requires_grad_() for x in self.leaves()]
        arguments = *leaves, self.module, self.case.tensor_format
        outs = qk_norm_rope(*arguments, eps=EPS, fused=False, **self.packed)
        grads = torch.autograd.grad(outs, leaves, [grad.double() for grad in self.grads()])
        return {"forward": tuple(out.detach() for out in outs), "backward": grads}
