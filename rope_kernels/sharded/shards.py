"""From DTensors to the tensors of this rank, and back.

What `torch.distributed.tensor.experimental.local_map` does, but results keep the true shape and
stride where shards are uneven.
"""

from functools import partial

import torch
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor

from ..call.checks import bad
from ..machine.modes import is_traced
from .placements import Placements, Sharding

# Before torch 2.12 `to_local` loses the history of gradients, silently.
HAS_SECOND_DERIVATIVES = torch.__version__ >= (2, 12)


def shard_of(x: Tensor, grad_placements: Placements | None = None) -> Tensor:
    """This rank's part of a DTensor, or the plain tensor itself.

    Its gradient becomes a DTensor with `grad_placements`; None: with those of `x`.
    """
    if not isinstance(x, DTensor):
        return x
    if isinstance(x._local_tensor, AsyncCollectiveTensor):
        x._local_tensor = x._local_tensor.wait()  # a kernel sees no pending communication
    return x.to_local(grad_placements=grad_placements)


def whole_of(shard: Tensor, sharding: Sharding) -> DTensor:
    """The DTensor of every rank's contiguous results, with the shape and placements of the input.

    Nothing is checked, because that would communicate.
    """
    t, stride, step = sharding.t, [], 1
    for n in reversed(t.shape):
        stride.insert(0, step)
        step *= max(n, 1)
    how = {"run_check": False, "shape": t.shape, "stride": tuple(stride)}
    whole = DTensor.from_local(shard, t.device_mesh, t.placements, **how)
    if not is_traced() and whole.requires_grad:
        whole.register_hook(partial(_keep_history, placements=t.placements))
    return whole


def _keep_history(grad: DTensor, placements: Placements) -> DTensor:
    """A result's gradient with its placements; `from_local` loses the history of any others.

    Raises:
        RuntimeError: create_graph=True, where a second derivative would be wrong.
    """
    if not torch.is_grad_enabled():  # create_graph=False: there is none
        return grad
    if not HAS_SECOND_DERIVATIVES:
        came = f"create_graph is True in a backward of DTensors, with torch {torch.__version__}"
        raise bad(came, "torch 2.12 or newer; or plain tensors", RuntimeError)
    return grad if grad.placements == placements else grad.redistribute(placements=placements)
