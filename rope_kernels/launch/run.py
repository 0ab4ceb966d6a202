"""From a plan to a launch, through Triton's JIT. The only file that finds a kernel by its name."""

from importlib import import_module

from torch import Tensor

from .plan import Plan


def kernel_of(plan: Plan):
    """The Triton kernel that a plan names. Each has a file of its own, of the same name."""
    # the first launch loads Triton, and its own kernel's file, not the import of the package
    return getattr(import_module(f"..kernels.{plan.kernel}", __package__), plan.kernel)


def options_of(plan: Plan) -> dict[str, int | bool]:
    """Options of the compiler. Fusion, which decides last bits, is never left to its default."""
    options = {"num_warps": plan.num_warps, "enable_fp_fusion": plan.fp_fusion}
    return options if plan.max_registers is None else options | {"maxnreg": plan.max_registers}


def run(plan: Plan, tensors: tuple[Tensor | None, ...]):
    """Launch a plan through Triton's JIT, which compiles what is new; return what it compiled."""
    constants = plan.blocks | plan.flags | options_of(plan)
    kernel = kernel_of(plan)
    return kernel[(plan.programs,)](*tensors, **plan.sizes, **plan.strides, **constants)
