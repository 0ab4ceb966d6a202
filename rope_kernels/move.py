"""Launches of the kernel that turns q and k, and copies v.

`cache.py` and `split.py` are made of it.
"""

from torch import Tensor

from .launch import (
    Known,
    Launch,
    alignment_of,
    as_read,
    choose_tile,
    has_elements,
    launch_of_wide_rows,
    plan,
    resolved,
    run,
    strides_of,
)
from .rotation import Rotation
from .tiles import choose_padded_tile
from .wide import WideTile

MOVE_KERNEL = "move_kernel.move_kernel"
Rows = tuple[Tensor, Tensor, Tensor]  # of q, k and v


def move(
    read: Rows,
    written: Rows,
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
        written: where they go. q may be q itself; with `slots` k and v go into caches, (blocks,
            page, h, d).
        rotation: of q and k.
        known: what `known_of` has found for the call.
        slots: (tokens,), where in the caches.
        read_group, write_group: heads of q between which heads of k and v lie, in what is read and
            in what is written; 0: none do.
        out_format: as in `plan`.
    """

    names = "q", "k", "v", "q_out", "k_out", "v_out"

    def prepare() -> Launch | None:
        if not has_elements(read):
            return None
        named = dict(zip(names, (*[resolved(x) for x in read], *written), strict=True))
        if slots is not None:
            return _into_a_cache(named, rotation, slots)
        planned = plan(named, rotation, choose=choose_tile, out_format=out_format)
        if isinstance(planned.tile, WideTile):
            return launch_of_wide_rows(planned, named, rotation, read_group, write_group)
        arguments = planned.arguments | {
            "strides": planned.strides_of(*names),
            "READ_GROUP": read_group,
            "WRITE_GROUP": write_group,
            "TRANSPOSE": rotation.transpose,
            "listed": None,
            "cache_slots": None,
            "page": None,
        }
        tensors = *named.values(), *as_read(rotation), None
        return Launch(MOVE_KERNEL, tensors, planned.programs, arguments, planned.options)

    given = *read, *written, *rotation.tensors, slots
    run(known, given, prepare, (rotation.first_position,))


def _into_a_cache(named: dict[str, Tensor], rotation: Rotation, slots: Tensor) -> Launch:
    """A launch that writes k and v to their slots. Rows are padded, whatever their width is."""
    # The tokens of a cache are in no order, so what `plan` makes of the others is completed here.
    in_order = {name: x for name, x in named.items() if name not in ("k_out", "v_out")}
    planned = plan(in_order, rotation, choose=choose_padded_tile)
    q_out, k_cache, v_cache = named["q_out"], named["k_out"], named["v_out"]
    blocks, page, _, _ = k_cache.shape
    of_caches = strides_of(k_cache), strides_of(v_cache)
    arguments = planned.arguments | {
        "strides": (*planned.strides_of("q", "k", "v", "q_out"), *of_caches),
        "OUT_ALIGNED": alignment_of([q_out, k_cache, v_cache]),
        "READ_GROUP": 0,
        "WRITE_GROUP": 0,
        "TRANSPOSE": False,
        "listed": len(slots),
        "cache_slots": blocks * page,
        "page": page,
    }
    options = planned.options
    if not rotation.on_the_fly:
        # Three loads depend on each other: an id, a slot and a row of the table. More warps hide
        # them: 3 to 7 points.
        options = options | {"num_warps": 2 * options["num_warps"]}
    tensors = *named.values(), *as_read(rotation), slots.contiguous()
    return Launch(MOVE_KERNEL, tensors, planned.programs, arguments, options)
