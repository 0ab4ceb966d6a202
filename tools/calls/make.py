"""Make the arguments of a drawn call, through the public API alone."""

import math
import random
from dataclasses import dataclass, field

from .call import SPLIT, TO_CACHE, Call


@dataclass
class Arguments:
    """What a call gets. `weights` are empty for a rotation."""

    call: Call
    tensors: list  # to rotate: one, or q and k; those of `rope_to_cache` have v, too
    freqs: object
    options: dict  # by keyword
    weights: list = field(default_factory=list)  # one for each tensor; a weight may be None
    after_freqs: list = field(default_factory=list)

    def given(self, tensors) -> tuple[list, dict]:
        """By position and by keyword, to rotate these tensors."""
        return [*tensors, *self.weights, self.freqs, *self.after_freqs], self.options


class Maker:
    """Makes the tensors of one call, and remembers the memory that they are in."""

    def __init__(self, seed: int, index: int, device: str) -> None:
        import torch

        self.torch, self.device = torch, device
        self.generator = torch.Generator().manual_seed(seed * 1_000_003 + index)
        self.memory = {}

    def normal(self, shape, dtype: str, name: str = ""):
        """Random values; made on the CPU, so that every device gets the same."""
        torch = self.torch
        x = torch.randn(tuple(shape), generator=self.generator, dtype=torch.float64)
        return self.kept(x.to(getattr(torch, dtype)).to(self.device), name)

    def integers(self, values, dtype: str, name: str = ""):
        """These values."""
        x = self.torch.tensor(values, dtype=getattr(self.torch, dtype)).to(self.device)
        return self.kept(x, name)

    def kept(self, x, name: str):
        """Remember `x`, if it has a name."""
        if name:
            self.memory[name] = x
        return x

    def laid_out(self, shape, dtype: str, layout: str, name: str):
        """Random values of a shape, in a layout."""
        shape = list(shape)
        if layout == "transposed":
            return self.normal((shape[1], shape[0], *shape[2:]), dtype, name).transpose(0, 1)
        if layout == "heads last":  # as a projection leaves them
            b, h, s, d = shape
            return self.normal((b, s, h, d), dtype, name).transpose(1, 2)
        if layout == "head dim strided":
            swapped = (*shape[:-2], shape[-1], shape[-2])
            return self.normal(swapped, dtype, name).transpose(-1, -2)
        if layout == "offset":
            larger = self.normal([n + 3 for n in shape], dtype, name)
            return larger[tuple(slice(1, n + 1) for n in shape)]
        if layout == "odd address":
            return self.normal((math.prod(shape) + 1,), dtype, name)[1:].view(shape)
        if layout == "half of the heads":
            wider = self.normal((*shape[:-2], 2 * shape[-2], shape[-1]), dtype, name)
            return wider[..., : shape[-2], :]
        if layout == "packed":
            return self.normal((*shape[:-1], 3 * shape[-1]), dtype, name).chunk(3, -1)[1]
        if layout == "strided":
            return self.normal((*shape[:-1], 2 * shape[-1]), dtype, name)[..., ::2]
        if layout == "expanded heads":
            return self.normal((*shape[:-2], 1, shape[-1]), dtype, name).expand(shape)
        if layout == "expanded":
            return self.normal((), dtype, name).expand(shape)
        if layout == "negative" and dtype in ("float32", "float64"):
            pairs = self.normal((*shape, 2), dtype, name)
            return self.torch.view_as_complex(pairs).conj().imag
        return self.normal(shape, dtype, name)


class QuickMaker(Maker):
    """Makes memory that is never touched."""

    def normal(self, shape, dtype: str, name: str = ""):
        torch, is_large = self.torch, math.prod(shape) > 2**16
        fill = torch.empty if is_large else torch.ones  # frequencies have to be finite
        return self.kept(fill(tuple(shape), dtype=getattr(torch, dtype)), name)


def arguments_of(call: Call, package, make: Maker) -> Arguments:
    """All arguments of a call."""
    made = Arguments(call, _tensors(call, make), None, _where(call, make))
    made.freqs = _freqs(call, package, make)
    names = ["interleaved", "fused", "inverse", "rotary_start"]
    names += ["inplace"] if call.function != SPLIT else []
    names += ["output_pairing"] if call.function != TO_CACHE else []
    made.options |= {name: getattr(call, name) for name in names}
    if call.rounding is not None:  # so that older checkouts can be compared by their calls
        made.options["rounding"] = call.rounding
    if call.rotary_dim_is_named:
        made.options["rotary_dim"] = call.rotary_dim
    if call.norm:
        made.weights = _weights(call, make)
        names = "eps", "weight_offset", "norm_after"
        made.options |= {name: getattr(call.norm, name) for name in names}
    if call.function == TO_CACHE:
        made.after_freqs = [*_caches(call, make), _slots(call, make)]
    elif call.function == SPLIT:
        made.after_freqs = [call.h, call.k]
        names = "packing", "tensor_format", "output_format"
        made.options |= {name: getattr(call, name) for name in names}
    else:
        made.after_freqs = [call.tensor_format]
    return made


def _tensors(call: Call, make: Maker) -> list:
    dtype, heads = call.dtype, call.heads
    if call.function == SPLIT:
        *outer, h, d = call.shape(*heads)
        tensors = [make.laid_out([*outer, h * d], dtype, call.layouts[0], "t")]
    elif len(heads) == 1:
        tensors = [make.laid_out(call.shape(*heads), dtype, call.layouts[0], "t")]
    elif call.storage == "separate":
        named = zip(heads, call.layouts, "qkv", strict=False)
        tensors = [make.laid_out(call.shape(h), dtype, layout, x) for h, layout, x in named]
    elif call.storage == "packed heads":
        every_head = [*heads[:2], heads[1]]
        layout = "heads last" if call.tensor_format == "bhsd" else "contiguous"
        qkv = make.laid_out(call.shape(sum(every_head)), dtype, layout, "qkv")
        tensors = list(qkv.split(every_head, call.tensor_format.index("h"))[: len(heads)])
    else:
        shape = call.shape(heads[0])
        qkv = make.normal([*shape[:-1], 3 * shape[-1]], dtype, "qkv")
        tensors = list(qkv.chunk(3, -1)[: len(heads)])
    if call.special_values and tensors[0].numel() and call.layouts[0] == "contiguous":
        values = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0]
        flat = tensors[0].flatten()[:5]
        tensors[0] = tensors[0].clone()
        tensors[0].view(-1)[: flat.numel()] = make.torch.tensor(values[: flat.numel()]).to(flat)
    return tensors


# --- where tokens are, and by which angles they turn ---------------------------------------------


def _where(call: Call, make: Maker) -> dict:
    """cu_seqlens, start_positions, position_ids and the rank."""
    rng, options, dtype = random.Random(str(call)), {}, call.positions_dtype
    cp_size, cp_rank = call.cp or (1, 0)
    if call.cp:
        options |= {"cp_size": cp_size, "cp_rank": cp_rank}
    if call.cp_order != "zigzag":  # so that older checkouts can be compared by their calls
        options["cp_order"] = call.cp_order
    if call.cu_seqlens is not None:
        values = [n * cp_size for n in call.cu_seqlens]
        options["cu_seqlens"] = make.integers(values, call.cu_seqlens_dtype, "cu_seqlens")
    first = call.first_id
    if call.positions == "starts":
        count = len(call.cu_seqlens) - 1 if call.packed else call.b
        values = [first + rng.randrange(9) for _ in range(count)]
        options["start_positions"] = make.integers(values, dtype, "start_positions")
    elif call.positions == "one start":
        start = first + rng.randrange(9)
        kinds = start, make.integers(start, dtype), make.integers([start], dtype)
        options["start_positions"] = rng.choice(kinds)
    elif "ids" in call.positions:
        entries = 1 if call.packed or call.positions == "shared ids" else call.b
        values = [first + rng.randrange(call.id_range) for _ in range(call.s * entries)]
        shape = [entries] * (not call.packed) + [call.s]
        options["position_ids"] = make.integers(values, dtype, "position_ids").reshape(shape)
    return options


def _freqs(call: Call, package, make: Maker):
    rows = rows_needed(call) + call.extra_rows
    if call.freqs in ("module", "table of module"):
        return _of_module(call, package, make, rows)
    columns = call.rotary_dim // (2 if call.one_column_per_pair else 1)
    if call.freqs == "table":
        wide = call.dtype == "float64" and call.freqs_dtype == "float64"
        dtype, shapes = "float64" if wide else "float32", [[rows, 1, 1, columns]]
    else:
        batch = 1 if call.packed else call.b
        three = [batch if call.extra_rows else 1] if call.freqs.endswith("3-D") else []
        dtype, shapes = call.freqs_dtype, [[*three, rows, columns]] * 2
    tables = []
    for number, shape in enumerate(shapes):
        name, layout = f"freqs[{number}]", call.freqs_layout
        if layout == "expanded":
            table = make.normal((columns,), dtype, name).expand(shape)
        elif layout == "mismatched" and number and rows:
            table = make.normal([*shape[:-2], columns, rows], dtype, name).transpose(-1, -2)
        else:
            table = make.laid_out(shape, dtype, layout, name)
        tables.append(table * 3 if layout == "contiguous" and dtype == "float32" else table)
    return tuple(tables) if len(tables) == 2 else tables[0]


def rows_needed(call: Call) -> int:
    """Positions of a table that serves the call."""
    longest = call.s * (call.cp or (1, 0))[0]
    if call.positions == "index":
        return longest
    return (longest if "start" in call.positions else 0) + call.first_id + call.id_range


def _of_module(call: Call, package, make: Maker, rows: int):
    """A module, or one of the tables that it makes."""
    module = _module(call, package, make)
    if call.freqs == "module":
        return module
    angles = module(rows)
    if not call.one_column_per_pair:
        return angles
    columns = slice(0, None, 2) if call.interleaved else slice(call.rotary_dim // 2)
    angles = angles[..., columns].contiguous()
    if call.module.cos_and_sin:
        dtype = getattr(make.torch, call.freqs_dtype)
        return angles[:, 0, 0].cos().to(dtype), angles[:, 0, 0].sin().to(dtype)
    return angles


def _module(call: Call, package, make: Maker):
    drawn, d2, torch = call.module, call.rotary_dim, make.torch
    dim, percent = (2 * d2, 0.5) if drawn.rotary_percent else (d2, 1.0)
    more = {} if drawn.attention_factor is None else {"attention_factor": drawn.attention_factor}
    base = drawn.rotary_base
    if drawn.inv_freq:
        base, more["inv_freq"] = 10000.0, make.normal((d2 // 2,), drawn.inv_freq).abs()
    module = package.RotaryPositionEmbedding(
        dim, percent, rotary_base=base, interleaved=call.interleaved, **more
    ).to(make.device)
    if drawn.changed == "assigned":
        module.inv_freq = make.normal((d2 // 2,), "float32").abs()
    elif drawn.changed == "in place":
        with torch.no_grad():
            module.inv_freq.mul_(0.75)
    elif drawn.changed == "cast":
        module = module.half()
    make.memory["inv_freq"] = module.inv_freq
    return module


# --- what a norm takes ---------------------------------------------------------------------------


def _weights(call: Call, make: Maker) -> list:
    drawn, d = call.norm, call.d
    exact = "float64" if call.dtype == "float64" else "float32"
    dtypes = {"of t": call.dtype, "float32": "float32", "exact": exact}
    kinds = drawn.weight.split(" and ")
    weights = []
    for number, kind in zip(range(len(call.heads)), [*kinds, kinds[-1]], strict=False):
        layout, dtype, name = drawn.weight_layout, dtypes[drawn.weight_dtype], f"weight[{number}]"
        weights.append(None if kind == "none" else make.laid_out([d], dtype, layout, name))
    return weights


# --- where keys and values go --------------------------------------------------------------------


PAGE = 4  # positions


def _caches(call: Call, make: Maker) -> list:
    """Of keys and of values, as views (blocks, page, heads, d), with room for twice the tokens."""
    blocks, h, d = _blocks(call), call.heads[1], call.d
    layout, dtype, name = call.cache.layout, call.dtype, "caches"
    if layout == "heads first":
        both = make.normal((blocks, h, PAGE, 2 * d), dtype, name)
        return list(both.transpose(1, 2).chunk(2, dim=-1))
    if layout == "slots":
        return [x.unsqueeze(1) for x in make.normal((2, blocks * PAGE, h, d), dtype, name)]
    if layout == "sequences":
        return [x.transpose(1, 2) for x in make.normal((2, blocks, h, PAGE, d), dtype, name)]
    return list(make.normal((2, blocks, PAGE, h, d), dtype, name))


def _slots(call: Call, make: Maker):
    """One for each token but those left out, no two alike; some tokens have none."""
    rng = random.Random(str(call))
    slots = rng.sample(range(_blocks(call) * PAGE), max(0, call.s - call.cache.left_out))
    slots = [-1 if rng.random() < 0.1 else slot for slot in slots]
    return make.integers(slots, call.cache.slots_dtype, "slot_mapping")


def _blocks(call: Call) -> int:
    return 2 * max(1, math.ceil(call.s / PAGE))
