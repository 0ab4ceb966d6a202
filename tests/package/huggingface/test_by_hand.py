"""Attentions that pages write by hand: the values of the models, and the launches they print.

A launch is an operator that computes or writes, or one of our kernels, between a layer's
projections and its attention. Stand-ins take the place of both.
"""

import inspect
import re
import runpy
from contextlib import nullcontext
from functools import partial

import pytest
import torch

from counted import launches_in
from hf_models import (
    FAMILIES,
    generated,
    in_a_fixed_order,
    inputs_of,
    logits_and_gradients,
    unequal,
)
from pairwise import slow_but
from rope_kernels.huggingface import patch
from rope_lab.n12.models import normed_forward
from test_readme import ROOT, blocks_of

transformers = pytest.importorskip("transformers")

PROJECTIONS, HUGGING_FACE = "docs/projections.md", "docs/hugging_face.md"
ROTATED = 1.0, 0.75  # of each head, as the table's first rows have them


def ran(page, folder):
    """The last block of a page that has a model's configuration, run: all it made, and its code."""
    *_, code = [block for block in blocks_of(page).values() if "config = " in block]
    (folder / "page.py").write_text(code, encoding="utf-8")
    return runpy.run_path(str(folder / "page.py")) | {"code": code}


def printed(page):
    """The one table of launches on a page: the numbers of each row."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (rows,) = re.findall(r"\| launches of .*\n\|---.*\n((?:\|.*\n)+)", text)
    return [tuple(map(int, re.findall(r"\| (\d+)(?= )", row))) for row in rows.splitlines()]


@pytest.fixture
def launches_counted(interpreter):
    """A function that counts what a later call launches, and runs no kernel of ours on a CPU."""
    if interpreter is not None:
        interpreter.runs = False

    def count(call):
        call()
        return sum(launches_in(call, interpreter))

    return count


class Reached(Exception):
    """The attention, with the q, k and v that it is given."""


def reached(module, q, k, v, *args, **kwargs):
    raise Reached(q, k, v)


def until_attention(forward, *given):
    with pytest.raises(Reached) as found:
        forward(*given)
    return found.value.args


def attention_of(config, positions, device, **projected):
    """A layer's attention with these projections, and what else its forward is given."""
    transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS.register("reached", reached)
    model = model_of(config, device, attn_implementation="reached")
    attention = model.model.layers[0].self_attn
    for name, x in projected.items():
        getattr(attention, name).forward = partial(lambda given, _: given, x)
    return attention, (x, model.model.rotary_emb(x, positions), None)


def model_of(config, device, **options):
    return transformers.AutoModelForCausalLM.from_config(config, **options).to(device)


@pytest.mark.parametrize("rotated", ROTATED)
def test_launches_of_phi3(rotated, device, request, tmp_path):
    page = ran(PROJECTIONS, tmp_path)  # what it asserts needs kernels that run
    count = request.getfixturevalue("launches_counted")
    qkv = torch.randn(2, 5, 128, device=device, requires_grad=True)
    page["config"].rope_parameters["partial_rotary_factor"] = rotated
    positions = torch.arange(5, device=device)[None]
    attention, given = attention_of(page["config"], positions, device, qkv_proj=qkv)

    def counted(forward):
        call = partial(until_attention, forward, *given)
        outs = call()
        grads = [torch.randn_like(x) for x in outs]  # in the memory order of each
        backward = partial(torch.autograd.grad, outs, qkv, grads, retain_graph=True)
        return tuple(map(count, (call, backward)))

    *of_model, patched, by_hand = printed(PROJECTIONS)
    assert counted(attention.forward) == of_model[ROTATED.index(rotated)]
    assert counted(partial(page["forward"], attention)) == by_hand == (1, 1)
    with patch("phi3", strict=True):
        assert counted(attention.forward) == patched


def qwen3_by_hand(dtype, device, monkeypatch, tmp_path):
    """Logits and gradients, and tokens, by the page's forward and by the model's own."""
    page = ran(HUGGING_FACE, tmp_path)
    model, inputs = FAMILIES["qwen3"].make(device, dtype), inputs_of(FAMILIES["qwen3"], device)
    generator = torch.Generator().manual_seed(9)
    for name, weight in model.named_parameters():
        if "norm" in name:  # not all ones: a norm that is skipped or doubled shows
            weight.data += 0.3 * torch.randn(weight.shape, generator=generator).to(weight)

    def run():
        return logits_and_gradients(model, inputs, autocast=False), generated(model, inputs)

    with in_a_fixed_order(monkeypatch, device) if dtype == torch.bfloat16 else nullcontext():
        own = run()
        monkeypatch.setattr(page["Qwen3Attention"], "forward", page["normed_forward"])
        return run(), own


BOUNDS = {torch.float32: 2e-6, torch.float16: 3e-3, torch.bfloat16: 2e-2}


@pytest.mark.filterwarnings("ignore")  # of torch's determinism
@pytest.mark.parametrize("dtype", slow_but(BOUNDS, torch.float32, torch.bfloat16))
def test_qwen3_by_hand_is_the_model(dtype, device, monkeypatch, tmp_path):
    """A kernel adds squares in another order. On a CPU, plain PyTorch in bf16 has the bits."""
    (got, tokens), (own, own_tokens) = qwen3_by_hand(dtype, device, monkeypatch, tmp_path)
    has_bits = device == "cpu" and dtype == torch.bfloat16
    assert not (has_bits and unequal(got, own))
    assert not (has_bits or dtype == torch.float32) or torch.equal(tokens, own_tokens)
    assert_close(got, own, BOUNDS[dtype])


def assert_close(got, wanted, bound):
    """By the norm of the difference: a sum over tokens has large and small terms."""
    assert got.keys() == wanted.keys()
    for name, x in wanted.items():
        off = (got[name].double() - x.double()).norm() / x.double().norm()
        assert off < bound, (name, off.item())


def test_the_lab_has_the_pages_forward_of_qwen3():
    """Notebook 12 and the benchmark of models measure it."""
    page = (ROOT / HUGGING_FACE).read_text(encoding="utf-8")
    assert inspect.getsource(normed_forward) in page
