"""`triton.autotune` on a GPU: which tile of rung 8 wins, and how often the kernel runs for that.

Notebook 06, section 9, calls `fresh_tunings`. Triton's clock is its `do_bench`.
"""

from collections.abc import Callable

import torch
import triton
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding

from ..rungs.rung_8_rows import my_rope_kernel
from ..timing import measure

SHAPE = (2048, 16, 8, 256)  # s, b, h, d; in bf16
TILES = ((2, 1), (4, 1), (8, 1), (4, 2), (8, 2), (16, 4))  # rows a program, warps


def fresh_tunings(tunings: int = 20) -> dict:
    """Tune rung 8 that often, out of place; then once in place, and once with `restore_value`.

    Returns:
        winners: the tile that each tuning chose.
        seconds: what each took; the first one compiles.
        times: tile -> its time in each tuning, in microseconds, by Triton's clock.
        restored: the same once more, in place, with `restore_value`.
        lab: tile -> its time by the lab's clock, in which tiles take turns; and that of a copy.
        launches: of the kernel during one first call.
    """
    t = torch.randn(*SHAPE, device="cuda", dtype=torch.bfloat16)
    freqs, out = RotaryPositionEmbedding(SHAPE[-1]).cuda()(SHAPE[0]), torch.empty_like(t)
    winners, seconds, times = [], [], {_name(rows, warps): [] for rows, warps in TILES}
    for _ in range(tunings):
        tuned = _tuned()
        _rotate(tuned, t, freqs, out)
        winners.append(_name_of(tuned.best_config))
        seconds.append(round(tuned.bench_time, 2))
        for name, us in _times_of(tuned).items():
            times[name].append(us)
    launches, restored = [], _tuned(restore_value=["t_ptr"])
    _rotate(_tuned(), t, freqs, out, launches.append)
    _rotate(restored, t, freqs, t)
    return {
        "winners": winners,
        "seconds": seconds,
        "times": times,
        "restored": _times_of(restored),
        "lab": {name: timing.median_us for name, timing in measure(_cases(t, freqs, out)).items()},
        "launches": len(launches),
    }


def _tuned(**options):
    tiles = [triton.Config({"BLOCK_R": rows}, num_warps=warps) for rows, warps in TILES]
    return triton.autotune(tiles, key=["rows"], **options)(my_rope_kernel)


def _rotate(kernel, t: Tensor, freqs: Tensor, out: Tensor, note: Callable = id, **tile) -> Tensor:
    s, b, h, d = t.shape

    def grid(chosen: dict) -> tuple[int]:
        note(chosen["BLOCK_R"])
        return (s * triton.cdiv(b * h, chosen["BLOCK_R"]),)

    sizes = {"HALF": d // 2, "BLOCK_HALF": triton.next_power_of_2(d // 2), "TRANSPOSE": False}
    kernel[grid](t, freqs, out, b * h, **sizes, **tile)
    return out


def _cases(t: Tensor, freqs: Tensor, out: Tensor) -> dict[str, Callable]:
    cases = {"copy": lambda: out.copy_(t)}
    for rows, warps in TILES:
        cases[_name(rows, warps)] = lambda tile={"BLOCK_R": rows, "num_warps": warps}: _rotate(
            my_rope_kernel, t, freqs, out, **tile
        )
    return cases


def _times_of(tuned) -> dict[str, float]:
    """Microseconds by tile: the medians that the tuning compared."""
    return {_name_of(tile): round(1e3 * ms[0], 2) for tile, ms in tuned.configs_timings.items()}


def _name_of(tile: triton.Config) -> str:
    return _name(tile.kwargs["BLOCK_R"], tile.num_warps)


def _name(rows: int, warps: int) -> str:
    return f"{rows} rows, {warps} warp{'s' * (warps > 1)}"
