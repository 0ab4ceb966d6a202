"""Make the arguments of a drawn call, through the public API alone."""

import math
import random
from dataclasses import dataclass, field

from .call import OF_TWO, Call


@dataclass
class Arguments:
    """What a call gets. `weights` and `sums` are empty for a rotation."""

    call: Call
    tensors: list  # to rotate: one, or q and k
    freqs: object
    options: dict  # by keyword
    weights: list = field(default_factory=list)  # one for each tensor; a weight may be None
    sums: list = field(default_factory=list)  # of squares, one for each tensor; or none

    def given(self, package, tensors) -> tuple[list, dict]:
        """By position and by keyword, to rotate these tensors."""
        sums = self.sums or _sums_of_rows(self.call, package, tensors)
        if sums:
            sums = {"sumsq": tuple(sums) if self.call.function in OF_TWO else sums[0]}
        by_position = [*tensors, *self.weights, self.freqs, self.call.tensor_format]
        return by_position, self.options | dict(sums)


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
    names = "interleaved", "inplace", "fused", "inverse", "rotary_start", "output_pairing"
    made.options |= {name: getattr(call, name) for name in names}
    if call.rounding is not None:  # so that older checkouts can be compared by their calls
        made.options["rounding"] = call.rounding
    if call.rotary_dim_is_named:
        made.options["rotary_dim"] = call.rotary_dim
    if call.norm:
        made.weights = _weights(call, make)
        made.sums = _sums(call, make)
        names = "eps", "weight_offset", "norm_after"
        made.options |= {name: getattr(call.norm, name) for name in names} | _norm_dim(call)
    return made


def _tensors(call: Call, make: Maker) -> list:
    dtype, heads = call.dtype, call.heads
    if len(heads) == 1:
        tensors = [make.laid_out(call.shape(*heads), dtype, call.layouts[0], "t")]
    elif call.storage == "separate":
        named = zip(heads, call.layouts, "qk", strict=True)
        tensors = [make.laid_out(call.shape(h), dtype, layout, x) for h, layout, x in named]
    elif call.storage == "packed heads":
        every_head = [*heads, heads[1]]
        layout = "heads last" if call.tensor_format == "bhsd" else "contiguous"
        qkv = make.laid_out(call.shape(sum(every_head)), dtype, layout, "qkv")
        tensors = list(qkv.split(every_head, call.tensor_format.index("h"))[:2])
    else:
        shape = call.shape(heads[0])
        qkv = make.normal([*shape[:-1], 3 * shape[-1]], dtype, "qkv")
        tensors = list(qkv.chunk(3, -1)[:2])
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
        drawn = call.module
        axes = max(drawn.axes) + 1 if drawn.ids_of_axes else 1
        count = call.s * entries * axes
        values = [first + rng.randrange(call.id_range) for _ in range(count)]
        shape = [axes] * drawn.ids_of_axes + [entries] * (not call.packed) + [call.s]
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
    if not call.one_column_per_pair:
        return module(rows)
    if call.module.cos_sin_per_pair:
        dtype = getattr(make.torch, call.freqs_dtype)
        return module.cos_sin_per_pair(rows, dtype=dtype)
    return module.angles_per_pair(rows)


def _module(call: Call, package, make: Maker):
    drawn, d2, torch = call.module, call.rotary_dim, make.torch
    dim, percent = (2 * d2, 0.5) if drawn.rotary_percent else (d2, 1.0)
    factor, trained = drawn.interpolation or (None, None)
    more = {"axes": drawn.axes, "attention_factor": drawn.attention_factor}
    more = {name: value for name, value in more.items() if value is not None}
    base = drawn.rotary_base
    if drawn.inv_freq:
        base, more["inv_freq"] = 10000.0, make.normal((d2 // 2,), drawn.inv_freq).abs()
    module = package.RotaryPositionEmbedding(
        dim, percent, factor, trained, base, call.interleaved, **more
    ).to(make.device)
    if drawn.changed == "assigned":
        module.inv_freq = make.normal((d2 // 2,), "float32").abs()
    elif drawn.changed == "in place":
        module.cos_sin_per_pair(3)
        with torch.no_grad():
            module.inv_freq.mul_(0.75)
    elif drawn.changed == "cast":
        module = module.half()
    make.memory["inv_freq"] = module.inv_freq
    return module


# --- what a norm takes ---------------------------------------------------------------------------


def _weights(call: Call, make: Maker) -> list:
    drawn, heads, d = call.norm, call.heads, call.d
    exact = "float64" if call.dtype == "float64" else "float32"
    dtypes = {"of t": call.dtype, "float32": "float32", "exact": exact}
    kinds = drawn.weight.split(" and ")
    weights = []
    for number, (h, kind) in enumerate(zip(heads, [*kinds, kinds[-1]], strict=False)):
        shape, name = [h, d] if kind == "per head" else [d], f"weight[{number}]"
        layout, dtype = drawn.weight_layout, dtypes[drawn.weight_dtype]
        weights.append(None if kind == "none" else make.laid_out(shape, dtype, layout, name))
    return weights


def _sums(call: Call, make: Maker) -> list:
    """Sums of squares that the call gets; those of the rows are computed when they are known."""
    drawn = call.norm
    if drawn.sums == "own" or drawn.sums_of_the_rows:
        return []
    dtype = "float64" if call.dtype == "float64" else "float32"
    sums = []
    for number, heads in enumerate(call.heads):
        shape = call.shape(1 if drawn.sums == "all heads" else heads)[:-1]
        name = f"sumsq[{number}]"
        x = make.laid_out(shape, dtype, drawn.sums_layout, "").square() * call.d
        x = make.kept(x, name)
        sums.append(x[:1].expand(shape) if drawn.sums_layout == "expanded" else x)
    return sums


def _sums_of_rows(call: Call, package, tensors: list) -> list:
    """Sums of squares of the rows themselves, if the call is to have them."""
    drawn = call.norm
    if not drawn or drawn.sums == "own" or not drawn.sums_of_the_rows:
        return []
    sums, heads = [package.sum_of_squares(t) for t in tensors], call.tensor_format.index("h")
    return [x.sum(heads, keepdim=True) for x in sums] if drawn.sums == "all heads" else sums


def _norm_dim(call: Call) -> dict:
    """The number of squares in a sum; of each of two, where they differ."""
    drawn, d = call.norm, call.d
    if not drawn.norm_dim_is_named:
        return {}
    dims = {"own": [d, d], "each head": [3 * d, 3 * d]}
    dims = dims.get(drawn.sums, [d * max(1, heads) for heads in call.heads])
    pair = len(call.heads) == 2 and (drawn.norm_dim_is_a_pair or dims[0] != dims[1])
    return {"norm_dim": tuple(dims) if pair else dims[0]}
