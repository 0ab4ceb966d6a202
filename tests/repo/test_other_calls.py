"""docs/other_calls.md: each call of ours does what the other project's call beside it does.

Both are read from the page and run in fp64. Of transformers its own functions run. The others are
written here, from what the projects document.
"""

import inspect
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import rope_kernels

PAGE = Path(__file__).resolve().parents[2] / "docs/other_calls.md"
OURS = {name: getattr(rope_kernels, name) for name in rope_kernels.__all__}
FP64 = torch.float64


# What all of them compute


def turned(x, cos, sin, interleaved):
    """Of x (..., d) the first elements, by a cosine and a sine for each of them, or each pair."""
    d2 = cos.shape[-1]
    x, rest = x[..., :d2], x[..., d2:]
    if interleaved:
        quarter = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    else:
        quarter = torch.cat((-x[..., d2 // 2 :], x[..., : d2 // 2]), -1)
    return torch.cat((x * cos + quarter * sin, rest), -1)


def for_elements(columns, interleaved):
    """Of a column for each pair (..., d2 / 2), one for each element (..., d2)."""
    return columns.repeat_interleave(2, -1) if interleaved else torch.cat((columns, columns), -1)


def angles_of(dim, base, positions):
    """(positions, dim / 2)."""
    return torch.outer(positions.to(FP64), base ** -(torch.arange(0, dim, 2, dtype=FP64) / dim))


# FlashAttention


def apply_rotary(
    x,
    cos,
    sin,
    seqlen_offsets=0,
    cu_seqlens=None,
    max_seqlen=None,
    interleaved=False,
    inplace=False,
    conjugate=False,
):
    """Each sequence by itself: (b, s, h, d), or (t, h, d) with `cu_seqlens`."""
    if cu_seqlens is None:
        sequences = list(x)
    else:
        assert max_seqlen is not None, "it has to be passed with cu_seqlens"
        sequences = [x[start:end] for start, end in pairwise(cu_seqlens.tolist())]
    starts = torch.as_tensor(seqlen_offsets).expand(len(sequences)).tolist()
    results = []
    for rows, start in zip(sequences, starts, strict=True):
        of_pairs = (table[start : start + len(rows), None] for table in (cos, sin))
        c, s = (for_elements(x, interleaved) for x in of_pairs)
        results.append(turned(rows, c, -s if conjugate else s, interleaved))
    out = torch.stack(results) if cu_seqlens is None else torch.cat(results)
    return x.copy_(out) if inplace else out


def apply_rotary_emb(
    x,
    cos,
    sin,
    interleaved=False,
    inplace=False,
    seqlen_offsets=0,
    cu_seqlens=None,
    max_seqlen=None,
):
    where = seqlen_offsets, cu_seqlens, max_seqlen
    return apply_rotary(x, cos, sin, *where, interleaved, inplace)


def apply_rotary_emb_qkv_(
    qkv,
    cos,
    sin,
    cos_k=None,
    sin_k=None,
    interleaved=False,
    seqlen_offsets=0,
    num_heads_q=None,
):
    if qkv.dim() == 5:
        q, k = qkv[:, :, 0], qkv[:, :, 1]
    else:
        kv_heads = (qkv.shape[2] - num_heads_q) // 2
        q, k, _ = qkv.split([num_heads_q, kv_heads, kv_heads], 2)
    of_k = (cos, sin) if cos_k is None else (cos_k, sin_k)
    apply_rotary_emb(q, cos, sin, interleaved, True, seqlen_offsets)
    apply_rotary_emb(k, *of_k, interleaved, True, seqlen_offsets)
    return qkv


def apply_rotary_emb_kv_(kv, cos, sin, interleaved=False, seqlen_offsets=0):
    apply_rotary_emb(kv[:, :, 0], cos, sin, interleaved, True, seqlen_offsets)
    return kv


class RotaryEmbedding:
    def __init__(self, dim, base=10000.0, interleaved=False):
        self.dim, self.base, self.interleaved = dim, base, interleaved

    def __call__(self, qkv, kv=None, seqlen_offset=0, max_seqlen=None, num_heads_q=None):
        if max_seqlen is None:
            max_seqlen = qkv.shape[1] + seqlen_offset
        angles = angles_of(self.dim, self.base, torch.arange(max_seqlen)).to(qkv.device)
        tables = angles.cos(), angles.sin()
        options = {"interleaved": self.interleaved, "seqlen_offsets": seqlen_offset}
        if kv is None:
            return apply_rotary_emb_qkv_(qkv, *tables, **options, num_heads_q=num_heads_q)
        apply_rotary_emb(qkv, *tables, inplace=True, **options)
        return qkv, apply_rotary_emb_kv_(kv, *tables, **options)


def flash_attention():
    angles, more = torch.randn(2, 20, 4, dtype=FP64)
    return {
        "x": torch.randn(2, 6, 3, 16, dtype=FP64),
        "packed": torch.randn(17, 3, 16, dtype=FP64),
        "qkv": torch.randn(2, 6, 3, 4, 16, dtype=FP64),
        "grouped": torch.randn(2, 6, 4 + 2 + 2, 16, dtype=FP64),
        "kv": torch.randn(2, 6, 2, 3, 16, dtype=FP64),
        "cos": angles.cos(),
        "sin": angles.sin(),
        "cos_k": more.cos(),
        "sin_k": more.sin(),
        "lengths": torch.tensor([11, 4]),
        "cu_seqlens": torch.tensor([0, 5, 14, 17], dtype=torch.int32),
    }


OF_FLASH_ATTENTION = (
    apply_rotary,
    apply_rotary_emb,
    apply_rotary_emb_qkv_,
    apply_rotary_emb_kv_,
    RotaryEmbedding,
)


# Hugging Face


def hugging_face():
    transformers = pytest.importorskip("transformers")
    q, k = (torch.randn(2, heads, 6, 16, dtype=FP64) for heads in (4, 2))
    angles, table = torch.randn(2, 6, 8, dtype=FP64), torch.randn(20, 8, dtype=FP64).repeat(1, 2)
    whole, twice = (for_elements(angles, interleaved) for interleaved in (False, True))
    return {
        "q": q,
        "k": k,
        "q_bshd": q.transpose(1, 2),
        "k_bshd": k.transpose(1, 2),
        "cos": whole.cos(),
        "sin": whole.sin(),
        "cos_of_8": angles.cos(),
        "sin_of_8": angles.sin(),
        "cos_twice": twice.cos(),
        "sin_twice": twice.sin(),
        "table_cos": table.cos(),
        "table_sin": table.sin(),
        "position_ids": torch.tensor([[3, 4, 5, 6, 7, 8], [0, 1, 2, 9, 19, 5]]),
        "config": transformers.LlamaConfig(hidden_size=64, num_attention_heads=4),
    }


class OfModel:
    """The module of a model, imported when a row asks for it."""

    def __init__(self, name):
        self.module = f"transformers.models.{name}.modeling_{name}"

    def __getattr__(self, name: str):
        return getattr(import_module(self.module), name)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids, unsqueeze_dim=1):
    """Of transformers 4.37: tables have a row for each position."""
    cos, sin = (x[position_ids].unsqueeze(unsqueeze_dim) for x in (cos, sin))
    return turned(q, cos, sin, False), turned(k, cos, sin, False)


OF_TRANSFORMERS = {name: OfModel(name) for name in ("llama", "phi3", "gpt_oss", "glm", "cohere")}


# vLLM


def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox):
    of_pairs = (x[:, None] for x in cos_sin_cache[positions].chunk(2, -1))
    cos, sin = (for_elements(x, not is_neox) for x in of_pairs)
    for rows in (query, key):
        if rows is not None:
            x = rows.view(len(positions), -1, head_size)
            x.copy_(turned(x, cos, sin, not is_neox))


class RotaryEmbeddingOfVllm:
    def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style, dtype):
        angles = angles_of(rotary_dim, base, torch.arange(max_position_embeddings))
        self.cos_sin_cache = torch.cat((angles.cos(), angles.sin()), -1).to(dtype)
        self.head_size, self.is_neox_style = head_size, is_neox_style

    def __call__(self, positions, query, key=None):
        cache = self.cos_sin_cache.to(query.device)
        rotary_embedding(positions, query, key, self.head_size, cache, self.is_neox_style)


def vllm():
    angles = torch.randn(40, 4, dtype=FP64)
    return {
        "query": torch.randn(7, 4 * 16, dtype=FP64),
        "key": torch.randn(7, 2 * 16, dtype=FP64),
        "positions": torch.tensor([3, 4, 5, 0, 39, 17, 18]),
        "cos_sin_cache": torch.cat((angles.cos(), angles.sin()), -1),
        "head_size": 16,
        "dtype": FP64,
    }


# TransformerEngine


def apply_rotary_pos_emb_of_te(
    t,
    freqs,
    tensor_format="sbhd",
    start_positions=None,
    interleaved=False,
    fused=False,
    cu_seqlens=None,
    cp_size=1,
    cp_rank=0,
):
    """Each sequence by itself; a rank has chunk number `cp_rank` from both ends of it."""
    if tensor_format == "thd":
        bounds = (cu_seqlens // cp_size).tolist()
        sequences = [t[start:end] for start, end in pairwise(bounds)]
    else:
        sequences = t.unbind(tensor_format.index("b"))
    starts = [0] * len(sequences) if start_positions is None else start_positions.tolist()
    results = []
    for rows, start in zip(sequences, starts, strict=True):
        position = torch.arange(start, start + len(rows) * cp_size)
        if cp_size > 1:
            chunks = position.chunk(2 * cp_size)
            position = torch.cat((chunks[cp_rank], chunks[-1 - cp_rank]))
        cos, sin = freqs[position, 0].cos(), freqs[position, 0].sin()
        if not fused:
            cos, sin = cos.to(t.dtype), sin.to(t.dtype)
        results.append(turned(rows, cos, sin, interleaved).to(t.dtype))
    if tensor_format == "thd":
        return torch.cat(results)
    return torch.stack(results, tensor_format.index("b"))


class RotaryPositionEmbeddingOfTE:
    def __init__(
        self,
        dim,
        rotary_percent=1.0,
        seq_len_interpolation_factor=None,
        pretrained_max_position_embeddings=None,
        rotary_base=10000.0,
        interleaved=False,
    ):
        self.dim, self.base, self.interleaved = int(dim * rotary_percent), rotary_base, interleaved
        self.factor, self.trained = seq_len_interpolation_factor, pretrained_max_position_embeddings

    def __call__(self, max_seq_len, offset=0):
        positions = torch.arange(max_seq_len) + offset
        if self.factor is not None and self.trained is not None:
            positions = positions / max(self.factor, max_seq_len / self.trained)
        angles = angles_of(self.dim, self.base, positions)
        return for_elements(angles, self.interleaved)[:, None, None].float()


def apply_fused_qkv_rotary_pos_emb(qkv, q_freqs, k_freqs, qkv_split_arg_list, tensor_format="sbhd"):
    """A group has its heads of q, one of k and one of v."""
    q, k, v = qkv.split(qkv_split_arg_list, -1)
    q = q.unflatten(-1, (-1, qkv_split_arg_list[1])).flatten(2, 3)
    rotated = ((q, q_freqs), (k, k_freqs))
    return [*(apply_rotary_pos_emb_of_te(x, freqs, tensor_format) for x, freqs in rotated), v]


def transformer_engine():
    return {
        "t": torch.randn(6, 2, 3, 16, dtype=FP64),
        "t_bshd": torch.randn(2, 6, 3, 16, dtype=FP64),
        "packed": torch.randn(16, 3, 16, dtype=FP64),
        "qkv": torch.randn(6, 2, 3, 64, dtype=FP64),
        "starts": torch.tensor([11, 4]),
        "cu_seqlens": torch.tensor([0, 5, 14, 16], dtype=torch.int32),
        "cu_seqlens_padded": torch.tensor([0, 8, 24, 32], dtype=torch.int32),
        "freqs": torch.randn(40, 1, 1, 8, dtype=FP64),
    }


# The page

PROJECTS = {  # a heading -> what makes the tensors of its rows, and what the other project has
    "FlashAttention": (flash_attention, {it.__name__: it for it in OF_FLASH_ATTENTION}),
    "Hugging Face": (
        hugging_face,
        OF_TRANSFORMERS | {"apply_rotary_pos_emb": apply_rotary_pos_emb},
    ),
    "vLLM": (
        vllm,
        {
            "ops": SimpleNamespace(rotary_embedding=rotary_embedding),
            "RotaryEmbedding": RotaryEmbeddingOfVllm,
        },
    ),
    "TransformerEngine": (
        transformer_engine,
        {
            "apply_rotary_pos_emb": apply_rotary_pos_emb_of_te,
            "RotaryPositionEmbedding": RotaryPositionEmbeddingOfTE,
            "apply_fused_qkv_rotary_pos_emb": apply_fused_qkv_rotary_pos_emb,
        },
    ),
}


def section_of(project):
    """What the page says of a project."""
    text = PAGE.read_text(encoding="utf-8")
    return re.search(rf"^## {project}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]


def rows_of(project):
    """Both calls of each row."""
    rows = re.findall(r"^\| .* \|$", section_of(project), re.MULTILINE)[1:]  # below the names
    return [[re.search("`(.+?)`", cell)[1] for cell in row.split(" | ")] for row in rows]


def words_of(project):
    """Statements in the text, which say what names in the table are."""
    return re.findall(r"`((?:\w+, )*\w+ = .+?)`", section_of(project))


ROWS = [(project, *row) for project in PROJECTS for row in rows_of(project)]


def run_both(project, theirs, ours, device, dtype=FP64):
    """What the tensors held, hold after their call and after ours, and both results."""
    make, of_theirs = PROJECTS[project]
    before = {name: placed(x, device, dtype) for name, x in make().items()}
    expected, given = copies_of(before), copies_of(before)
    results = run(theirs, expected, of_theirs), run(ours, given, OURS, words_of(project))
    return before, expected, given, *map(tree_leaves, results)


def placed(x, device, dtype):
    if not isinstance(x, Tensor):
        return x
    is_angles = x.dim() == 4 and x.shape[1:3] == (1, 1)
    if x.is_floating_point():
        x = x.to(torch.float32 if is_angles and dtype != FP64 else dtype)
    return x.to(device)


def copies_of(given):
    """With the same strides."""
    return {name: x.clone() if isinstance(x, Tensor) else x for name, x in given.items()}


def run(call, given, names, statements=()):
    """What a call returns."""
    names = given | names
    for statement in statements:
        exec(statement, names)
    return eval(call, names)


@pytest.mark.parametrize("project, theirs, ours", ROWS)
def test_both_calls_of_a_row_do_the_same(project, theirs, ours, device):
    """What is overwritten is the same; where nothing is, what is returned."""
    before, expected, given, want, got = run_both(project, theirs, ours, device)
    names = [name for name, x in before.items() if isinstance(x, Tensor)]
    for name in names:
        torch.testing.assert_close(given[name], expected[name], rtol=0, atol=1e-5)
    if all(torch.equal(expected[name], before[name]) for name in names):
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one.cpu(), other.cpu(), rtol=0, atol=1e-5)


ROUNDED = [row for row in ROWS if "rounding=" in row[2] or "fused=False" in row[2]]


@pytest.mark.parametrize("project, theirs, ours", ROUNDED)
def test_a_row_that_says_how_to_round_has_the_same_bits(project, theirs, ours, device):
    *_, want, got = run_both(project, theirs, ours, device, torch.bfloat16)
    for one, other in zip(got, want, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("project", PROJECTS)
def test_every_option_of_the_other_project_is_on_the_page(project):
    functions = [it for it in PROJECTS[project][1].values() if callable(it)]
    called = [it.__call__ for it in functions if inspect.isclass(it)]
    options = {
        name
        for function in (*functions, *called)
        for name, option in inspect.signature(function).parameters.items()
        if option.default is not inspect.Parameter.empty
    }
    section = section_of(project)
    assert {name for name in options if not re.search(rf"\b{name}\b", section)} == set()


@pytest.mark.parametrize("theirs, ours", rows_of("Arguments by other names"))
def test_an_argument_by_another_name_is_a_type_error_and_the_call_beside_it_runs(theirs, ours):
    q, k, cos, sin = torch.randn(2, 4, 6, 64), torch.randn(2, 1, 6, 64), *torch.randn(2, 2, 6, 64)
    names = {"q": q, "k": k, "cos": cos, "sin": sin, "ids": torch.arange(6)}
    names |= OURS | {"rope": OURS["RotaryPositionEmbedding"](64)}
    with pytest.raises(TypeError, match=r"positional arguments|unexpected keyword|multiple values"):
        eval(theirs, names)
    eval(ours, names)


def test_the_page_has_rows_of_every_project():
    assert {project for project, *_ in ROWS} == set(PROJECTS)
    headings = re.findall(r"^## (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert headings == ["Arguments by other names", *PROJECTS, "What else differs"]
