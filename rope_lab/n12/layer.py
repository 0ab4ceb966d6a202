"""Notebook 12: check a layer in the place of a Llama's rotation."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf

import torch
from torch import Tensor, nn

from rope_kernels import RotaryPositionEmbedding

from ..interpreter import run_as_compiled
from ..judge.attempt import watch
from ..judge.errors import failure_of
from ..judge.guests import a_guest
from ..judge.verdict import NOT_YET, RIGHT, WRONG, Verdict, raised
from ..run import Now
from .model_runs import tables
from .models import SMALL, modeling_llama, new_llama, rotated_by

ROWS, POSITIONS = 12, 6  # of the table, and of a sequence
# The norm of a difference, as a share of the norm: 30 and 4 times what rung 7's roundings lead to.
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}
_CASES = (  # dtype; rows of the table; does cos have a row for each of the two sequences, or one?
    (torch.float32, POSITIONS, 1),
    (torch.bfloat16, ROWS, 1),
    (torch.bfloat16, ROWS, 2),
)


def check_layer(layer: Callable[[Tensor], nn.Module]) -> Verdict:
    """Run a small Llama forward and backward with a layer, and with its own rotation, and compare.

    Args:
        layer: a class. Its `__init__` gets a table of angles (positions, 1, 1, d), in fp32.
    """
    run_as_compiled()
    for device in dict.fromkeys(("cpu", Now.device)):
        with a_guest(device):
            angles = RotaryPositionEmbedding(SMALL["head_dim"])(ROWS).to(device)
            verdict = _in_the_model(layer, angles) and _where_it_refuses(layer, angles)
        if not verdict:
            break
    return replace(verdict, boxed=True)


def _in_the_model(layer: Callable, angles: Tensor) -> Verdict:
    device = angles.device.type
    for dtype, rows, b in _CASES:
        of_shape = f"s = {POSITIONS}, {rows} rows of angles, cos ({b}, s, d)"
        place = f"{str(dtype).removeprefix('torch.')}, {of_shape}"
        try:
            with watch(device) as trace:
                found = _results(layer(angles[:rows]), device, dtype, b)
        except NotImplementedError as error:
            return Verdict(state=NOT_YET, reason=str(error))
        except Exception as error:  # whatever a reader's layer may raise
            return Verdict(state=WRONG, place=place, reason=failure_of(error).reason)
        wanted = _results(modeling_llama.apply_rotary_pos_emb, device, dtype, b)
        if off := _off(found, wanted, _TOLERANCE[dtype]):
            return Verdict(state=WRONG, place=place, reason=off)
        # one launch may rotate both q and k
        if trace and trace.launches < 2 * SMALL["num_hidden_layers"]:
            reason = "too few launches: your kernel rotates in each layer, forward and backward"
            return Verdict(state=WRONG, place=place, reason=reason)
    return Verdict(state=RIGHT)


def _where_it_refuses(layer: Callable, angles: Tensor) -> Verdict:
    device = angles.device.type
    rotation, refused = layer(angles), dict(_calls_to_refuse(device))
    # what a layer remembers of right calls must not let others pass
    _results(rotation, device, torch.bfloat16, 1)
    for words, arguments in refused.items():
        reason = "it returns a result"
        try:
            rotation(*arguments)
        except ValueError:
            continue
        except Exception as error:  # as above
            reason = f"it {raised(error)}"
        place = f"a call to refuse, {words}"
        return Verdict(state=WRONG, place=place, reason=f"{reason}, and not a ValueError")
    reason = f"logits and gradients in float32 and bfloat16; refused: {', '.join(refused)}"
    return Verdict(state=RIGHT, reason=reason)


def _results(rotation: Callable, device: str, dtype: torch.dtype, b: int) -> dict[str, Tensor]:
    """The logits, and the gradient of each parameter by its name."""
    model = new_llama(device, dtype)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(256, (2, POSITIONS), generator=generator).to(device)
    positions = torch.arange(POSITIONS, device=device).expand(b, -1)
    with rotated_by(rotation):
        logits = model(tokens, position_ids=positions, use_cache=False).logits
    grad = torch.randn(logits.shape, generator=generator).to(device, dtype)
    names, parameters = zip(*model.named_parameters(), strict=True)
    grads = torch.autograd.grad(logits, parameters, grad, materialize_grads=True)
    return {"the logits": logits.detach()} | {
        f"the gradient of {name.removeprefix('model.')}": grad
        for name, grad in zip(names, grads, strict=True)
    }


def _off(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float) -> str:
    """What is wrong with the logits, or else with the worst gradient; '' if all are right."""
    off = {
        name: ((found[name] - x).double().norm() / x.double().norm()).nan_to_num(inf).item()
        for name, x in wanted.items()
    }
    if off["the logits"] > tolerance:
        return f"the logits are off by {off['the logits']:.1%}"
    worst = max(off, key=off.get)
    if off[worst] > tolerance:
        return f"the logits are right, but {worst} is off by {off[worst]:.1%}"
    return ""


def _calls_to_refuse(device: str) -> Iterator[tuple[str, tuple]]:
    """What rung 7 can't compute from the table's first s rows: in words, and the arguments."""
    q, k = (torch.randn(2, heads, POSITIONS, SMALL["head_dim"], device=device) for heads in (4, 2))
    cos, sin = tables(SMALL, q, ROWS + 1)
    first, later = slice(POSITIONS), slice(3, 3 + POSITIONS)
    own = cos[:, first], sin[:, first]
    yield "a later chunk", (q, k, cos[:, later], sin[:, later])
    mixed = (torch.cat((x[:, first], x[:, later])) for x in (cos, sin))
    yield "only the second sequence begins later", (q, k, *mixed)
    yield "a token after a cache", (q[:, :, :1], k[:, :, :1], cos[:, -2:-1], sin[:, -2:-1])
    yield "a rotation back", (q, k, own[0], -own[1])
    other = SMALL | {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    yield "another base", (q, k, *tables(other, q, POSITIONS))
    yield "an attention factor", (q, k, *(1.1 * x for x in own))
    longer = (x.repeat(1, 1, 3, 1)[:, :, : ROWS + 1] for x in (q, k))
    yield "more positions than the table has", (*longer, cos, sin)
    yield "unsqueeze_dim=2", (q.transpose(1, 2), k.transpose(1, 2), *own, 2)
