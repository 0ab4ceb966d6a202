"""What two ranks do in notebook 13: `torchrun --standalone --nproc-per-node 2 -m` this module.

Each rank makes the same tensors from the same seed, and takes its share. So the result on one
process is known everywhere. Rank 0 prints, and every rank takes part in what it prints.
"""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.profiler import ProfilerActivity, profile

from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    cp_positions,
    norm_rope,
    qk_norm_rope,
    rope_qk,
    sum_of_squares,
)

from ..rungs.kept import mine_or_ours
from .qwen3_on_ranks import WAYS, train_on_ranks

SECONDS = timedelta(seconds=60)  # that a rank waits for another one
D = 16  # elements of a head


def main() -> None:
    mesh = init_device_mesh(join(), (dist.get_world_size(),))
    torch.set_num_threads(1)
    for part in (where, shards, placements, zigzag, refused, collectives, all_heads, qwen3):
        torch.manual_seed(0)
        say(f"== {part.__name__}")
        part(mesh)
    time.sleep(0.5)  # else gloo's thread, which drops its last work, may abort the process
    dist.destroy_process_group()


def join() -> str:
    """Let this process be one of the ranks that `torchrun` has started; on 'cuda' or 'cpu'."""
    on_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if on_gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:
        os.environ["TRITON_INTERPRET"] = "0"  # on a CPU, ranks rotate in plain PyTorch
    dist.init_process_group("nccl" if on_gpus else "gloo", timeout=SECONDS)
    return "cuda" if on_gpus else "cpu"


def say(*words: object) -> None:
    if dist.get_rank() == 0:
        print(*words, flush=True)


def where(mesh: DeviceMesh) -> None:
    say(f"{mesh.size()} ranks, {mesh.device_type}, {dist.get_backend()}")


def shards(mesh: DeviceMesh) -> None:
    """Each rank rotates its tokens of (s, b, h, d) with the positions that they have."""
    n, r = mesh.size(), mesh.get_local_rank()
    whole = torch.randn(16, 1, 2, D, device=mesh.device_type)
    rope = RotaryPositionEmbedding(D).to(mesh.device_type)
    for order in ("contiguous", "zigzag", "round_robin"):
        mine = cp_positions(16, cp_size=n, cp_rank=r, cp_order=order, device=mesh.device_type)
        out = apply_rotary_pos_emb(whole[mine], rope, position_ids=mine[None])
        together = put_together(out, mine)
        same = torch.equal(together, apply_rotary_pos_emb(whole, rope))
        say(f"{order:12}rank 0 has {mine.tolist()}; the bits of the whole: {same}")


def put_together(out: Tensor, mine: Tensor) -> Tensor:
    """The rows of all ranks at their positions."""
    rows, places = (
        [torch.empty_like(x) for _ in range(dist.get_world_size())] for x in (out, mine)
    )
    dist.all_gather(rows, out)
    dist.all_gather(places, mine)
    return torch.cat(rows)[torch.cat(places).argsort()]


def placements(mesh: DeviceMesh) -> None:
    """q and k (b, s, h, d) as DTensors, and as plain tensors of each rank."""
    q, k = (torch.randn(2, 8, heads, D, device=mesh.device_type) for heads in (4, 2))
    rope = RotaryPositionEmbedding(D).to(mesh.device_type)
    whole = rope_qk(q, k, rope, "bshd")
    say("q and k by   result of q     on each rank    the bits of the whole: DTensor, plain")
    for name, dim in {"batch": 0, "sequence": 1, "heads": 2}.items():
        rows = [distribute_tensor(x, mesh, [Shard(dim)]) for x in (q, k)]
        out = rope_qk(*rows, rope, "bshd")
        plain = rope_qk(*[x.to_local() for x in rows], rope, "bshd")
        back = [DTensor.from_local(x, mesh, [Shard(dim)]) for x in plain]
        same = [
            all([torch.equal(x.full_tensor(), y) for x, y in zip(z, whole, strict=True)])
            for z in (out, back)
        ]
        shape = tuple(out[0].to_local().shape)
        say(f"{name:13}{out[0].placements[0]!r:16}{shape!s:16}", *same)


def zigzag(mesh: DeviceMesh) -> None:
    """DTensors whose rows are in zigzag order, with positions in the same order."""
    q, k = (torch.randn(2, 8, heads, D, device=mesh.device_type) for heads in (4, 2))
    rope = RotaryPositionEmbedding(D).to(mesh.device_type)
    n, device = mesh.size(), mesh.device_type
    tokens = [cp_positions(8, cp_size=n, cp_rank=r, device=device) for r in range(n)]
    mine = tokens[mesh.get_local_rank()]
    parts = q[:, mine], k[:, mine], mine[None]
    rows_q, rows_k, ids = (DTensor.from_local(x, mesh, [Shard(1)]) for x in parts)
    out = rope_qk(rows_q, rows_k, rope, "bshd", position_ids=ids)
    whole = [x[:, torch.cat(tokens)] for x in rope_qk(q, k, rope, "bshd")]
    same = [torch.equal(x.full_tensor(), y) for x, y in zip(out, whole, strict=True)]
    say("the bits of the whole, in the order of the ranks:", all(same))


def refused(mesh: DeviceMesh) -> None:
    """Calls that no rank can make alone."""
    q, k = (torch.randn(2, 8, heads, D, device=mesh.device_type) for heads in (4, 2))
    rope = RotaryPositionEmbedding(D).to(mesh.device_type)
    ids = torch.arange(8, device=mesh.device_type)[None]
    by = {dim: distribute_tensor(q, mesh, [Shard(dim)]) for dim in range(4)}
    everywhere = distribute_tensor(k, mesh, [Replicate()])
    calls = {
        "the elements of a head cut": lambda: apply_rotary_pos_emb(by[3], rope, "bshd"),
        "q by heads, k replicated": lambda: rope_qk(by[2], everywhere, rope, "bshd"),
        "plain positions beside a cut sequence": lambda: apply_rotary_pos_emb(
            by[1], rope, "bshd", position_ids=ids
        ),
    }
    for name, call in calls.items():
        try:
            call()
        except ValueError as error:
            say(f"{name}\n  {error}")


def counted(call: Callable[[], object]) -> tuple[object, int]:
    """What a call returns, and how many collectives torch's profiler saw in it."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        result = call()
    return result, sum(event.name.startswith("c10d::") for event in profiler.events())


def collectives(mesh: DeviceMesh) -> None:
    """What the ranks send one another, forward and backward."""
    q, k, *given = (torch.randn(2, 8, 4, D, device=mesh.device_type) for _ in range(4))
    rope = RotaryPositionEmbedding(D).to(mesh.device_type)
    q, k, *given = (distribute_tensor(x, mesh, [Shard(1)]) for x in (q, k, *given))
    rows = q.requires_grad_(), k.requires_grad_()
    weight = torch.rand(D, device=mesh.device_type)
    weights = [distribute_tensor(weight, mesh, [Replicate()]).requires_grad_() for _ in rows]
    for name, rotate in {
        "rope_qk": partial(rope_qk, *rows, rope, "bshd"),
        "qk_norm_rope": partial(qk_norm_rope, *rows, *weights, rope, "bshd"),
    }.items():
        out, forward = counted(rotate)
        inputs = [*rows, *weights] if "norm" in name else rows
        found, backward = counted(partial(torch.autograd.grad, out, inputs, given))
        say(f"{name}: {forward} forward, {backward} backward")
    say("  the gradient of its weight:", type(found[-1].placements[0]).__name__)
    say("  to add up both gradients:", counted(lambda: [x.full_tensor() for x in found[2:]])[1])
    say("q by heads, not by sequence:", counted(lambda: q.redistribute(placements=[Shard(2)]))[1])
    gather_first = counted(lambda: rope_qk(q.full_tensor(), k.full_tensor(), rope, "bshd"))
    say("q and k gathered, then rotated:", gather_first[1])


def all_heads(mesh: DeviceMesh) -> None:
    """A norm over all heads of (s, b, h, d), where each rank has some of them."""
    q, grad = (torch.randn(8, 1, 4, D, device=mesh.device_type) for _ in range(2))
    rope = RotaryPositionEmbedding(D).to(mesh.device_type)
    weight = torch.rand(4, D, device=mesh.device_type).requires_grad_()
    whole = normed(q, weight, rope, lambda share: share)
    (of_whole,) = torch.autograd.grad(whole, weight, grad)
    heads = slice(2 * mesh.get_local_rank(), 2 * mesh.get_local_rank() + 2)
    q, weight = (x.detach().requires_grad_() for x in (q[:, :, heads], weight[heads]))
    mine, forward = counted(lambda: normed(q, weight, rope, partial(sum_over_ranks, mesh)))
    inputs = mine, (weight, q), grad[:, :, heads]
    (of_mine, _), backward = counted(lambda: torch.autograd.grad(*inputs))
    say(f"{forward} collective forward, {backward} backward")
    close = partial(torch.allclose, rtol=1e-5, atol=1e-5)
    result, gradient = close(mine, whole[:, :, heads]), close(of_mine, of_whole[heads])
    say(f"as in one process, within 1e-5: the result {result}, the weight's gradient {gradient}")


def sum_over_ranks(mesh: DeviceMesh, share: Tensor) -> Tensor:
    """The sum of every rank's share, with a gradient."""
    total = DTensor.from_local(share, mesh, [Partial()]).redistribute(placements=[Replicate()])
    return total.to_local(grad_placements=[Partial()])


def normed(
    q: Tensor, weight: Tensor, rope: RotaryPositionEmbedding, total_of: Callable[[Tensor], Tensor]
) -> Tensor:
    """q normalized over all four heads, and rotated."""
    share = sum_of_squares(q).sum(-1, keepdim=True)  # of this rank's heads: (s, b, 1)
    return norm_rope(q, weight, rope, sumsq=total_of(share), norm_dim=4 * D)


def qwen3(mesh: DeviceMesh) -> None:
    """Five steps of a model of transformers, as it is and patched."""
    losses = {way: train_on_ranks(mesh.device_type, options) for way, options in WAYS.items()}
    wanted = losses["unpatched"]
    say("losses, unpatched:", *(f"{loss:.2f}" for loss in wanted))
    say("patched, the same bits:", losses["patched"] == wanted)
    off = max(abs(x - y) for x, y in zip(losses["with norms"], wanted, strict=True))
    say("with norms, within 1e-4:", off < 1e-4)


def your_kernel(n: int, device: str) -> bool:
    """Whether the kernel of the climb finds the bits of the whole on shards in zigzag order.

    One process plays all ranks, because the kernel needs a GPU or Triton's interpreter.
    """
    my_rope = mine_or_ours()
    whole = torch.randn(16, 1, 2, D, device=device)
    table = RotaryPositionEmbedding(D).to(device)(16)
    ranks = [cp_positions(16, cp_size=n, cp_rank=r, device=device) for r in range(n)]
    out = torch.cat([my_rope(whole[mine], table[mine]) for mine in ranks])
    return torch.equal(out[torch.cat(ranks).argsort()], my_rope(whole, table))


if __name__ == "__main__":
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else torch 2.13 reports each profiler
    main()
