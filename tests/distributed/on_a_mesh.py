"""What cases on several ranks share: tensors cut by hand, and what is asserted of the results."""

from functools import cache, partial

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode


@cache
def mesh_of(device, *sizes):
    """A mesh of all ranks. Making one takes longer than most cases, so they share it."""
    names = ("tp",) if len(sizes) == 1 else ("dp", "tp")
    return init_device_mesh(device, sizes, mesh_dim_names=names)


def part_of(x, mesh, placements):
    """This rank's part, cut out of the whole tensor without any communication."""
    for i, placement in enumerate(placements):
        if isinstance(placement, Shard):
            parts = x.chunk(mesh.size(i), placement.dim)
            rank = mesh.get_local_rank(i)
            x = parts[rank] if rank < len(parts) else x.narrow(placement.dim, 0, 0)
    return x.clone(memory_format=torch.contiguous_format)


def placed(x, mesh, *placements, requires_grad=False):
    """A DTensor of a tensor that every rank has."""
    part, stride = part_of(x.detach(), mesh, placements), x.contiguous().stride()
    how = {"run_check": False, "shape": x.shape, "stride": stride}
    return DTensor.from_local(part, mesh, placements, **how).requires_grad_(requires_grad)


def on(tensor_format, letters):
    """Placements: what of a tensor each dimension of the mesh shards, by its letter in the format.

    '-' replicates; 's' means the tokens of packed sequences too.
    """
    tensor_format = tensor_format.replace("t", "s")
    return tuple(Replicate() if x == "-" else Shard(tensor_format.index(x)) for x in letters)


def assert_placed(got, want, placements):
    """The placements, shape and stride of a DTensor, and the bits of this rank's part."""
    assert_gradient(got, want, placements)
    assert got.stride() == want.contiguous().stride(), got.stride()


def assert_gradient(got, want, placements):
    """The same but for the stride: PyTorch's `to_local` gives gradients that of even shards."""
    assert isinstance(got, DTensor), type(got)
    assert got.placements == tuple(placements), got.placements
    assert got.shape == want.shape, got.shape
    mine = part_of(want.detach(), got.device_mesh, placements)
    assert torch.equal(got.detach().to_local(), mine)


def silently(call):
    """The result of a call that communicates nothing."""
    with CommDebugMode() as seen:
        result = call()
    assert seen.get_total_counts() == 0, seen.get_comm_counts()
    return result


def of_one_process(device, call):
    """The tensors that `call` returns. Triton's interpreter is slow: one rank computes for all."""
    if device != "cpu":
        return call()
    found = [None]
    if dist.get_rank() == 0:
        try:
            found = [call()]
        except Exception as error:  # every rank has to get something
            found = [error]
    dist.broadcast_object_list(found)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def both_ways(function, tensors, gradients):
    """Results, and the gradients of the tensors."""
    outs = function(*tensors)
    outs = outs if isinstance(outs, tuple) else (outs,)
    found = torch.autograd.grad(outs, tensors, gradients)
    return tuple(x.detach() for x in outs), found


def close(got, want):
    """Sums over rows come in another order than in one process."""
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def check_both_ways(run, rows, gradients, mesh, placements, weights=()):
    """Results and gradients of rows bit for bit; those of weights are shares of a sum. Silent.

    Returns the DTensors of rows and weights, and the results of one process.
    """
    leaves = [x.clone().requires_grad_() for x in (*rows, *weights)]
    alone = partial(both_ways, run, leaves, gradients)
    wanted, grads = of_one_process(mesh.device_type, alone)
    everywhere = [Replicate()] * mesh.ndim
    mine = [placed(x, mesh, *placements, requires_grad=True) for x in rows]
    mine += [placed(x, mesh, *everywhere, requires_grad=True) for x in weights]
    of_outs = [placed(x, mesh, *placements) for x in gradients]
    outs, found = silently(partial(both_ways, run, mine, of_outs))
    for got, want in zip(outs, wanted, strict=True):
        assert_placed(got, want, placements)
    n = len(rows)
    for got, want in zip(found[:n], grads[:n], strict=True):
        assert_gradient(got, want, placements)
    shares = tuple(x if x.is_replicate() else Partial() for x in placements)
    for got, want in zip(found[n:], grads[n:], strict=True):
        assert got.placements == shares
        close(got.full_tensor(), want)
    return mine, wanted
