"""Notebook 10's nine bugs, each as a question to a reader's own function."""

from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint

from rope_kernels.embedding import RotaryPositionEmbedding
from rope_kernels.reference import apply_rotary_pos_emb

from ..engine import device
from ..judge import definitions
from ..judge.check import compare
from ..judge.check_exercise import check_exercise
from ..judge.far_apart import wrong_far_apart
from ..judge.spec import STRIDED

RIGHT, WRONG = "RIGHT", "WRONG"
_PLAIN = ("small and plain", "several sequences", "more elements than a block", "half precision")


def nine_checks(rope: Callable) -> str:
    """Run nine checks on `rope(t, freqs)`: t (s, b, h, d), freqs (s2, 1, 1, d), half-split.

    Cases of shapes and strides are those of `lab.check_exercise`. The others come after them, and
    only if the plain cases are right. Their tensors are part of larger
    memory, so a kernel that reads too far reads known numbers.
    """
    right = check_exercise(rope, definitions.rope).cases.right

    def cases(*names: str) -> str:
        missed = [name for name in names if name not in right]
        return f"{WRONG}: {missed[0]}" if missed else RIGHT

    plain, strided = cases(*_PLAIN), cases(*STRIDED)

    def then(question: Callable) -> str:
        return question(rope) if plain == RIGHT else "not tried: check 1 failed"

    far = then(_counts_beyond_32_bits) if strided == RIGHT else "not tried: check 4 failed"
    answers = {
        "the formula, in plain cases": plain,
        "its input afterwards": then(_leaves_its_input_alone),
        "sizes that no block divides": cases("sizes that no block divides", "one head"),
        "strides": strided,
        "past the end of the table": then(_says_where_the_table_ends),
        "far positions, in bf16": then(_tells_far_positions_apart),
        "offsets beyond 32 bits": far,
        "its gradient, with checkpointing": then(_is_run_twice),
        "twenty runs, the same bits": then(_repeats_itself),
    }
    rows = [f"{i}  {ask:34}{answer}" for i, (ask, answer) in enumerate(answers.items(), 1)]
    count = sum(answer.startswith(RIGHT) for answer in answers.values())
    return "\n".join([f"{rope.__name__}: {count} of {len(rows)} right", *rows])


def _sample(s: int, h: int, d: int, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(10)
    t = torch.randn(s, 1, h, d, generator=generator)
    return t.to(device, dtype), RotaryPositionEmbedding(d)(4096).to(device)


def _leaves_its_input_alone(rope: Callable) -> str:
    for h in (2, 1):
        t, table = _sample(5, h, 16)
        before = t.clone()
        rope(t, table[:5])
        if not torch.equal(t, before):
            return f"{WRONG}: overwritten, with {h} head{'s' * (h > 1)}"
    return RIGHT


def _says_where_the_table_ends(rope: Callable) -> str:
    t, table = _sample(4, 2, 16)
    table[2:] = 1.0  # what follows a table of two positions
    try:
        out = rope(t, table[:2])
    except Exception:
        return f"{RIGHT}: refused"
    return f"{RIGHT}: NaN" if out[2:].isnan().all() else f"{WRONG}: a result without angles"


def _tells_far_positions_apart(rope: Callable) -> str:
    t, table = _sample(6, 2, 16, torch.bfloat16)
    far = table[4090:4096].clone()
    return RIGHT if compare(rope(t, far), apply_rotary_pos_emb(t, far, round_once=True)) else WRONG


def _counts_beyond_32_bits(rope: Callable) -> str:
    far = wrong_far_apart(rope)
    if far is None:
        return "not tried: no memory for it"
    return f"{WRONG}: the third {far}" if far else RIGHT


def _is_run_twice(rope: Callable) -> str:
    t, table = _sample(3, 2, 8)
    leaf, freqs = t.clone().requires_grad_(), table[:3]
    try:
        if not rope(2 * leaf, freqs).requires_grad:
            return "not tried: it has no backward"
        wanted, got = (
            torch.autograd.grad(
                checkpoint(lambda q, f=f: f(q, freqs).tanh(), 2 * leaf, use_reentrant=False).sum(),
                leaf,
            )[0]
            for f in (apply_rotary_pos_emb, rope)
        )
    except RuntimeError as error:
        return f"{WRONG}: {str(error).splitlines()[0][:50]}"
    return RIGHT if compare(got, wanted, (1e-4, 1e-4)) else WRONG


def _repeats_itself(rope: Callable) -> str:
    s = 8 if device == "cpu" else 4096  # the interpreter has one order only
    t, table = _sample(s, 8, 64)
    first = rope(t.clone(), table[:s]).clone()
    same = all(torch.equal(rope(t.clone(), table[:s]), first) for _ in range(19))
    return RIGHT if same else f"{WRONG}: a race"
