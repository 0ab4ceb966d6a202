"""Calls that normalize and rotate, forward and backward: those of `norm_cases`, and those timed."""

from collections.abc import Callable, Iterator

import compare_speed

from .norm_cases import OF_AXES, PER_PAIR, NormCase, every_case

NAMES = {  # of the arguments that may want a gradient
    "norm_rope": ("t", "weight", "sumsq"),
    "qk_norm_rope": ("q", "k", "q_weight", "k_weight", "sumsq", "sumsq"),
}


def every_call(package) -> Iterator[tuple[str, Callable[[], object]]]:
    """Name and call of each case and direction. A call with a backward makes its forward first."""
    for name, case in every_case().items():
        if case.where == OF_AXES and not hasattr(package, "mrope_axes"):
            continue  # an older checkout
        for direction in case.directions:
            yield (
                f"norm | {name} | {direction}",
                lambda case=case, direction=direction: _call(package, case, direction),
            )
    for name, case in (compare_speed.device_cases() | compare_speed.host_cases()).items():
        if case["norm"]:
            yield f"norm | timed | {name}", lambda case=case: compare_speed.make_call(case, "cpu")()


def _call(package, case: NormCase, direction: str) -> None:
    """Tensors are never written, so the largest cost nothing: their memory is not touched."""
    import torch

    function = package.norm_rope if len(case.heads) == 1 else package.qk_norm_rope
    rows, weights = _rows(case), _weights_of(case)
    sums, options = _sums_of(case, rows)
    freqs, where = _freqs_and_where(package, case)
    options |= where | case.options

    def call() -> tuple:
        sumsq = tuple(sums) if len(sums) == 2 else next(iter(sums), None)
        outs = function(*rows, *weights, freqs, case.tensor_format, sumsq=sumsq, **options)
        return outs if isinstance(outs, tuple) else (outs,)

    if direction == "forward":
        with torch.no_grad():
            call()
        return
    named = zip(NAMES[function.__name__], (*rows, *weights, *sums), strict=False)
    leaves = [x.requires_grad_() for name, x in named if x is not None and name not in case.frozen]
    outs = [out for out in call() if out.requires_grad]
    grads = [_upstream(case, out) for out in outs]
    torch.autograd.grad(outs, leaves, grads)


def _tokens(case: NormCase) -> int:
    """The sequence length, or the number of packed tokens."""
    return case.s * case.b if case.tensor_format == "thd" else case.s


def _rows(case: NormCase) -> list:
    if case.memory == "packed qkv":
        dim = case.tensor_format.index("h")
        every_head = [*case.heads, case.heads[-1]]
        qkv = _empty(case, sum(every_head), case.tensor_format)
        return list(qkv.split(every_head, dim)[:2])
    return [_empty(case, count, case.memory) for count in case.heads]


def _empty(case: NormCase, heads: int, memory: str):
    """A tensor in the case's format, in memory as it says."""
    import torch

    dtype = getattr(torch, case.dtype)
    sizes = {"s": case.s, "t": _tokens(case), "b": case.b, "h": heads, "d": case.d}
    shape = [sizes[dim] for dim in case.tensor_format]
    if memory == "odd address":
        return torch.empty(torch.Size(shape).numel() + 1, dtype=dtype)[1:].view(shape)
    if set(memory) != set(case.tensor_format):
        return torch.empty(shape, dtype=dtype)
    t = torch.empty([sizes[dim] for dim in memory], dtype=dtype)
    return t.permute([memory.index(dim) for dim in case.tensor_format])


def _weights_of(case: NormCase) -> list:
    import torch

    dtype = getattr(torch, case.weight_dtype or case.dtype)
    kinds = {"of q alone": ["row", "none"]}.get(case.weight, [case.weight] * len(case.heads))
    shapes = [{"row": (case.d,), "per head": (heads, case.d)} for heads in case.heads]
    return [
        None if kind == "none" else torch.empty(shape[kind], dtype=dtype)
        for kind, shape in zip(kinds, shapes, strict=True)
    ]


def _sums_of(case: NormCase, rows: list) -> tuple[list, dict]:
    """Sums of squares, and the number of squares in them."""
    import torch

    if case.sums == "own":
        return [], {}
    dtype, dim = torch.promote_types(rows[0].dtype, torch.float32), case.tensor_format.index("h")
    shapes = [list(t.shape[:-1]) for t in rows]
    if case.sums == "each head":
        return [torch.ones(shape, dtype=dtype) for shape in shapes], {}
    for shape in shapes:
        shape[dim] = 1
    dims = tuple(heads * case.d for heads in case.heads)
    sums = [torch.ones(shape, dtype=dtype) for shape in shapes]
    return sums, {"norm_dim": dims[0] if len(set(dims)) == 1 else dims}


def _freqs_and_where(package, case: NormCase) -> tuple[object, dict]:
    import torch

    d2, s = case.rotary_dim or case.d, case.s
    rows = 4 * s * (case.b if case.tensor_format == "thd" else 1)
    make, where = {"interleaved": case.options.get("interleaved", False)}, _where(case)
    if case.where == OF_AXES:
        make["axes"] = [pair % 3 for pair in range(d2 // 2)]
    module = package.RotaryPositionEmbedding(d2, **make)
    if case.freqs in PER_PAIR or "rotary_start" in case.options:
        where["rotary_dim"] = d2
    if case.freqs in PER_PAIR:
        make = {"angles per pair": module.angles_per_pair, PER_PAIR[1]: module.cos_sin_per_pair}
        return make[case.freqs](rows), where
    if case.freqs in ("module", "table"):
        return (module if case.freqs == "module" else module(rows)), where
    shape = (case.b, rows, d2) if case.freqs.startswith("3-D") else (rows, d2)
    return tuple(torch.empty(shape, dtype=getattr(torch, case.dtype)) for _ in range(2)), where


def _where(case: NormCase) -> dict:
    """The options that say where tokens are. Their values are not read."""
    import torch

    packed, where = case.tensor_format == "thd", {}
    if packed and case.where != "ids":
        cuts = [0, case.s // 2, case.s // 2, _tokens(case)]
        where["cu_seqlens"] = torch.tensor(cuts, dtype=torch.int32)
    if "cp" in case.where:
        where |= {"cp_size": 2, "cp_rank": 1}
    if case.where == "one start":
        where["start_positions"] = 5
    elif "starts" in case.where:
        dtype = torch.int32 if "int32" in case.where else torch.int64
        where["start_positions"] = torch.zeros(3 if packed else case.b, dtype=dtype)
    elif "ids" in case.where:
        dtype = torch.int32 if "int32" in case.where else torch.int64
        shape = (1 if case.where == "shared ids" else case.b, case.s)
        shape = (_tokens(case),) if packed else shape
        shape = (3, *shape) if case.where == OF_AXES else shape
        where["position_ids"] = torch.zeros(shape, dtype=dtype)
    return where


def _upstream(case: NormCase, out):
    import torch

    if case.upstream == "expanded":
        return torch.empty((), dtype=out.dtype).expand(out.shape)
    if case.upstream == "transposed":
        shape = out.shape[1], out.shape[0], *out.shape[2:]
        return torch.empty(shape, dtype=out.dtype).transpose(0, 1)
    return torch.empty_like(out)
