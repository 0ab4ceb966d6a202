"""Calls that normalize and rotate, as plain data: each branch of the norm's kernels.

No branch is tried with every other. Each group varies one thing, in the layouts that it matters in.
"""

from dataclasses import dataclass, field, replace

FORMATS = "sbhd", "bhsd", "thd"  # rows of a position, positions of a row, packed rows
OF_AXES = "ids of three axes"  # which only a module has
PER_PAIR = "angles per pair", "cos, sin per pair"
FREQS = "module", "table", "cos, sin", *PER_PAIR
WITH_A_BACKWARD = "weights", "sums", "where"  # groups that need no forward alone
TO_HALF = {"interleaved": True, "output_pairing": "half"}


@dataclass(frozen=True)
class NormCase:
    """One call. Sizes are small where they only set the number of programs."""

    heads: tuple[int, ...] = (8,)  # of t, or of q and of k
    tensor_format: str = "sbhd"
    s: int = 64
    b: int = 2
    d: int = 128
    dtype: str = "bfloat16"
    memory: str = "contiguous"  # or an order of dimensions, "odd address", "packed qkv"
    freqs: str = "module"
    rotary_dim: int = 0  # 0: d
    weight: str = "row"  # or "per head", "none", "of q alone"
    weight_dtype: str = ""  # "": that of the elements
    where: str = "index"  # or what `_positions` lists
    sums: str = "own"  # or given: "each head", "all heads"
    frozen: tuple[str, ...] = ()  # what wants no gradient: names of arguments
    upstream: str = "contiguous"  # or "expanded", "transposed"
    options: dict = field(default_factory=dict)
    also_alone: bool = True  # the forward without a backward, which keeps nothing for it

    @property
    def directions(self) -> tuple[str, ...]:
        """What is new about the case: the forward alone, or with a backward after it."""
        if self.options.get("inplace"):
            return ("forward",)  # it has no gradients
        if self.frozen or self.upstream != "contiguous" or not self.also_alone:
            return ("backward",)
        return "forward", "backward"


Cases = dict[str, NormCase]


def every_case() -> Cases:
    """All cases by name."""
    groups = {
        "dtypes": _dtypes_and_tables(),
        "sizes": _head_dimensions() | _numbers_of_rows(),
        "pairs": _pairings(),
        "slices": _slices(),
        "arithmetic": _arithmetic(),
        "weights": _weights(),
        "sums": _sums(),
        "where": _positions(),
        "memory": _memory(),
        "wanted": _gradients(),
    }
    return {
        f"{group} | {name}": replace(case, also_alone=group not in WITH_A_BACKWARD)
        for group, cases in groups.items()
        for name, case in cases.items()
    }


def _in_formats(name: str, case: NormCase, formats: tuple[str, ...] = FORMATS) -> Cases:
    return {f"{name}, {x}": replace(case, tensor_format=x) for x in formats}


def _dtypes_and_tables() -> Cases:
    cases = {}
    for freqs in (*FREQS, "3-D cos, sin"):
        for dtype in ("float16", "float32", "float64"):
            cases[f"{dtype}, {freqs}"] = NormCase(dtype=dtype, freqs=freqs)
        formats = ("sbhd", "bshd", "bhsd") + (("thd",) if freqs != "3-D cos, sin" else ())
        cases |= _in_formats(f"bfloat16, {freqs}", NormCase(freqs=freqs), formats)
    for dtype in ("float32", "float64"):
        for freqs in ("module", "cos, sin per pair"):
            case = NormCase(dtype=dtype, freqs=freqs)
            cases |= _in_formats(f"{dtype}, {freqs}", case, ("bhsd", "thd"))
    return cases


def _head_dimensions() -> Cases:
    cases = {}
    for d in (64, 80, 96, 256):
        for freqs in ("module", "cos, sin per pair"):
            cases |= _in_formats(f"d {d}, {freqs}", NormCase(d=d, freqs=freqs))
    for d in (16, 30, 72, 512):
        cases[f"d {d}, module, sbhd"] = NormCase(d=d)
    cases["d 512, cos, sin per pair, bhsd"] = NormCase(
        d=512, freqs="cos, sin per pair", tensor_format="bhsd"
    )
    cases["d 512, float64"] = NormCase(d=512, dtype="float64")  # two warps
    cases["d 256, float32, bhsd"] = NormCase(d=256, dtype="float32", tensor_format="bhsd")
    return cases


def _numbers_of_rows() -> Cases:
    """Heads of q and k, and from one token to many: few programs, or few partial sums for many."""
    cases = {}
    for heads in ((32, 8), (8, 1), (16, 16)):
        cases |= _in_formats(f"heads {heads[0]} and {heads[1]}", NormCase(heads=heads))
    for heads in ((40, 8), (5, 2), (3, 1), (1, 1), (1,), (3,)):
        name = "heads " + " and ".join(map(str, heads))
        cases[name] = NormCase(heads=heads)
        cases[f"{name}, b 1, table"] = NormCase(heads=heads, b=1, freqs="table")
    pair = NormCase(heads=(32, 8))
    table = replace(pair, freqs="cos, sin per pair")
    cases |= {
        "decode, b 1": replace(pair, s=1, b=1),
        "decode, b 64": replace(pair, s=1, b=64),
        "decode, b 256, table": replace(table, s=1, b=256),  # more shares than are added at once
        "decode, b 4096": replace(pair, s=1, b=4096),  # a program adds all rows
        "decode, b 4096, bshd, starts": replace(
            pair, s=1, b=4096, tensor_format="bshd", where="starts"
        ),
        "s 4096": replace(pair, s=4096),
        "s 4096, table": replace(table, s=4096),
        "s 4096, table, bhsd": replace(table, s=4096, tensor_format="bhsd"),
        "s 77, b 1": replace(pair, s=77, b=1),
    }
    return cases


def _pairings() -> Cases:
    cases = {}
    ways = {"interleaved": {"interleaved": True}, "to half": TO_HALF}
    for name, options in ways.items():
        for freqs in ("module", "table", "cos, sin per pair"):
            cases |= _in_formats(
                f"{name}, {freqs}", NormCase(freqs=freqs, options=options), ("sbhd", "bhsd")
            )
        after = NormCase(options=options | {"norm_after": True})
        cases[f"{name}, norm after"] = after
        cases[f"{name}, norm after, per head"] = replace(after, weight="per head")
        cases[f"{name}, inverse"] = NormCase(options=options | {"inverse": True})
    return cases


def _slices() -> Cases:
    """Elements that do not turn: a tail, a head, or both."""
    cases = {}
    for d, rotary_dim, start in (
        (128, 64, 0),
        (128, 64, 32),
        (192, 64, 128),
        (72, 36, 0),
        (100, 30, 4),
    ):
        case = NormCase(d=d, rotary_dim=rotary_dim, options={"rotary_start": start})
        cases[f"d {d}, {rotary_dim} from {start}, module"] = case
        per_pair = replace(case, freqs="cos, sin per pair", tensor_format="bhsd")
        cases[f"d {d}, {rotary_dim} from {start}, cos, sin per pair, bhsd"] = per_pair
    half = NormCase(rotary_dim=64, heads=(8, 2))
    return cases | {
        "half rotary, table": replace(half, freqs="table"),
        "half rotary, packed": replace(half, tensor_format="thd"),
        "half rotary, interleaved": replace(half, options={"interleaved": True}),
        "half rotary, norm after": replace(half, options={"norm_after": True}),
    }


def _arithmetic() -> Cases:
    after, model = {"norm_after": True}, {"rounding": "model"}
    ways = {
        "norm after": after,
        "model": model,
        "model, norm after": model | after,
        "inverse": {"inverse": True},
        "inverse, norm after": {"inverse": True} | after,
    }
    cases = {}
    for name, options in ways.items():
        for freqs in ("module", "cos, sin"):
            cases[f"{name}, {freqs}"] = NormCase(freqs=freqs, options=options)
    per_pair = NormCase(freqs="cos, sin per pair")
    for name, options in (("norm after", after), ("model", model)):
        cases |= _in_formats(f"{name}, per pair", replace(per_pair, options=options))
    for dtype in ("float16", "float32", "float64"):
        cases[f"model, {dtype}"] = NormCase(dtype=dtype, freqs="cos, sin", options=model)
    return cases | {
        "model, interleaved": NormCase(options=model | {"interleaved": True}),
        "norm after, float64": NormCase(dtype="float64", options=after),
        "eps 1": NormCase(options={"eps": 1.0}),
        "weight_offset 1": NormCase(options={"weight_offset": 1.0}),
        "weight_offset 1, model": NormCase(options=model | {"weight_offset": 1.0}),
    }


def _weights() -> Cases:
    cases, one, two = {}, NormCase(), NormCase(heads=(8, 2))
    kinds = {
        "none": {"weight": "none"},
        "per head": {"weight": "per head"},
        "fp32": {"weight_dtype": "float32"},
        "per head, fp32": {"weight": "per head", "weight_dtype": "float32"},
    }
    for name, kind in kinds.items():
        cases |= _in_formats(f"{name}, one", replace(one, **kind))
        cases[f"{name}, q and k"] = replace(two, **kind)
        table = replace(two, freqs="cos, sin per pair", tensor_format="bhsd", **kind)
        cases[f"{name}, q and k, per pair, bhsd"] = table
    per_head = replace(two, weight="per head")
    return cases | {
        "per head, one token": replace(per_head, s=1, b=1),  # no shares to add
        "per head, as many of q and k": replace(per_head, heads=(8, 8)),
        "per head, d 80": replace(per_head, d=80),
        "per head, norm after": replace(per_head, options={"norm_after": True}),
        "per head, model": replace(per_head, options={"rounding": "model"}),
        "of q alone": replace(two, weight="of q alone"),  # two launches
        "fp32, float16": NormCase(dtype="float16", weight_dtype="float32"),
        "fp32, float64": NormCase(dtype="float64", weight_dtype="float32"),
    }


def _sums() -> Cases:
    cases = {}
    for sums in ("each head", "all heads"):
        given = NormCase(sums=sums)
        cases |= _in_formats(sums, given)
        cases[f"{sums}, no weight"] = replace(given, weight="none")
        cases[f"{sums}, norm after"] = replace(given, options={"norm_after": True})
        cases[f"{sums}, float64"] = replace(given, dtype="float64")
        cases[f"{sums}, q and k"] = replace(given, heads=(8, 8))
        cases[f"{sums}, 8 and 2 heads"] = replace(given, heads=(8, 2))
        cases[f"{sums}, 8 and 2 heads, bhsd"] = replace(given, heads=(8, 2), tensor_format="bhsd")
    per_head = NormCase(sums="all heads", weight="per head")
    return cases | {
        "all heads, per head": per_head,
        "all heads, per head, per pair": replace(per_head, freqs="cos, sin per pair"),
        "all heads, model": NormCase(sums="all heads", options={"rounding": "model"}),
    }


def _positions() -> Cases:
    cases = {}
    dense = (
        "one start",
        "starts",
        "int32 starts",
        "ids",
        "int32 ids",
        "shared ids",
        "cp",
        "cp, starts",
    )
    for freqs in ("module", "table"):
        for where in dense:
            cases[f"{where}, {freqs}"] = NormCase(freqs=freqs, where=where)
        for where in ("starts", "ids", "cp", "cp, starts"):
            case = NormCase(freqs=freqs, where=where, tensor_format="thd")
            cases[f"thd, {where}, {freqs}"] = case
    for tensor_format in FORMATS:
        case = NormCase(tensor_format=tensor_format, where=OF_AXES)
        cases[f"{OF_AXES}, {tensor_format}"] = case
        cases[f"q and k, {OF_AXES}, {tensor_format}"] = replace(case, heads=(8, 2))
    pair = NormCase(heads=(8, 2), freqs="cos, sin per pair")
    cases |= {f"q and k, {x}": replace(pair, where=x) for x in ("starts", "ids", "cp")}
    packed = NormCase(tensor_format="thd", options={"norm_after": True})
    return cases | {
        "bhsd, ids, per pair": replace(pair, tensor_format="bhsd", where="ids"),
        "thd, q and k, per pair": replace(pair, tensor_format="thd"),
        "thd, norm after": packed,
        "thd, norm after, table": replace(packed, freqs="table"),
        "thd, to half": replace(packed, options=TO_HALF),
        "thd, inverse": replace(packed, options={"inverse": True}),
        "thd, model": replace(packed, options={"rounding": "model"}),
        f"{OF_AXES}, interleaved": NormCase(where=OF_AXES, options={"interleaved": True}),
        f"{OF_AXES}, norm after": NormCase(where=OF_AXES, options={"norm_after": True}),
    }


def _memory() -> Cases:
    """Where rows are, and calls that overwrite them."""
    cases = {}
    for name, case in {
        "bhsd stored bshd": NormCase(tensor_format="bhsd", memory="bshd"),
        "sbhd stored bshd": NormCase(memory="bshd"),
        "sbhd stored bhsd, per pair": NormCase(memory="bhsd", freqs="cos, sin per pair"),
        "odd address": NormCase(memory="odd address"),
        "odd address, bhsd, per pair": NormCase(
            memory="odd address", tensor_format="bhsd", freqs="cos, sin per pair"
        ),
        "packed qkv": NormCase(heads=(8, 8), memory="packed qkv"),
        "packed qkv, thd": NormCase(heads=(8, 2), memory="packed qkv", tensor_format="thd"),
        "packed qkv, table, bhsd": NormCase(
            heads=(8, 2), memory="packed qkv", tensor_format="bhsd", freqs="table"
        ),
        "d 100": NormCase(heads=(8, 2), d=100, memory="packed qkv"),
    }.items():
        cases[name] = case
        cases[f"{name}, in place"] = replace(case, options={"inplace": True})
    for tensor_format in FORMATS:
        in_place = NormCase(tensor_format=tensor_format, options={"inplace": True})
        cases[f"{tensor_format}, in place"] = in_place
    for upstream in ("expanded", "transposed"):
        cases[f"gradient {upstream}"] = NormCase(upstream=upstream)
        cases[f"gradient {upstream}, q and k, bhsd"] = NormCase(
            upstream=upstream, heads=(8, 2), tensor_format="bhsd", freqs="cos, sin per pair"
        )
    return cases


def _gradients() -> Cases:
    """Which gradients are wanted: what is frozen needs no store, or no second launch."""
    one, two = NormCase(), NormCase(heads=(8, 2))
    of_both = {"weights": ("q_weight", "k_weight"), "rows": ("q", "k")}
    cases = {}
    for freqs in ("module", "cos, sin per pair"):
        cases[f"frozen weight, {freqs}"] = replace(one, freqs=freqs, frozen=("weight",))
        cases[f"frozen rows, {freqs}"] = replace(one, freqs=freqs, frozen=("t",))
        for name, frozen in of_both.items():
            cases[f"q and k, frozen {name}, {freqs}"] = replace(two, freqs=freqs, frozen=frozen)
    packed, given = replace(one, tensor_format="thd"), replace(one, sums="each head")
    return cases | {
        "packed, frozen weight": replace(packed, frozen=("weight",)),
        "packed, frozen rows": replace(packed, frozen=("t",)),
        "per head, frozen rows": replace(one, weight="per head", frozen=("t",)),
        "per head, frozen weight": replace(one, weight="per head", frozen=("weight",)),
        "norm after, frozen weight": replace(one, frozen=("weight",), options={"norm_after": True}),
        "q alone": replace(two, frozen=("k", "k_weight")),
        "weight of k alone": replace(two, frozen=("q", "q_weight", "k")),
        "q_weight frozen": replace(two, frozen=("q_weight",)),  # two launches
        "sums, frozen weight": replace(given, frozen=("weight",)),
        "sums alone": replace(given, frozen=("t", "weight")),
        "sums frozen": replace(given, frozen=("sumsq",)),
    }
