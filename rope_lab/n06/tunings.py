"""`triton.autotune` for the detour of notebook 06: with a made-up clock anywhere, and on a GPU.

On a GPU `fresh_tunings` says which tile of rung 4 wins by Triton's clock, its `do_bench`.
"""

from collections.abc import Callable

import torch
import triton
from torch import Tensor

from ..rungs.measured import headline_tensors
from ..rungs.rung_4_backward import my_rope_kernel

TILES = {  # the best of notebook 05's sweep among them
    f"rows {rows}, warps {warps}": triton.Config({"BLOCK_R": rows}, num_warps=warps)
    for rows, warps in ((4, 1), (8, 1), (16, 1), (32, 1), (8, 2), (16, 4))
}

launched: list[tuple[int, int]] = []  # by `rotate_in_place`: rows a program, blocks of rows


def made_up_clock(run: Callable, quantiles: tuple[float, ...]) -> list[float]:
    """Run a kernel of `rotate_in_place` three times; more programs and more rows take longer."""
    for _ in range(3):
        run()
    rows, blocks = launched[-1]
    return [blocks * (rows + 8.0)] * len(quantiles)


def rotate_in_place(t: Tensor, freqs: Tensor, kernel, out: Tensor | None = None) -> Tensor:
    """Launch an autotuned kernel of a rung, in place or not, and note every launch."""
    s, b, h, d = t.shape
    out = t if out is None else out

    def grid(chosen: dict) -> tuple[int]:
        launched.append((chosen["BLOCK_R"], triton.cdiv(b * h, chosen["BLOCK_R"])))
        return (s * launched[-1][1],)

    kernel[grid](
        t,
        freqs,
        out,
        b * h,
        HALF=d // 2,
        BLOCK_HALF=triton.next_power_of_2(d // 2),
        TRANSPOSE=False,
    )
    return out


def fresh_tunings() -> dict:
    """Tune rung 4 twenty times, out of place, each time from the start; then twice in place.

    Returns:
        won: tile -> how many tunings chose it.
        us: tile -> its shortest and its longest time by Triton's clock.
        launches in place: of a first call.
        us restored: tile -> its time in a tuning with `restore_value`.
    """
    t, freqs = headline_tensors()
    out, chosen, times = torch.empty_like(t), [], []
    for _ in range(20):
        tuned = _tuned()
        rotate_in_place(t, freqs, tuned, out)
        chosen.append(tuned.best_config)
        times.append(_times_of(tuned))
    before = len(launched)
    rotate_in_place(t.clone(), freqs, _tuned())
    in_place = len(launched) - before
    restored = _tuned(restore_value=["t_ptr"])
    rotate_in_place(t, freqs, restored)
    return {
        "won": {name: chosen.count(tile) for name, tile in TILES.items()},
        "us": {name: [pick(one[name] for one in times) for pick in (min, max)] for name in TILES},
        "launches in place": in_place,
        "us restored": _times_of(restored),
    }


def _tuned(**options):
    tiles = list(TILES.values())
    return triton.autotune(tiles, key=["rows"], **options)(my_rope_kernel)


def _times_of(tuned) -> dict[str, float]:
    """Microseconds by tile: the medians that the tuning compared."""
    ms = tuned.configs_timings
    return {name: round(1e3 * ms[tile][0], 2) for name, tile in TILES.items()}
