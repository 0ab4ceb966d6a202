"""Launches of the kernel that turns q and k, and copies v: for `cache.py` and `split.py`."""

from collections.abc import Mapping

from torch import Tensor

from .launch import (
    Known,
    Launch,
    alignment_of,
    choose_tile,
    has_elements,
    kernel_strides,
    launch_of_wide_rows,
    plan,
    run,
)
from .rotation import Rotation
from .tiles import Case, Tile, padded
from .wide import WideTile

MOVE_KERNEL = "move_kernel.move_kernel"
QKV = tuple[Tensor, Tensor, Tensor]  # q, k and v


def move(
    read: QKV,
    written: QKV,
    rotation: Rotation,
    *,
    known: Known | None,
    slots: Tensor | None = None,
    read_group: int = 0,
    write_group: int = 0,
    out_format: str | None = None,
) -> None:
    """Rotate q and k, and copy v, in one launch.

    Args:
        read: q, k and v.
        written: where they go. That of q may be q itself. With `slots`, those of k and v are
            caches, (blocks, page, h, d).
        rotation: of q and k.
        known: what `known_of` has found for the call.
        slots: (n,), where in the caches the first n tokens go.
        read_group, write_group: after how many heads of q a head of k and one of v follow, in a
            packed tensor that is read, and in one that is written. `Packed.slices` makes the views.
            0: the heads of q follow each other.
        out_format: as in `plan`.
    """
    q, k, v = read
    q_out, k_out, v_out = written

    def prepare() -> Launch | None:
        if not has_elements(read):
            return None
        named = {
            "q": q.resolve_neg(),
            "k": k.resolve_neg(),
            "v": v.resolve_neg(),
            "q_out": q_out,
            "k_out": k_out,
            "v_out": v_out,
        }
        if slots is not None:
            return _into_a_cache(named, rotation, slots)
        planned = plan(named, rotation, choose=choose_tile, out_format=out_format)
        if isinstance(planned.tile, WideTile):
            return launch_of_wide_rows(
                planned, named, rotation, read_group=read_group, write_group=write_group
            )
        arguments = planned.arguments | {
            "v_ptr": named["v"],
            "v_out_ptr": v_out,
            "slots_ptr": None,
            "strides": planned.strides_of("q", "k", "v", "q_out", "k_out", "v_out"),
            "READ_GROUP": read_group,
            "WRITE_GROUP": write_group,
            "TRANSPOSE": rotation.options.transpose,
            "listed": None,
            "cache_slots": None,
            "page": None,
        }
        return Launch(
            kernel=MOVE_KERNEL,
            tensors=(named["q"], named["k"], q_out, k_out, *planned.of_rotation),
            programs=planned.programs,
            arguments=arguments,
            compiler=planned.compiler,
        )

    varying = [rotation.first_position, v.data_ptr(), v_out.data_ptr()]
    if slots is not None:
        varying.append(slots.data_ptr())
    run(known, (q, k, q_out, k_out, *rotation.tensors), prepare, tuple(varying))


def _into_a_cache(named: Mapping[str, Tensor], rotation: Rotation, slots: Tensor) -> Launch:
    """A launch that writes k and v to their slots. Rows are padded, whatever their width is."""
    # A cache has slots, not the positions of the call. So `plan` sees all tensors but the caches.
    in_order = {name: x for name, x in named.items() if name not in ("k_out", "v_out")}
    planned = plan(in_order, rotation, choose=choose_cache_tile)
    q_out, k_cache, v_cache = named["q_out"], named["k_out"], named["v_out"]
    blocks, page, _, _ = k_cache.shape
    of_caches = kernel_strides(k_cache), kernel_strides(v_cache)
    arguments = planned.arguments | {
        "v_ptr": named["v"],
        "v_out_ptr": v_cache,
        "slots_ptr": slots.contiguous(),
        "strides": (*planned.strides_of("q", "k", "v", "q_out"), *of_caches),
        "OUT_ALIGNED": alignment_of([q_out, k_cache, v_cache]),
        "READ_GROUP": 0,
        "WRITE_GROUP": 0,
        "TRANSPOSE": False,
        "listed": len(slots),
        "cache_slots": blocks * page,
        "page": page,
    }
    return Launch(
        kernel=MOVE_KERNEL,
        tensors=(named["q"], named["k"], q_out, k_cache, *planned.of_rotation),
        programs=planned.programs,
        arguments=arguments,
        compiler=planned.compiler,
    )


def choose_cache_tile(case: Case) -> Tile:
    """Padded rows, whatever their width is: a line of rows would go to slots that are far apart.

    Lines lost (benchmarks/NOTES.md). That packed tiles are fuller was not measured apart.
    """
    return padded(case, 2048, most_empty=0.2 if case.packed else 0.4)
