"""Context parallelism, where a rank needs its positions and nothing else; data parallelism."""

import copy

import torch
from torch import nn
from torch.distributed.tensor.experimental import context_parallel

from on_a_mesh import Cases, mesh_of
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, cp_positions

D = 8
CASES = Cases()


@CASES.for_each(("position_ids", "cp_size and cp_rank"))
def context_parallel_of_torch(how, device):
    """`position_ids` are one of its buffers, so they are cut as everything else is."""
    mesh = mesh_of(device, 2)
    q, freqs = torch.randn(2, 8, 4, D, device=device), RotaryPositionEmbedding(D).to(device)
    whole = apply_rotary_pos_emb(q, freqs, "bshd")
    ids, mine = torch.arange(8, device=device)[None].clone(), q.clone()
    rank = {"cp_size": 2, "cp_rank": mesh.get_local_rank()}
    with context_parallel(mesh, buffers=[mine, ids], buffer_seq_dims=[1, 1]):
        options = {"position_ids": ids} if how == "position_ids" else rank
        out = apply_rotary_pos_emb(mine, freqs, "bshd", **options)
        assert torch.equal(ids[0], cp_positions(8, **rank, device=device))
        assert torch.equal(out, whole[:, ids[0]])


class Layer(nn.Module):
    """A projection and its rotation."""

    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(D, D, bias=False)
        self.rope = RotaryPositionEmbedding(D)

    def forward(self, x):
        return apply_rotary_pos_emb(self.projection(x), self.rope, "bshd")


@CASES.for_each()
def two_forwards_of_data_parallelism(device):
    """Before one backward. Each forward writes the frequencies of rank 0 to the buffers."""
    layer = Layer().to(device)
    first, second = torch.randn(2, 2, 3, 4, D, device=device)
    parallel = nn.parallel.DistributedDataParallel(layer)
    layer.rope.inv_freq.mul_(1 + torch.distributed.get_rank())
    (parallel(first) * parallel(second)).sum().backward()
    alone = copy.deepcopy(layer)
    alone.zero_grad()
    alone.rope.inv_freq.copy_(RotaryPositionEmbedding(D).inv_freq)
    (alone(first) * alone(second)).sum().backward()
    torch.testing.assert_close(layer.projection.weight.grad, alone.projection.weight.grad)
