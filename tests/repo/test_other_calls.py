"""docs/other_calls.md: calls of ours on the right, read from the page, run in fp64.

A function that the installed transformers has runs beside ours, and both do the same.
"""

import re
from importlib import import_module

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import rope_kernels
from ops import PUBLIC
from processes import ROOT

PAGE = ROOT / "docs/other_calls.md"
OURS = PUBLIC | {"huggingface": rope_kernels.huggingface}
FP64 = torch.float64


# What a project's rows are given


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


def hugging_face():
    transformers = pytest.importorskip("transformers")
    q, k = (torch.randn(2, heads, 6, 16, dtype=FP64) for heads in (4, 2))
    angles, table = torch.randn(2, 6, 8, dtype=FP64), torch.randn(20, 8, dtype=FP64).repeat(1, 2)
    whole, twice = torch.cat((angles, angles), -1), angles.repeat_interleave(2, -1)
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


def flashinfer():
    return {
        "q": torch.randn(17, 4, 16, dtype=FP64),
        "k": torch.randn(17, 2, 16, dtype=FP64),
        "indptr": torch.tensor([0, 5, 14, 17], dtype=torch.int32),
        "offsets": torch.tensor([11, 4, 0], dtype=torch.int32),
        "pos_ids": torch.arange(17, dtype=torch.int32).flip(0),
    }


# The page

PROJECTS = {  # a heading -> what makes the tensors of its rows
    "FlashAttention": flash_attention,
    "Hugging Face": hugging_face,
    "vLLM": vllm,
    "TransformerEngine": transformer_engine,
    "flashinfer": flashinfer,
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


ROWS = [(project, ours) for project in PROJECTS for _, ours in rows_of(project)]
# `llama.apply_rotary_pos_emb(...)`: a function of a model's module. One row has a function that
# transformers had before 4.38, without a module.
RUN_BOTH = [row for row in rows_of("Hugging Face") if re.match(r"\w+\.", row[0])]
ROUNDED = [row for row in RUN_BOTH if "rounding=" in row[1]]


def run(call, given, names, statements=()):
    """The tensors that a call returns."""
    names = given | names
    for statement in statements:
        exec(statement, names)
    return tree_leaves(eval(call, names))


def placed(x, device, dtype=FP64):
    if not isinstance(x, Tensor):
        return x
    return x.to(device, dtype if x.is_floating_point() else x.dtype)


def run_both(theirs, ours, device, dtype=FP64):
    given = {name: placed(x, device, dtype) for name, x in hugging_face().items()}
    models = {
        name: import_module(f"transformers.models.{name}.modeling_{name}")
        for name in re.findall(r"(\w+)\.[a-zA-Z]", theirs)
    }
    return run(theirs, given, models), run(ours, given, OURS)


@pytest.mark.parametrize("project, ours", ROWS)
def test_our_call_of_a_row_runs(project, ours, device):
    given = {name: placed(x, device) for name, x in PROJECTS[project]().items()}
    before = {name: x.clone() for name, x in given.items() if isinstance(x, Tensor)}
    results = run(ours, given, OURS, words_of(project))
    assert results and all(torch.isfinite(result).all() for result in results)
    overwritten = [name for name, was in before.items() if not torch.equal(given[name], was)]
    assert bool(overwritten) == ("inplace=True" in ours)


@pytest.mark.parametrize("theirs, ours", RUN_BOTH)
def test_both_calls_of_a_row_return_the_same(theirs, ours, device):
    for one, other in zip(*run_both(theirs, ours, device), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("theirs, ours", ROUNDED)
def test_a_row_that_says_how_to_round_has_the_same_bits(theirs, ours, device):
    for one, other in zip(*run_both(theirs, ours, device, torch.bfloat16), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("theirs, ours", rows_of("Arguments by other names"))
def test_an_argument_by_another_name_is_a_type_error_and_the_call_beside_it_runs(theirs, ours):
    q, k, cos, sin = torch.randn(2, 4, 6, 64), torch.randn(2, 1, 6, 64), *torch.randn(2, 2, 6, 64)
    names = {"q": q, "k": k, "cos": cos, "sin": sin, "ids": torch.arange(6)}
    names |= OURS | {"rope": OURS["RotaryPositionEmbedding"](64)}
    with pytest.raises(TypeError, match=r"positional arguments|unexpected keyword|multiple values"):
        eval(theirs, names)
    eval(ours, names)


def test_the_page_has_rows_of_every_project():
    assert {project for project, _ in ROWS} == set(PROJECTS)
    assert len(RUN_BOTH) == len(rows_of("Hugging Face")) - 1
    headings = re.findall(r"^## (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert headings == ["Arguments by other names", *PROJECTS, "Other differences"]
