"""Calls that rotate: those of the tests and the benchmark, and each other branch of the kernels."""

import inspect
from collections.abc import Callable, Iterator
from itertools import pairwise

Calls = Iterator[tuple[str, Callable[[], object]]]


def every_call(package, cases: list[dict]) -> Calls:
    """Name and call of everything that is compiled."""
    yield from calls_of_tests(package)
    for case in cases:
        yield from calls_of_case(package, case)
    yield from more_calls(package)
    if "rotary_dim" in inspect.signature(package.rope_fw).parameters:
        yield from calls_with_slices(package)


def calls_of_tests(package) -> Calls:
    """Calls as those of tests/kernels/test_compiled_code.py, with their backward passes."""
    import torch

    s, b, h, d = 64, 2, 8, 128
    cu_seqlens, ids = torch.tensor([0, 10, s]), torch.zeros(b, s).long()
    make = package.RotaryPositionEmbedding
    rope, interleaved, half_rotary = make(d), make(d, interleaved=True), make(d, 0.5)

    def bf16(*shape):
        return torch.randn(shape, dtype=torch.bfloat16)

    odd = bf16(s * b * h * d + 1)[1:].view(s, b, h, d)
    one_tensor = {
        "table": (bf16(s, b, h, d), rope(s), "sbhd", {}),
        "on the fly": (bf16(s, b, h, d), rope, "sbhd", {}),
        "interleaved": (bf16(s, b, h, d), interleaved, "sbhd", {"interleaved": True}),
        "packed": (bf16(s, h, d), rope, "thd", {"cu_seqlens": cu_seqlens}),
        "one entry, one head": (bf16(s, 1, 1, d), rope, "sbhd", {}),
        "half rotary, new": (bf16(s, b, h, d), half_rotary, "sbhd", {}),
        "half rotary, in place": (bf16(s, b, h, d), half_rotary, "sbhd", {"inplace": True}),
        "half rotary, in the middle": (bf16(s, b, h, d), half_rotary, "sbhd", {"rotary_start": 32}),
        "d = 80": (bf16(s, b, 40, 80), make(80), "sbhd", {}),
        "odd address": (odd, rope, "sbhd", {}),
        "fp32, table": (torch.randn(s, b, h, d), rope(s), "sbhd", {}),
        "fp32, on the fly": (torch.randn(s, b, h, d), rope, "sbhd", {}),
        "fp32, packed": (torch.randn(s, h, d), rope, "thd", {"cu_seqlens": cu_seqlens}),
    }
    for name, (t, freqs, tensor_format, options) in one_tensor.items():
        for function in (package.rope_fw, package.rope_bw):
            yield (
                f"tests | {name} | {function.__name__}",
                lambda f=function, t=t, a=(freqs, tensor_format), o=options: f(t, *a, **o),
            )
    q, k = bf16(b, s, 3 * h, d).transpose(1, 2).split(h, dim=1)[:2]
    yield (
        "tests | q and k, packed qkv, in place | rope_qk",
        lambda: package.rope_qk(q, k, rope, "bhsd", inplace=True),
    )
    pair = bf16(b, s, h, d), bf16(b, s, 1, d)
    yield (
        "tests | q and k, position ids | rope_qk",
        lambda: package.rope_qk(*pair, rope, "bshd", position_ids=ids),
    )
    if "axes" in inspect.signature(make).parameters:
        three_axes = make(d, axes=package.mrope_axes([16, 24, 24]))
        ids_of_axes = torch.zeros(3, b, s).long()
        yield (
            "tests | q and k, three axes | rope_qk",
            lambda: package.rope_qk(*pair, three_axes, "bshd", position_ids=ids_of_axes),
        )


def more_calls(package) -> Calls:
    """What neither the tests nor the benchmark compile: each remaining branch of the kernel."""
    import torch

    s, b, h = 64, 2, 4
    starts, cu_seqlens = torch.arange(b), torch.tensor([0, 16, 16, 2 * s])
    ways = {
        "plain": {},
        "starts": {"start_positions": starts},
        "ids": {"position_ids": torch.zeros(b, s, dtype=torch.int32)},
        "shared ids": {"position_ids": torch.zeros(1, s, dtype=torch.int64)},
        "cp": {"cp_size": 2, "cp_rank": 1},
        "cp, starts": {"cp_size": 2, "cp_rank": 0, "start_positions": starts},
        "thd": {"cu_seqlens": cu_seqlens},
        "thd, cp, starts": {
            "cu_seqlens": 2 * cu_seqlens,
            "cp_size": 2,
            "start_positions": torch.arange(3),
        },
        "thd, ids": {"position_ids": torch.zeros(s * b, dtype=torch.int64)},
    }

    def calls(dtype: str, pairing: bool, d: int, d2: int, kinds: tuple, ways: dict) -> Calls:
        rope = package.RotaryPositionEmbedding(d2, interleaved=pairing)
        of = getattr(torch, dtype)
        every_kind = {
            "table": rope(4 * s),
            "module": rope,
            "cos, sin": (torch.zeros(4 * s, d2, dtype=of), torch.zeros(4 * s, d2, dtype=of)),
        }
        for kind in kinds:
            for way, options in ways.items():
                packed = way.startswith("thd")
                t = torch.zeros((s * b, h, d) if packed else (b, s, h, d), dtype=of)
                arguments = t, every_kind[kind], "thd" if packed else "bshd"
                options = options | {"interleaved": pairing}
                pair = "interleaved" if pairing else "halves"
                yield (
                    f"more | {dtype}, d {d}, d2 {d2}, {pair}, {kind}, {way} | rope_fw",
                    lambda arguments=arguments, options=options: package.rope_fw(
                        *arguments, **options
                    ),
                )

    every_kind, plain = ("table", "module", "cos, sin"), {"plain": {}}
    for pairing in (False, True):
        yield from calls("bfloat16", pairing, 64, 64, ("table", "module"), ways)
        for sizes in ((64, 64), (100, 30), (256, 128)):
            yield from calls("float32", pairing, *sizes, every_kind, plain)
            yield from calls("bfloat16", pairing, *sizes, every_kind, plain)
        for dtype in ("float16", "float64"):
            yield from calls(dtype, pairing, 80, 80, every_kind, plain)
    yield from calls("float32", False, 64, 64, ("module",), ways)


def calls_with_slices(package) -> Calls:
    """One angle per pair, other slices, the inverse and another order of the results."""
    import torch

    s, b, h = 64, 2, 4
    for d, d2, start in ((128, 128, 0), (192, 64, 128), (120, 120, 0), (72, 72, 0), (100, 50, 4)):
        t = torch.zeros(s, b, h, d, dtype=torch.bfloat16)
        table = torch.zeros(s, 1, 1, d2 // 2)
        one_per_pair = {"angles": table, "cos, sin": (table[:, 0, 0], table[:, 0, 0])}
        slice_of = {"rotary_dim": d2, "rotary_start": start}
        ways = {
            "new": {},
            "in place": {"inplace": True},
            "inverse": {"inverse": True},
            "interleaved": {"interleaved": True},
            "to half": {"interleaved": True, "output_pairing": "half"},
        }
        for kind, freqs in one_per_pair.items():
            for way, options in ways.items():
                name = f"slices | d {d}, d2 {d2} from {start}, {kind}, {way}"
                for function in (package.rope_fw, package.rope_bw):
                    yield (
                        f"{name} | {function.__name__}",
                        lambda f=function, a=(t, freqs), o=slice_of | options: f(*a, **o),
                    )


def calls_of_case(package, case: dict) -> Calls:
    """A benchmark case: each kind of freqs, forward, backward, and through autograd."""
    kinds = ["angles", "module"] + (["cos and sin"] if case["tensor_format"] != "thd" else [])
    for kind in kinds:
        for direction in ("forward", "backward", "autograd"):
            if case["inplace"] and direction == "autograd" and not case["k_heads"]:
                continue  # the benchmark does not time it
            yield (
                f"bench | {case['label']} | {kind} | {direction}",
                lambda kind=kind, direction=direction: _benchmark_call(
                    package, case, kind, direction
                ),
            )


def _benchmark_call(package, case: dict, kind: str, direction: str) -> None:
    """Tensors are never written, so the largest cost nothing: their memory is not touched."""
    import torch

    (freqs, options), tensor_format = _freqs(package, case, kind), case["tensor_format"]
    options |= {"interleaved": case["interleaved"], "inplace": case["inplace"]}
    heads = [case["h"], case["k_heads"]] if case["k_heads"] else [case["h"]]
    tensors = [_empty(case, count) for count in heads]
    if direction == "backward" and len(tensors) == 1:
        package.rope_bw(*tensors, freqs, tensor_format, **options)
        return
    function = package.rope_qk if len(tensors) == 2 else package.apply_rotary_pos_emb
    if direction == "forward":
        function(*tensors, freqs, tensor_format, **options)
        return
    leaves = [t.requires_grad_() for t in tensors]
    inputs = [t.clone() for t in leaves] if case["inplace"] else leaves
    results = function(*inputs, freqs, tensor_format, **options)
    results = results if isinstance(results, tuple) else (results,)
    grads = [_empty(case, count) for count in heads]
    torch.autograd.grad(results, leaves, grads)


def _empty(case: dict, heads: int):
    """A tensor in the case's format, in memory as the case stores it."""
    import torch

    dtype, memory = getattr(torch, case["dtype"]), case["stored"] or case["tensor_format"]
    sizes = {"s": case["s"], "b": case["b"], "h": heads, "d": case["d"], "t": case["s"]}
    t = torch.empty([sizes[dim] for dim in memory], dtype=dtype)
    return t.permute([memory.index(dim) for dim in case["tensor_format"]])


def _freqs(package, case: dict, kind: str) -> tuple[object, dict]:
    """`freqs` and the options that say where tokens are, as benchmarks/providers/ours.py does."""
    import torch

    s, b, d2 = case["s"], case["b"], case["rotary_dim"] or case["d"]
    if kind == "cos and sin":
        shape = (1 if case["positions"] == "index" else b, s, d2)
        dtype = getattr(torch, case["dtype"])
        return (torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)), {}
    options = {}
    if case["tensor_format"] == "thd":
        options["cu_seqlens"] = torch.tensor(_cu_seqlens(case), dtype=torch.int32)
    elif case["positions"] == "ids":
        options["position_ids"] = torch.zeros(b, s, dtype=torch.int64)
    elif case["positions"] == "starts":
        options["start_positions"] = torch.zeros(b, dtype=torch.int32)
    if kind == "module":
        make = package.RotaryPositionEmbedding
        return make(d2, rotary_base=case["base"], interleaved=case["interleaved"]), options
    rows = s + (4096 if case["positions"] == "starts" else 0)
    return torch.empty(rows, 1, 1, d2), options


def _cu_seqlens(case: dict) -> list[int]:
    if case["cu_seqlens"]:
        return list(case["cu_seqlens"])
    count, s = case["sequences"], case["s"]
    cuts = [i * s // count for i in range(count + 1)]
    assert all(start < end for start, end in pairwise(cuts))
    return cuts
