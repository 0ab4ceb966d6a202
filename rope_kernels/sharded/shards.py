"""From DTensors to the tensors of this rank, and back.

What `torch.distributed.tensor.experimental.local_map` does, but results keep the true shape and
stride where shards are uneven.
"""

from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor

from .placements import Placements, Sharding


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
    return DTensor.from_local(shard, t.device_mesh, t.placements, **how)
