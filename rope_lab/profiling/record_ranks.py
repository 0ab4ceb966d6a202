"""What notebook 13 measures: a rank's share of a long sequence, and of the heads.

`times_of_ranks` starts this module on 1, 2, 4 and 8 ranks, as far as there are GPUs for them.
"""

import json
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_qk

from ..steps.on_ranks import counted, join
from ..steps.torchrun import torchrun
from ..timing import Timing, measure, measure_host

TOKENS, HEADS, D = 131072, 8, 128  # of the long sequence
Q_HEADS, K_HEADS = 64, 8  # of a layer of Llama 3 70B
SIZES = (1, 2, 4, 8)
_FORMATS = {"sbhd": (8192, 1), "bshd": (1, 8192), "bhsd": (1, 8192), "thd": (8192,)}
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


def few_heads(measure: Measure = measure) -> dict:
    """Times of q and k of 8192 tokens in bf16, with the heads that n ranks leave one of them.

    Returns:
        For each number of ranks and each format: 'copy' and 'rope' in microseconds.
    """
    found = {}
    for n in SIZES:
        q_heads, k_heads = Q_HEADS // n, K_HEADS // n
        of_one = found[f"{q_heads} + {k_heads} heads"] = {}
        for tensor_format in _FORMATS:
            cases = _cases_of_heads(tensor_format, q_heads, k_heads)
            of_one[tensor_format] = {name: t.median_us for name, t in measure(cases).items()}
    return found


def _cases_of_heads(tensor_format: str, q_heads: int, k_heads: int) -> dict[str, Callable]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    at, rope = tensor_format.index("h"), RotaryPositionEmbedding(D).to(device)
    tokens, rows = _FORMATS[tensor_format], []
    for heads in (q_heads, k_heads):
        shape = (*tokens[:at], heads, *tokens[at:], D)
        rows.append(torch.randn(shape, device=device, dtype=torch.bfloat16))
    both = torch.cat([x.flatten() for x in rows])
    out = torch.empty_like(both)
    options = {}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, *tokens], device=device)
    return {
        "copy": lambda: out.copy_(both),
        "rope": lambda: rope_qk(*rows, rope, tensor_format, **options),
    }


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


def main(**options: object) -> None:
    """One rank of `times_of_ranks`: rank 0 prints the largest number of all, for each name."""
    join()
    found = of_a_rank(**{"tokens": TOKENS} | options)
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
    if dist.get_rank() == 0:
        print(json.dumps({name: max(one[name] for one in everyone) for name in found}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
