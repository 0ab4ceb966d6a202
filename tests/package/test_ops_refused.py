"""What every public function refuses, asked of all of them: `bad_arguments.py` says what.

The whole message is compared. Nothing is launched, and no memory is written, whichever way a call
would go.
"""

import gc
import re
import weakref
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from inspect import Parameter, signature
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from bad_arguments import bad_arguments_of, table
from ops import DIFFERENTIABLE, OPS, all_equal, bits_of, last_of_each_kind
from rope_kernels import RotaryPositionEmbedding, rope_qk
from rope_kernels.norms import qk_norm_rope

BAD = [bad for op in OPS for bad in bad_arguments_of(op)]
each_op = pytest.mark.parametrize("op", OPS, ids=str)


@pytest.fixture
def nothing_may_run(monkeypatch, device):
    """No kernel, where one would be interpreted. On a GPU bits of memory have to tell."""

    def run(*given, **more):
        pytest.fail("a kernel was launched")

    if device == "cpu" and find_spec("triton"):
        monkeypatch.setattr("triton.runtime.interpreter.GridExecutor.__call__", run)


def ways_of(op):
    ways = {"fused": (True, False)} | ({"inplace": (False, True)} if op.inplace else {})
    return [dict(zip(ways, values, strict=True)) for values in product(*ways.values())]


def sample_of(bad, device):
    return bad.op.sample("cpu" if bad.on_cpu else device, **bad.case)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_bad_argument_is_refused_before_anything_is_written(bad, device, nothing_may_run):
    sample = sample_of(bad, device)
    memory = [*sample.tensors(), *sample.written.values()]
    before, message = bits_of(memory), re.escape(bad.message(sample)).replace(r"\.\.\.", ".*")
    for way in ways_of(bad.op):
        with pytest.raises(bad.error) as error:
            bad.call(sample, **way)
        assert error.type is bad.error
        assert re.fullmatch(message, str(error.value), re.DOTALL), str(error.value)
    assert all_equal(bits_of(memory), before), "memory was written to"


LACKS_ROWS = r"^freqs has angles.* \d{1,2}$"
TOO_SHORT = [bad for bad in BAD if re.search(LACKS_ROWS, bad.said)]


@pytest.mark.parametrize("bad", TOO_SHORT, ids=str)
def test_a_table_as_long_as_an_error_asks_for_is_accepted(bad, device):
    rows = int(re.search(r"\d+$", bad.said)[0])
    good = replace(bad, change={**bad.change, "freqs": table(rows)})
    good.call(sample_of(bad, device))


@each_op
def test_freqs_that_require_a_gradient_are_fine_where_none_is_asked_for(op, device):
    sample = op.sample(device)
    want = sample.call()
    sample.freqs.requires_grad_()
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            outs = sample.call()
        assert all(map(torch.equal, outs, want)) and not any(x.requires_grad for x in outs)
    if op in DIFFERENTIABLE:
        for fused in (True, False):
            assert any(x.requires_grad for x in sample.call(fused=fused))
    elif op.name != "rope_to_cache":  # which refuses it
        assert not any(x.requires_grad for x in sample.call())


@each_op
def test_frequencies_that_require_a_gradient_rotate_where_none_is_asked_for(op, device):
    """Where one is, plain PyTorch computes the call, and the frequencies get their gradient."""
    sample = op.sample(device, freqs="on the fly")
    want = sample.call()
    inv_freq = sample.freqs.inv_freq.requires_grad_()
    for context in (torch.no_grad, torch.inference_mode):
        for fused in (True, False):
            with context():
                outs = sample.call(fused=fused)
            assert not any(x.requires_grad for x in outs)
            if fused:
                assert all(map(torch.equal, outs, want))
            if op.name in ("rope_fw", "rope_bw"):
                assert not any(x.requires_grad for x in sample.call(fused=fused))
                continue
            if op.name == "rope_to_cache":
                with pytest.raises(ValueError, match="freqs requires a gradient"):
                    sample.call(fused=fused)
                continue
            outs = sample.call(fused=fused)
            (grad,) = torch.autograd.grad(outs[0].square().sum() * outs[0].sum(), inv_freq)
            assert grad.isfinite().all() and grad.any()


@each_op
def test_the_first_and_the_last_start_that_an_int_may_say(op, device):
    sample = op.sample(device, freqs="on the fly")
    for start in (2**62, -(2**62)):
        sample.call(start_positions=start)


# keywords


def keywords_of(op):
    parameters = signature(op.function).parameters.values()
    return [x.name for x in parameters if x.kind is Parameter.KEYWORD_ONLY]


FIRST = OPS[0]
NOT_SHOWN = {  # of the options of the first function
    "split_qkv_rope": {"inplace"},
    "rope_to_cache": {"cp_size", "cp_rank", "cp_order", "output_pairing"},
}


@each_op
def test_every_function_shows_the_options_of_the_first(op):
    """With its types and defaults, though it may take them as `**options`."""
    of_first, here = (signature(x.function).parameters for x in (FIRST, op))
    shared = [name for name in keywords_of(FIRST) if name in keywords_of(op)]
    assert {*keywords_of(FIRST)} - {*shared} == NOT_SHOWN.get(op.name, set())
    for name in (*shared, "freqs"):
        if name in here and name != "rounding":
            assert str(here[name]) == str(of_first[name])
    assert here["rounding"].default is None
    assert ("upcast" in str(here["rounding"])) == (not op.weights)


NUMBERS = {  # of NumPy, and of Python in place of each
    **{
        name: (np.int64, np.uint8, np.int16)
        for name in ("rotary_dim", "rotary_start", "start_positions")
    },
    **{name: (np.int64, np.int32) for name in ("cp_size", "cp_rank", "num_heads", "num_kv_heads")},
    **{name: (np.float32, np.float64, Fraction) for name in ("eps", "weight_offset")},
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("op", last_of_each_kind(OPS), ids=str)
def test_numbers_of_other_kinds_are_numbers(op, name, device):
    """In a first call, and in one that looks like an accepted one; gradients, too."""
    if name not in signature(op.function).parameters:
        pytest.skip("the function does not have it")
    case = {"rotary": 8, "start": "at 5", "positions": "contiguous", "tensor_format": "sbhd"}
    sample = op.sample(device, **case, columns="rotary_dim")
    values = {"start_positions": 2, "eps": 2.0**-10, "weight_offset": 0.5}  # fp32 has all of these
    values |= sample.options()
    for kind in NUMBERS[name]:
        value = values.get(name, 0)
        outcomes = []
        for number in (value, kind(value), kind(value)):
            leaves = sample.leaves() if op.differentiable else {}
            outs = sample.call(leaves, **{name: number})
            grads = ()
            if leaves:
                ups = [torch.ones_like(out) for out in outs]
                grads = torch.autograd.grad(outs, [*leaves.values()], ups)
            outcomes.append([*outs, *grads])
        assert all(map(torch.equal, outcomes[0], outcomes[1]))
        assert all(map(torch.equal, outcomes[0], outcomes[2]))


HAS_A_FORMAT = [op for op in OPS if "tensor_format" in signature(op.function).parameters]
OF_TRANSFORMER_ENGINE = ("apply_rotary_pos_emb", "rope_fw", "rope_bw")


@pytest.mark.parametrize("op", HAS_A_FORMAT, ids=str)
def test_only_functions_of_transformer_engine_have_a_format_that_is_not_said(op, device):
    """No shape tells a batch from positions."""
    sample = op.sample(device, tensor_format="sbhd")
    options = sample.options()
    del options["tensor_format"]
    for way in ways_of(op):
        given = {n: x.clone() for n, x in sample.given.items()}
        if op.name in OF_TRANSFORMER_ENGINE:
            want = sample.call(**way) if way["fused"] is False else sample.call()
            out = op.function(**given, freqs=sample.freqs, **{**options, **way})
            assert torch.equal(out, *want)
            continue
        with pytest.raises(TypeError, match=r"^tensor_format is missing; accepted: .*sbhd, bshd"):
            op.function(**given, freqs=sample.freqs, **{**options, **way})


class Unshown:
    def __repr__(self):
        raise RuntimeError("no words")


TOLD = {  # what came in the place of a flag, a choice or a number
    "a nested tensor": lambda: torch.nested.nested_tensor([torch.ones(2)]),
    "of type Unshown": Unshown,
    r"a tensor of shape \(50, 4\)": lambda: torch.randn(50, 4),  # its elements may fill a page
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("told", TOLD)
@each_op
def test_what_python_shows_at_length_or_not_at_all_is_told_in_words(op, told):
    sample = op.sample("cpu")
    places = {"position_ids", "cu_seqlens", "start_positions", "slot_mapping"}  # which are tensors
    for name in {*keywords_of(op), *sample.options()} - places:
        with pytest.raises((ValueError, TypeError), match=rf"^{name} is {told}; accepted: "):
            sample.call(**{name: TOLD[told]()})


@each_op
def test_a_refused_call_keeps_no_argument_alive(op, interpreter, device):
    """Whichever argument it is refused for. A cache entry would keep it."""
    sample = op.sample(device)
    given = {**sample.given, **sample.written, "freqs": sample.freqs, **sample.options()}
    alive = {}
    for name in signature(op.function).parameters:
        for count in (1, 3):
            holder = nn.Module()
            alive[name, count] = weakref.ref(holder)
            wrong = holder if count == 1 else (holder,) * count
            with pytest.raises((TypeError, ValueError)):
                op.function(**given | {name: wrong})
    del holder, wrong
    gc.collect()
    assert not [what for what, reference in alive.items() if reference() is not None]


def test_a_call_that_lacks_a_tensor_is_not_told_that_its_format_is_missing():
    q, rope, weight = torch.randn(2, 6, 4, 8), RotaryPositionEmbedding(8), torch.ones(8)
    for call in (
        lambda: rope_qk(q, rope, "bshd"),
        lambda: qk_norm_rope(q, q, weight, rope, "bshd"),
    ):
        with pytest.raises(TypeError) as error:
            call()
        assert "tensor_format" not in str(error.value)


@each_op
def test_a_keyword_that_a_function_does_not_show_is_refused(op, device):
    """Even one that another function has, or that means something within."""
    sample = op.sample(device)
    others = {name for other in OPS for name in keywords_of(other)}
    others |= {"interleave", "transpose", "tensors", "norm", "cache", "packed"}
    for name in others - {*signature(op.function).parameters}:
        with pytest.raises(TypeError) as error:
            sample.call(**{name: True})
        came, _, accepted = str(error.value).partition("; accepted: ")
        assert came == f"{op}() got an unexpected keyword argument {name!r}"
        assert not accepted or accepted.split(", ") == keywords_of(op)


@each_op
def test_arguments_come_by_name_and_only_the_first_by_position(op, device):
    sample = op.sample(device)
    given = {**sample.given, **sample.written, "freqs": sample.freqs, **sample.options()}
    parameters, rest = signature(op.function).parameters, dict(given)
    first = [
        rest.pop(x.name)
        for x in parameters.values()
        if x.kind is not x.KEYWORD_ONLY and x.name in given
    ]
    got, want = op.function(*first, **rest), op.function(**dict(reversed(given.items())))
    for x, y in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, want)), strict=True):
        assert torch.equal(x, y)
    with pytest.raises(TypeError, match="positional"):
        op.function(*first, None, None, **rest)


# values on a GPU


@pytest.mark.gpu
@each_op
def test_no_value_is_read_back_from_the_gpu(op):
    """Neither forward nor backward, wherever it is said where tokens are."""
    for positions in ("starts", "ids", "zigzag"):
        for case in ({"tensor_format": "thd"}, {"tensor_format": "bshd", "freqs": "on the fly"}):
            for fused in (True, False):
                sample = op.sample("cuda", positions=positions, s=4, fused=fused, **case)

                def run(sample=sample):
                    leaves = sample.leaves() if op.differentiable else {}
                    outs = sample.call(leaves)
                    if leaves:
                        grads = [torch.ones_like(out) for out in outs]
                        torch.autograd.grad(outs, [*leaves.values()], grads)

                run()  # compiles
                torch.cuda.synchronize()
                torch.cuda.set_sync_debug_mode("error")
                try:
                    run()
                finally:
                    torch.cuda.set_sync_debug_mode("default")
