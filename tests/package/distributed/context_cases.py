"""Context parallelism: a rank needs its positions and nothing else."""

import torch
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
