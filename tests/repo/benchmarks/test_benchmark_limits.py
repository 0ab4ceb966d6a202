"""The benchmark of rows that have a limit of their own: a run of tiny rows, and its page."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from made_up_benchmark import FakeGPU

from benchmarks import __main__ as command
from benchmarks.case import OURS, ROTATION, Group
from benchmarks.own_limit import ROWS
from benchmarks.providers import ROW_PROVIDERS
from benchmarks.providers.rows import CopyOfRows, OursOfRows, PackedNorm, RotationInPlace
from benchmarks.row_inputs import RowInputs
from benchmarks.sets import BENCHMARKS
from benchmarks.tables import load

SETS = {one.name: one for one in BENCHMARKS if one.name.endswith("-limits")}
OURS_ALONE = CopyOfRows(), OursOfRows(), RotationInPlace()


def tiny(row):
    """The same call with few tokens and heads."""
    sizes = {"s": 8, "h": 4, "k_heads": min(row.k_heads, 2), "d": 16, "cuts": (0, 3, 8)}
    return replace(row, **sizes)


class PackedInPyTorch(PackedNorm):
    """What a kernel of others would do to a packed projection."""

    name = "in PyTorch"

    def make(self, inputs):
        qkv = self.packed(inputs)
        outs = self.q_and_k(inputs, qkv)

        def norm():
            for out, right in zip(outs, inputs.right(), strict=True):
                out.copy_(right)
            assert not torch.equal(qkv, self.packed(inputs))  # q and k are views of it
            return outs

        return norm


def run(name, tmp_path, providers=OURS_ALONE):
    groups = tuple(Group(tuple(map(tiny, x.cases)), x.directions) for x in SETS[name].groups)
    benchmark = replace(SETS[name], groups=groups, providers=providers)
    status = command.main([name, "--out", str(tmp_path)], FakeGPU(device="cpu"), [benchmark])
    return status, load(tmp_path / f"made-up-{name}.json"), tmp_path / f"made-up-{name}.md"


def test_every_row_is_in_one_of_the_sets():
    measured = [row for one in SETS.values() for group in one.groups for row in group.cases]
    assert sorted(row.label for row in measured) == sorted(row.label for row in ROWS)


@pytest.mark.parametrize("name", SETS)
def test_each_row_is_checked_against_fp64_and_has_its_limit(name, tmp_path):
    status, results, page = run(name, tmp_path)
    assert status == 0 and not results["left_out"], results["left_out"]
    rows = {(row["shape"], row["provider"]): row for row in results["rows"]}
    for group in SETS[name].groups:
        for case in map(tiny, group.cases):
            ours = rows[case.label, OURS]
            assert 0 < ours["error"] <= 1e-2 and rows[case.label, "copy_"]["error"] is None
            assert ours["own_limit"] == round(case.own_limit, 4)
            assert ours["of_limit"] == pytest.approx(case.copies * 0.985, abs=1e-3)
            assert ((case.label, ROTATION) in rows) == case.decodes
            row = f"| {case.label} | {ours['own_limit']:.1%} | 10.0 µs |"
            assert row in page.read_text(encoding="utf-8")


def test_a_step_that_decodes_is_compared_with_a_rotation_in_place(tmp_path):
    _, _, page = run("cache-limits", tmp_path)
    # The fake clock has 10.2 and 20 us.
    assert "0.51 times 20.0 µs" in page.read_text(encoding="utf-8")


def test_somebody_who_writes_nothing_is_not_right_by_what_others_wrote(tmp_path):
    class Idle(OursOfRows):
        name = "idle"

        def make(self, inputs):
            return lambda: (inputs.tensors[0], inputs.k_cache, inputs.v_cache)

    status, results, _ = run("cache-limits", tmp_path, (*OURS_ALONE, Idle()))
    assert status == 1
    assert not [row for row in results["rows"] if row["provider"] == "idle"]
    assert all(left["why"].startswith("Wrong: error") for left in results["left_out"])


def test_the_fastest_of_the_others_is_beside_ours(tmp_path):
    status, results, page = run("norm-limits", tmp_path, (*OURS_ALONE, PackedInPyTorch()))
    assert status == 0 and not results["left_out"]
    found = {row["shape"] for row in results["rows"] if row["provider"] == "in PyTorch"}
    forward, *_ = SETS["norm-limits"].groups
    wanted = [row for row in map(tiny, forward.cases) if PackedInPyTorch().suits(row)]
    assert found == {row.label for row in wanted} and len(found) > 5
    assert "in PyTorch: 50.0%" in page.read_text(encoding="utf-8")


def test_a_mean_over_all_heads_is_another_norm():
    (row,) = [
        x for x in ROWS if x.label == "qk_norm_rope, bshd, 2x4096 tokens, forward, on the fly"
    ]
    inputs = RowInputs(tiny(row), "cpu")
    q, _ = inputs.right(over_all_heads=True)
    x = inputs.tensors[0].double()
    wanted = x * (x.square().mean((2, 3), keepdim=True) + 1e-6).rsqrt() * inputs.weights[0].double()
    torch.testing.assert_close(q.norm(dim=-1)[:, 0], wanted.norm(dim=-1)[:, 0])
    torch.testing.assert_close(q[:, 0], wanted[:, 0])  # position 0 does not turn
    assert not torch.allclose(q, inputs.right()[0])


# others, by kernels that are none: what a launcher's comment says, in PyTorch


def turned(x, table, positions):
    """x (tokens, h, d) by a table (rows, d), cos beside sin."""
    cos, sin = table.double()[positions.long(), None].chunk(2, -1)
    first, second = x.double().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def table_on_the_fly(d, base):
    angle = torch.arange(64)[:, None] * base ** -(torch.arange(0, d, 2).double() / d)
    return torch.cat((angle.cos(), angle.sin()), 1)


def normal(x, weight, eps, dims=-1):
    x = x.double()
    return x * (x.square().mean(dims, keepdim=True) + eps).rsqrt() * weight.double()


def heads_of(qkv, tokens, q_heads, kv_heads, d):
    assert qkv.shape == (tokens, (q_heads + 2 * kv_heads) * d) and qkv.is_contiguous()
    return qkv.view(tokens, -1, d).split([q_heads, kv_heads, kv_heads], 1)


def norm_in_place(qkv, weights, table, positions, tokens, q_heads, kv_heads, d, eps):
    q, k, _ = heads_of(qkv, tokens, q_heads, kv_heads, d)
    for x, weight in zip((q, k), weights, strict=True):
        x.copy_(turned(normal(x, weight, eps), table, positions))


def vllm_norm(qkv, q_weight, k_weight, table, positions, is_fp32, *sizes_and_eps):
    *sizes, rows, eps = sizes_and_eps
    assert table.dtype == (torch.float32 if is_fp32 else torch.bfloat16) and len(table) == rows
    assert positions.dtype == torch.int64
    norm_in_place(qkv, (q_weight, k_weight), table, positions, *sizes, eps)


def sglang_norm(qkv, q_weight, k_weight, positions, tokens, q_heads, kv_heads, d, eps, base):
    assert positions.dtype == torch.int32
    table = table_on_the_fly(d, base)
    norm_in_place(qkv, (q_weight, k_weight), table, positions, tokens, q_heads, kv_heads, d, eps)


def flashinfer_norm(qkv, q, k, v, q_weight, k_weight, *sizes_and_numbers):
    tokens, seq_len, q_heads, kv_heads, d, eps, base = sizes_and_numbers
    positions, table = torch.arange(tokens) % seq_len, table_on_the_fly(d, base)
    q_in, k_in, v_in = heads_of(qkv, tokens, q_heads, kv_heads, d)
    for x, weight, out in ((q_in, q_weight, q), (k_in, k_weight, k)):
        row = normal(x, weight.view(-1, d), eps, (1, 2))
        out.view(tokens, -1, d).copy_(turned(row, table, positions))
    v.view(tokens, -1, d).copy_(v_in)


def rotate_in_place(positions, q, k, table, dtype, tokens, q_heads, k_heads, d, rows):
    assert (positions.dtype, dtype, len(table)) == (torch.int64, 2, rows)
    for x, heads in ((q, q_heads), (k, k_heads)):
        x.view(tokens, heads, d).copy_(turned(x.view(tokens, heads, d), table, positions))


def rotate_by_cache(q, k, q_out, k_out, table, positions, tokens, q_heads, k_heads, d):
    assert (table.dtype, positions.dtype) == (torch.float32, torch.int32)
    for x, out, heads in ((q, q_out, q_heads), (k, k_out, k_heads)):
        out.view(tokens, heads, d).copy_(turned(x.view(tokens, heads, d), table, positions))


def rotate_on_the_fly(q, k, q_out, k_out, positions, tokens, q_heads, k_heads, d, base):
    table = table_on_the_fly(d, base).float()
    rotate_by_cache(q, k, q_out, k_out, table, positions, tokens, q_heads, k_heads, d)


def write_to_cache(k, v, k_cache, v_cache, slots, k_scale, v_scale, dtype, fp8, *sizes):
    written, tokens, heads, d, k_stride, v_stride, blocks, page, *strides, scales = sizes
    assert (dtype, fp8, written, scales) == (2, 0, tokens, 1) and len(slots) == tokens
    assert (tokens, heads, d) == k.shape and (k_stride, v_stride) == (k.stride(0), v.stride(0))
    assert (blocks, page) == k_cache.shape[:2] and tuple(strides) == k_cache.stride()[:3]
    for x, cache in ((k, k_cache), (v, v_cache)):
        cache[slots // page, slots % page] = x


def rotate_and_append(q, k, v, q_out, table, positions, k_cache, v_cache, *others):
    indices, indptr, requests, places, fp8, tokens, q_heads, kv_heads, d, *others = others
    q_stride, k_stride, v_stride, batch, page, *strides, q_scale, kv_scale = others
    assert (fp8, batch, q_scale, kv_scale) == (0, 1, 1.0, 1.0) and not requests.any()
    assert indptr.tolist() == [0, len(indices)] and indices.tolist() == list(range(len(k_cache)))
    assert (q_stride, k_stride, v_stride) == tuple(x.stride(0) for x in (q, k, v))
    assert (tokens, q_heads, d) == q.shape and k.shape[1] == kv_heads
    assert tuple(strides) == k_cache.stride()[:3] and positions.dtype == places.dtype == torch.int32
    q_out.copy_(turned(q, table, positions))
    slots = places.long()
    k_cache[slots // page, slots % page] = turned(k, table, positions).to(k.dtype)
    v_cache[slots // page, slots % page] = v


KERNELS = {
    "vLLM, norm": {"norm_and_rotate": vllm_norm},
    "SGLang, norm": {"norm_and_rotate": sglang_norm},
    "flashinfer, one norm of all heads": {"norm_all_heads_and_rotate": flashinfer_norm},
    "vLLM, rotation": {"rotate_in_place": rotate_in_place},
    "flashinfer, rotation": {
        "rotate_by_cache": rotate_by_cache,
        "rotate_on_the_fly": rotate_on_the_fly,
    },
    "vLLM, rotate then write": {"write_to_cache": write_to_cache},
    "flashinfer, cache": {"rotate_and_append": rotate_and_append},
}


@pytest.mark.parametrize("name", KERNELS)
def test_others_are_called_as_their_launchers_say(name, monkeypatch):
    """Right kernels would find what is right, in every row that suits them, and again and again."""
    kind = type(ROW_PROVIDERS[name])
    monkeypatch.setattr(sys.modules[kind.__module__], "call", lambda kernel, *given: kernel(*given))
    provider = kind()
    provider.code = SimpleNamespace(**KERNELS[name])
    provider.rotate_in_place = rotate_in_place  # of who rotates with another library
    suited = [row for row in ROWS if provider.suits(row)]
    assert len(suited) >= 2 and not any(row.backward for row in suited)
    for row in map(tiny, suited):
        inputs = RowInputs(row, "cpu")
        before = [x.clone() for x in inputs.rows]
        run = provider.run(inputs, provider.function(inputs), "forward")
        error = provider.error(inputs, run.call(), run.layout, "forward")
        assert error <= 5e-3 if row.table.dtype != "bfloat16" else error <= 1e-2, row.label
        run.call()
        assert all(torch.equal(x, was) for x, was in zip(inputs.rows, before, strict=True))


def test_each_of_the_others_has_a_call_that_is_tested():
    others = {name for name, p in ROW_PROVIDERS.items() if not p.is_ours_or_a_limit}
    assert others == KERNELS.keys()
