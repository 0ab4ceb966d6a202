"""What notebook 13 measures: a rank's share of a long sequence, and of a model's training step.

`times_of_ranks` starts this module on 1, 2, 4 and 8 ranks, as far as there are GPUs for them.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb

from ..steps.on_ranks import counted, join
from ..steps.qwen3 import SHAPE_8B, loss_of
from ..steps.qwen3_on_ranks import WAYS, patched, sharded_qwen3
from ..steps.torchrun import torchrun
from ..timing import Timing, measure, measure_host

TOKENS, HEADS, D = 131072, 8, 128  # of the long sequence
SIZES = (1, 2, 4, 8)
Measure = Callable[[dict[str, Callable]], dict[str, Timing]]


def times_of_ranks() -> dict:
    """Times of the slowest rank in microseconds, for each number of ranks.

    Returns:
        For each: 'copy' and 'rope' of a rank's share of (TOKENS, 1, HEADS, D) in bf16; the
        'collectives' that the profiler saw in it; and what the host needs to queue a call of 64
        tokens with plain tensors, 'host', and with DTensors, 'host, DTensor'.
    """
    found = {}
    for n in SIZES:
        if n <= torch.cuda.device_count():
            said = torchrun("rope_lab.profiling.record_ranks", ranks=n)
            found[f"GPUs: {n}"] = json.loads(said)
    return found


def times_of_a_model(ranks: int = 2) -> dict:
    """Milliseconds of a training step of Qwen3 with FSDP2, of the slowest rank, for each way."""
    return json.loads(torchrun("rope_lab.profiling.record_ranks", "model", ranks=ranks))


def of_a_rank(
    tokens: int, measure: Measure = measure, measure_host: Measure = measure_host
) -> dict[str, float]:
    """What this rank measures of a sequence of so many tokens: one number for each name."""
    n, r = dist.get_world_size(), dist.get_rank()
    mesh_device = "cuda" if torch.cuda.is_available() else "cpu"
    mesh, rope = init_device_mesh(mesh_device, (n,)), RotaryPositionEmbedding(D).to(mesh_device)
    x = torch.randn(tokens // n, 1, HEADS, D, device=mesh_device, dtype=torch.bfloat16)
    out = torch.empty_like(x)

    def rotate() -> Tensor:
        return apply_rotary_pos_emb(x, rope, cp_size=n, cp_rank=r)

    def rotate_with(small: Tensor) -> Callable[[], Tensor]:
        return lambda: apply_rotary_pos_emb(small, rope)

    plain = x[:64]
    placed = DTensor.from_local(plain, mesh, [Shard(0)])
    found = {"collectives": counted(rotate)[1]}
    dist.barrier()  # all ranks measure at the same time
    device_times = measure({"copy": lambda: out.copy_(x), "rope": rotate})
    calls = {"host": rotate_with(plain), "host, DTensor": rotate_with(placed)}
    times = device_times | measure_host(calls)
    return found | {name: timing.median_us for name, timing in times.items()}


def steps_of_a_rank(
    shape: dict = SHAPE_8B, tokens: int = 4096, turns: int = 10
) -> dict[str, float]:
    """What this rank needs for a step, in milliseconds: the median of some, which take turns."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = sharded_qwen3(device, shape, torch.bfloat16)
    ids = torch.randint(shape["vocab_size"], (1, tokens + 1), device=device)
    times = {way: [] for way in WAYS}
    for turn in range(-2, turns):
        for way, options in WAYS.items():
            with patched(model, options):
                dist.barrier()
                begin = time.perf_counter()
                loss_of(model, ids).backward()
                float(model.lm_head.weight.grad.to_local()[0, 0])  # waits for the GPU
            model.zero_grad()
            if turn >= 0:
                times[way].append((time.perf_counter() - begin) * 1e3)
    return {way: round(median(ms), 2) for way, ms in times.items()}


def main(measured: Callable[[], dict[str, float]]) -> None:
    """One rank: rank 0 prints the largest number of all, for each name."""
    join()
    found = measured()
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
    if dist.get_rank() == 0:
        print(json.dumps({name: max(one[name] for one in everyone) for name in found}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(steps_of_a_rank if sys.argv[1:] == ["model"] else partial(of_a_rank, TOKENS))
