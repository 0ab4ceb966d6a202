"""Mistakes in the arguments of a call. Most are refused; the types of the errors are compared."""

from collections.abc import Callable
from dataclasses import replace

from .draw import NORM_MISTAKES
from .make import Arguments, Maker, rows_needed

Changes = dict[str, Callable[[], object]]


def spoil(call: dict, arguments: Arguments, make: Maker) -> Arguments:
    """The same arguments with the drawn mistake; where it does not apply nothing happens."""
    spoilt = replace(
        arguments,
        tensors=list(arguments.tensors),
        options=dict(arguments.options),
        weights=list(arguments.weights),
        sums=list(arguments.sums),
    )
    changes = _of_tensors(call, spoilt) | _of_options(call, spoilt.options, make)
    changes |= _of_freqs(call, spoilt, make)
    if hasattr(spoilt.freqs, "inv_freq"):
        changes |= _of_module(call, spoilt.freqs)
    if call["norm"]:
        changes |= _of_norm_options(spoilt.options)
        changes |= _of_weights(spoilt.weights, make) | _of_sums(call, spoilt, make)
    if call["mistake"] in changes:
        with make.torch.no_grad():
            changes[call["mistake"]]()
    return spoilt


def _of_tensors(call: dict, spoilt: Arguments) -> Changes:
    tensors = spoilt.tensors
    first, last = tensors[0], tensors[-1]

    def put(number: int, t) -> None:
        tensors[number] = t

    return {
        "no tensor": lambda: put(0, [1.0, 2.0]),
        "integer tensor": lambda: put(0, first.nan_to_num(0, 0, 0).int()),
        "rank": lambda: put(0, first[0]) if len(first) else None,
        "dtype of k": lambda: put(-1, last.half().float()),
        "shape of k": lambda: put(-1, last[..., :-1]),
        "meta": lambda: put(0, first.to("meta")),
        "sparse": lambda: put(0, first.to_sparse()),
        "k overlaps q": lambda: _overlap(call, tensors, spoilt.options),
        "windows": lambda: _windows(first, tensors, spoilt.options),
    }


def _of_options(call: dict, options: dict, make: Maker) -> Changes:
    def put(name: str, *values: int, dtype: str = "int64") -> Callable:
        return lambda: options.update({name: make.integers(values, dtype)})

    def put_value(name: str, value) -> Callable:
        return lambda: options.update({name: value})

    d = call["sizes"]["d"]
    return {
        "format": put_value("tensor_format", "hsbd"),
        "unknown option": put_value("positon_ids", None),
        "cp_rank": put_value("cp_rank", 7),
        "cp_size": put_value("cp_size", 0),
        "interleaved type": put_value("interleaved", int(call["interleaved"])),
        "cu_seqlens start": put("cu_seqlens", 1, 1),
        "cu_seqlens falls": put("cu_seqlens", 0, 2, 0),
        "cu_seqlens end": put("cu_seqlens", 0, 10_000),
        "cu_seqlens dtype": put("cu_seqlens", 0, 0, dtype="int16"),
        "cu_seqlens rank": put("cu_seqlens"),
        "cu_seqlens": put_value("cu_seqlens", None),
        "ids and starts": lambda: options.update(
            position_ids=make.integers([0], "int64"), start_positions=make.integers([0], "int64")
        ),
        "negative id": lambda: _fill(options, "position_ids", -1),
        "large id": lambda: _fill(options, "position_ids", 120),
        "negative start": lambda: _fill(options, "start_positions", -1),
        "shape of ids": put("position_ids", *range(31)),
        "dtype of ids": put("position_ids", 0, dtype="float32"),
        "shape of starts": put("start_positions", *range(31)),
        "start is True": put_value("start_positions", True),
        "start is 1.5": put_value("start_positions", 1.5),
        "odd rotary_dim": put_value("rotary_dim", call["rotary_dim"] - 1),
        "large rotary_dim": put_value("rotary_dim", d + 2),
        "half rotary_dim": put_value("rotary_dim", call["rotary_dim"] // 4 * 2),
        "rotary_dim is a float": put_value("rotary_dim", float(call["rotary_dim"])),
        "negative rotary_start": put_value("rotary_start", -1),
        "large rotary_start": put_value("rotary_start", d - call["rotary_dim"] + 1),
        "inverse is 1": put_value("inverse", 1),
        "output_pairing": put_value("output_pairing", "interleaved"),
        "output_pairing in place": lambda: options.update(output_pairing="half", inplace=True),
        "inplace is a str": put_value("inplace", "False"),
        "inplace is 1": put_value("inplace", 1),
        "fused is a str": put_value("fused", "no"),
        "cp_size is True": put_value("cp_size", True),
    }


def _of_freqs(call: dict, spoilt: Arguments, make: Maker) -> Changes:
    rows, d2 = rows_needed(call), call["rotary_dim"]

    def table(count: int, width: int, dtype: str = "float32"):
        return make.normal((count, 1, 1, width), dtype)

    def pair() -> list:
        return [make.normal((rows, d2), "float32") for _ in range(2)]

    def of_two_dtypes() -> tuple:
        cos, sin = pair()
        return cos, sin.half()

    wrong = {
        "short table": lambda: table(max(0, rows - 30), d2),
        "odd width": lambda: table(rows, d2 - 1),
        "wide table": lambda: table(rows, call["sizes"]["d"] + 2),
        "half table": lambda: table(rows, d2, "bfloat16"),
        "no freqs": lambda: None,
        "one table": lambda: tuple(pair()[:1]),
        "dtypes of cos and sin": of_two_dtypes,
        "batch of cos": lambda: tuple(x.expand(7, rows, d2) for x in pair()),
    }
    return {
        name: lambda made=made: setattr(spoilt, "freqs", made()) for name, made in wrong.items()
    }


def _of_module(call: dict, module) -> Changes:
    def put(change: Callable) -> Callable:
        return lambda: setattr(module, "inv_freq", change(module.inv_freq.clone()))

    def put_first(value: float) -> Callable:
        return put(lambda inv_freq: inv_freq.index_fill(0, inv_freq.new_zeros(1).long(), value))

    return {
        "module pairing": lambda: setattr(module, "interleaved", not call["interleaved"]),
        "bf16 inv_freq": put(lambda inv_freq: inv_freq.bfloat16()),
        "fp16 inv_freq": put(lambda inv_freq: inv_freq.half()),
        "NaN in inv_freq": put_first(float("nan")),
        "infinite inv_freq": put_first(float("inf")),
    }


def _of_norm_options(options: dict) -> Changes:
    """A wrong value of an option: the mistake's name says both."""
    values = {"inf": float("inf"), "nan": float("nan"), "None": None, "True": True}
    values |= {"'1e-6'": "1e-6", "'twice'": "twice", "(8,)": (8,), "[8, 8]": [8, 8]}
    values |= {"(8, None)": (8, None), "-1e-06": -1e-6, "30.0": 30.0}
    changes = {"no norm_dim": lambda: options.pop("norm_dim", None)}
    for mistake in NORM_MISTAKES:
        name, _, said = mistake.partition(" ")
        if name in ("eps", "weight_offset", "norm_after", "rounding", "norm_dim"):
            value = values[said] if said in values else int(said)
            changes[mistake] = lambda name=name, value=value: options.update({name: value})
    return changes


def _of_weights(weights: list, make: Maker) -> Changes:
    last = weights[-1]
    if last is None:
        return {}

    def put(change: Callable) -> Callable:
        return lambda: weights.__setitem__(-1, change())

    other = make.torch.float16 if last.dtype != make.torch.float16 else make.torch.bfloat16
    return {
        "weight is a list": put(lambda: [1.0] * last.shape[-1]),
        "integer weight": put(lambda: last.int()),
        "other dtype of weight": put(lambda: last.to(other)),
        "short weight": put(lambda: last[..., :-1]),
        "rank of weight": put(lambda: last[None, None]),
        "weight of other heads": put(lambda: last.new_ones(11, last.shape[-1])),
        "weight on meta": put(lambda: last.to("meta")),
    }


def _of_sums(call: dict, spoilt: Arguments, make: Maker) -> Changes:
    """A sum of squares that does not fit; sums of the rows are replaced by it."""
    t, sums = spoilt.tensors[-1], spoilt.sums

    def put(change: Callable) -> Callable:
        def changed() -> None:
            right = [x.detach().float().square().sum(-1) for x in spoilt.tensors]
            sums[:] = [*right[:-1], change(right[-1])]

        return changed

    heads = call["tensor_format"].index("h")
    return {
        "sumsq is a float": put(lambda x: 1.0),
        "half sumsq": put(lambda x: x.half()),
        "sumsq of rank 5": put(lambda x: x[..., None, None]),
        "sumsq of other heads": put(
            lambda x: x.new_ones(*x.shape[:heads], 17, *x.shape[heads + 1 :])
        ),
        "sumsq on meta": put(lambda x: x.to("meta").to(make.torch.promote_types(t.dtype, x.dtype))),
        "one sumsq": put(lambda x: None),
        "three sums": lambda: sums.extend([x.detach().sum(-1) for x in [t] * (3 - len(sums))]),
        "sumsq is a tensor": lambda: spoilt.options.update(sumsq=t.detach().sum(-1)),
    }


def _fill(options: dict, name: str, value: int) -> None:
    given = options.get(name)
    if hasattr(given, "dtype") and given.dtype.is_signed:
        options[name] = given.new_full(given.shape, value)


def _overlap(call: dict, tensors: list, options: dict) -> None:
    """k is q, or q shifted by some elements."""
    q, shift = tensors[0], call["extra rows"]
    if len(tensors) == 2 and q.dim() and q.is_contiguous():
        memory = q.new_zeros(q.numel() + shift)
        views = memory[: q.numel()].view(q.shape), memory[shift:].view(q.shape)
        tensors[:] = views
        options["inplace"] = True


def _windows(t, tensors: list, options: dict) -> None:
    """Rows that overlap the next ones, or that miss them by a little."""
    if len(tensors) == 1 and t.dim() == 4 and t.numel():
        strides = t.shape[3] - 1, 2 * t.shape[3] + 3, t.shape[3] + 5, 1
        memory = t.new_zeros(sum(s * n for s, n in zip(strides, t.shape, strict=True)))
        tensors[0] = memory.as_strided(t.shape, strides)
        options["inplace"] = True
