"""`triton.autotune` for notebook 06, section 9: with a made-up clock anywhere, and on a GPU.

On a GPU `fresh_tunings` says which tile of rung 8 wins by Triton's clock, its `do_bench`.
"""

from collections.abc import Callable
from functools import partial

import torch
import triton
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding
from rope_kernels.reference import apply_rotary_pos_emb

from ..rungs.measured import headline
from ..rungs.rows import launch
from ..rungs.rung_8_rows import my_rope_kernel

TILES = ((2, 1), (4, 1), (8, 1), (4, 2), (8, 2), (16, 4))  # rows a program, warps

launched: list[tuple[int, int]] = []  # by `rotate_in_place`: rows a program, blocks of rows


def made_up_clock(run: Callable, quantiles: tuple[float, ...]) -> list[float]:
    """Run a kernel of `rotate_in_place` three times; more programs and more rows take longer."""
    for _ in range(3):
        run()
    rows, blocks = launched[-1]
    return [blocks * (rows + 8.0)] * len(quantiles)


def rotate_in_place(t: Tensor, freqs: Tensor, kernel) -> Tensor:
    """Launch an autotuned kernel of a rung, and note every launch in `launched`."""
    return _rotate(kernel, t, freqs, t)


def fresh_tunings() -> dict:
    """Tune rung 8 twenty times, out of place, each time from the start; then in place.

    Returns:
        winners: the tile that each tuning chose.
        seconds: what each took; the first one compiles.
        medians_us: for each tuning, the time of every tile by Triton's clock.
        in place as it is, in place restored: of two calls without and with `restore_value`, how
            often the kernel was launched and whether the result is right.
        medians_us restored: the times that a tuning with `restore_value` compares.
    """
    t, freqs = headline()
    out, values = torch.empty_like(t), {"winners": [], "seconds": [], "medians_us": []}
    for _ in range(20):
        tuned = _tuned()
        _rotate(tuned, t, freqs, out)
        values["winners"].append(_name_of(tuned.best_config))
        values["seconds"].append(round(tuned.bench_time, 3))
        values["medians_us"].append(_times_of(tuned))
    restoring = {"restore_value": ["t_ptr"]}
    values["in place as it is"] = _two_calls_in_place(_tuned())
    values["in place restored"] = _two_calls_in_place(_tuned(**restoring))
    restored = _tuned(**restoring)
    rotate_in_place(t, freqs, restored)
    return values | {"medians_us restored": _times_of(restored)}


def each_tile() -> dict[str, Callable]:
    """For `lab.bench`: a copy, and rung 8 with each of the tiles."""
    t, freqs = headline()
    out = torch.empty_like(t)
    cases = {"copy": partial(out.copy_, t)}
    for rows, warps in TILES:
        tile = {"block_r": rows, "num_warps": warps}
        cases[_name(rows, warps)] = partial(launch, my_rope_kernel, t, freqs, out, **tile)
    return cases


def _two_calls_in_place(tuned) -> list[list]:
    """Launches of each call, and whether it was right; the second one has a choice to use."""
    t, freqs = torch.randn(4, 2, 8, 64, device="cuda"), RotaryPositionEmbedding(64).cuda()(4)
    seen, wanted = [], apply_rotary_pos_emb(t, freqs)
    for _ in range(2):
        before = len(launched)
        right = torch.allclose(rotate_in_place(t.clone(), freqs, tuned), wanted, atol=1e-4)
        seen.append([len(launched) - before, right])
    return seen


def _tuned(**options):
    tiles = [triton.Config({"BLOCK_R": rows}, num_warps=warps) for rows, warps in TILES]
    return triton.autotune(tiles, key=["rows"], **options)(my_rope_kernel)


def _rotate(kernel, t: Tensor, freqs: Tensor, out: Tensor) -> Tensor:
    s, b, h, d = t.shape

    def grid(chosen: dict) -> tuple[int]:
        launched.append((chosen["BLOCK_R"], triton.cdiv(b * h, chosen["BLOCK_R"])))
        return (s * launched[-1][1],)

    sizes = {"HALF": d // 2, "BLOCK_HALF": triton.next_power_of_2(d // 2), "TRANSPOSE": False}
    kernel[grid](t, freqs, out, b * h, **sizes)
    return out


def _times_of(tuned) -> dict[str, float]:
    """Microseconds by tile: the medians that the tuning compared."""
    return {_name_of(tile): round(1e3 * ms[0], 2) for tile, ms in tuned.configs_timings.items()}


def _name_of(tile: triton.Config) -> str:
    return _name(tile.kwargs["BLOCK_R"], tile.num_warps)


def _name(rows: int, warps: int) -> str:
    return f"rows {rows}, warps {warps}"
