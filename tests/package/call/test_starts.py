"""A number as `start_positions`: an argument of the kernel, which costs nothing and is checked.

A decoder passes another one for every token.
"""

from functools import partial

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import rope_kernels
from counted import calls_within, launches_in, operators_of
from inputs import angles
from ops import BF16, OPS, all_equal, by_turns, last_of_each_kind
from rope_kernels import RotaryPositionEmbedding, launch, rope_fw, rope_qk
from rope_kernels.norms import qk_norm_rope

TOKENS = 100
each_op = pytest.mark.parametrize("op", OPS, ids=str)
FREQS = ("angles", "cos and sin", "on the fly")


def decoded(op, freqs, device, tokens=1):
    """A call of one new token for each entry, or of several; and a table for all of them."""
    sample = op.sample(device, s=tokens, freqs=freqs, positions="one start", d=64)
    if freqs == "angles":
        sample.freqs = angles(TOKENS, sample.d2, device)
    elif freqs == "cos and sin":
        sample.freqs = tuple(torch.randn(2, TOKENS, sample.d2, device=device))
    return sample


@pytest.mark.parametrize("freqs", FREQS)
@each_op
def test_tokens_that_are_decoded_are_planned_and_compiled_once(op, freqs, interpreter, device):
    """The first position is another one in every call, and nothing else is."""
    sample, counts = decoded(op, freqs, device), []
    launch.forget()
    if interpreter is not None:
        interpreter.runs = False
    for start in range(TOKENS):
        counts.append(calls_within(rope_kernels, partial(sample.call, start_positions=start)))
    assert 2 * max(counts[1:]) < counts[0]
    if interpreter is not None:
        assert len(interpreter.by_jit) == 1 and len(interpreter.compiled) == 1
        assert len(interpreter.by_handle) == TOKENS - 1
    call = partial(sample.call, None, sample.written, start_positions=7)
    ours, pytorchs = launches_in(call, interpreter)
    looks_at_slots = op.name == "rope_to_cache" and device == "cpu"
    assert ours == 1 and (looks_at_slots or not pytorchs)
    assert "full" not in operators_of(call), "one start each"


@pytest.mark.skipif(torch.cuda.is_available(), reason="counts what a GPU would compile")
@each_op
def test_nothing_of_the_first_start_is_compiled_in(op, interpreter, device):
    """Later calls launch what the first one has compiled, with starts of their own."""
    sample = decoded(op, "on the fly", device)
    interpreter.runs = False
    for start in (0, 1, 16, 17):
        launch.forget()
        sample.call(start_positions=start)
    assert len(interpreter.by_jit) == 4 and len(interpreter.compiled) == 1


@by_turns(OPS, FREQS, "freqs")
def test_each_of_them_turns_by_its_own_position(op, freqs, interpreter, device):
    """Gradients, too, whose launches are remembered as well.

    A call without a start is another call, whose kernel has no such argument: 0 is a number, too.
    """
    sample = decoded(op, freqs, device)
    for start in (None, 0, 1, 57, None, TOKENS - 1):
        sample.where["start_positions"] = start
        sample.check()


def test_positions_beyond_32_bits_are_another_kernel(interpreter, device):
    """Which takes a number of 64 bits."""
    rope = RotaryPositionEmbedding(64).to(device)
    t = torch.randn(3, 1, 2, 64, dtype=torch.float64, device=device)
    for start in (2**31 - 1, 2**31, -(2**31) - 1, 2**40, 5):
        ids = start + torch.arange(3, device=device)[None]
        want = rope_fw(t, rope, position_ids=ids)
        torch.testing.assert_close(rope_fw(t, rope, start_positions=start), want)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("op", last_of_each_kind(OPS), ids=str)
def test_compiled_they_are_one_graph(op, device):
    """Where the number is dynamic; a norm's operators, of which there are many, take seconds."""
    torch._dynamo.reset()
    sample = decoded(op, "angles", device)  # a module's float may take Dynamo two attempts
    graphs = CompileCounterWithBackend("aot_eager" if op.is_operator else "eager")

    def step(start):
        return sample.call(None, sample.written, start_positions=start)

    compiled = torch.compile(step, backend=graphs, fullgraph=True, dynamic=True)
    for start in range(2, TOKENS, 5 if op.is_operator else 20):
        got = [x.clone() for x in compiled(start)]
        if op.is_operator:
            assert all_equal(got, step(start))
    assert graphs.frame_count == 1


def test_the_plan_is_that_of_a_call_without_starts():
    """At shapes where a start of its own for each entry has another tile, or no stretches."""
    pytest.importorskip("triton", reason="needs Triton")
    import rope_lab as lab

    rope, table = RotaryPositionEmbedding(128), torch.randn(9000, 1, 1, 128)
    q = torch.empty(8, 1024, 32, 128, dtype=BF16)
    k = torch.empty(8, 1024, 8, 128, dtype=BF16)
    weight = torch.empty(128, dtype=BF16)
    for freqs in (rope, table):
        for call in (
            partial(lab.plan_of, rope_fw, q, freqs, "bshd"),
            partial(lab.plan_of, rope_qk, q, k, freqs, "bshd"),
            partial(lab.plan_of, qk_norm_rope, q, k, weight, weight, freqs, "bshd"),
        ):
            without, plan = call(), call(start_positions=512)
            assert plan.settings == without.settings | {"first_position": 512}
            assert plan.programs == without.programs


# what is refused, in calls that look like accepted ones, too


@each_op
def test_a_position_past_the_table_is_refused_in_every_call(op, device):
    """On a GPU, too: the number is known without reading anything there."""
    sample, tokens, last = decoded(op, "angles", device, tokens=3), 3, TOKENS - 3
    if sample.packed:
        tokens = len(sample.given["q"])
        sample.where["cu_seqlens"] = torch.tensor([0, tokens], device=device)
        # on a GPU nobody reads how long a sequence is
        tokens, last = (1, TOKENS - 1) if device == "cuda" else (tokens, TOKENS - tokens)
    for _ in range(2):
        sample.call(start_positions=last)
        needed = last + 1 + tokens
        with pytest.raises(ValueError, match=rf"^freqs has .* s2 = {TOKENS} .* needs {needed}$"):
            sample.call(start_positions=last + 1)
        with pytest.raises(ValueError, match=r"^start_positions is -1; accepted: values from 0"):
            sample.call(start_positions=-1)


@pytest.mark.parametrize(
    "given", (2**62 + 1, -(2**62) - 1, 2**70, True, np.True_, 1.0, "1", [1]), ids=repr
)
@each_op
def test_what_is_no_integer_or_too_large_is_refused_in_every_call(op, given, device):
    sample = decoded(op, "on the fly", device)
    for _ in range(2):
        sample.call(start_positions=1)
        with pytest.raises(
            (TypeError, ValueError), match=r"^start_positions is .*; accepted: an in"
        ):
            sample.call(start_positions=given)
