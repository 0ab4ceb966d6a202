"""Context parallelism: a rank needs its positions and nothing else."""

import torch
import torch.distributed as dist
from torch.distributed.tensor.experimental import context_parallel

from on_a_mesh import Cases, mesh_of, silently
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


@CASES.for_each(("zigzag", "contiguous", "round_robin"), (False, True))
def ranks_of_context_parallelism(cp_order, packed, device):
    """Bit for bit what one process has, gathered from both ranks."""
    group = dist.group.WORLD
    rank = {"cp_size": 2, "cp_rank": dist.get_rank(group), "cp_order": cp_order}
    freqs = RotaryPositionEmbedding(D).to(device)
    if packed:
        cu_seqlens = torch.tensor([0, 8, 8, 12], device=device)
        where = {"tensor_format": "thd", "cu_seqlens": cu_seqlens}
        q, first = torch.randn(12, 4, D, device=device), [0] * 4 + [8] * 2
        mine = cp_positions(cu_seqlens=cu_seqlens, **rank)
        mine = mine + torch.tensor(first, device=device)
    else:
        where, q = {"tensor_format": "sbhd"}, torch.randn(12, 2, 4, D, device=device)
        mine = cp_positions(12, **rank, device=device)
    whole = apply_rotary_pos_emb(q, freqs, **where)
    out = silently(lambda: apply_rotary_pos_emb(q[mine], freqs, **where, **rank))
    parts, places = ([torch.empty_like(x) for _ in range(2)] for x in (out, mine))
    dist.all_gather(parts, out)
    dist.all_gather(places, mine)
    together = torch.full_like(whole, float("nan"))
    together[torch.cat(places)] = torch.cat(parts)
    assert torch.equal(together, whole)
