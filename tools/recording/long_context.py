"""Record notebook 12's long context, on a GPU: `python tools/recording/long_context.py`.

A small Llama is trained on windows of 256 bytes. Then its loss on held-out text is taken at 2048
positions, with each scaling of its frequencies, as it is and after a short fine-tuning on windows
of 2048 bytes. Several seeds go through all of it.
"""

import copy
import math
import os
import time
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from rope_kernels import RotaryPositionEmbedding
from rope_lab.records import RECORD_SWITCH, observe
from rope_lab.steps.long_context import LONG, SCALINGS, TRAINED, configuration
from rope_lab.steps.prose import batch, prose
from rope_lab.steps.small_llama import SmallLlama
from rope_lab.steps.training import optimizer_of, step


@dataclass(frozen=True)
class Plan:
    """How much is trained and evaluated."""

    seeds: int = 3
    seconds: float = 150.0  # after which no further seed begins
    steps: int = 1000
    batch: int = 64
    rate: float = 3e-3
    tuning_steps: int = 100
    tuning_batch: int = 8
    tuning_rate: float = 5e-4
    windows: int = 256  # evaluated, of LONG + 1 bytes
    bins: int = 64  # of positions
    prompt: str = "The kernel reads every element once, and "
    generated: int = 160  # bytes
    device: str = "cuda"


def scale(model: SmallLlama, scaling: str) -> None:
    """Give a model other frequencies, and the factor of its cosines and sines."""
    rope = RotaryPositionEmbedding.from_config(configuration(scaling))
    model.rotary.inv_freq, model.rotary.attention_factor = rope.inv_freq, rope.attention_factor


def train(
    model: SmallLlama, text: Tensor, steps: int, size: int, length: int, rate: float, seed: int
) -> None:
    """Train on windows of `length` bytes, with a warm-up and then a cosine to zero."""
    optimizer = optimizer_of(model, rate)
    device = next(model.parameters()).device
    for number in range(steps):
        warm = min(1.0, (number + 1) / (0.05 * steps))
        for group in optimizer.param_groups:
            group["lr"] = rate * warm * (1 + math.cos(math.pi * number / steps)) / 2
        step(model, optimizer, batch(text, size, length, seed=1_000_000 * seed + number).to(device))


@torch.no_grad()
def losses(model: SmallLlama, text: Tensor, plan: Plan, length: int = LONG) -> Tensor:
    """Mean loss in nats at each position (length,), over windows spread evenly over a text."""
    device = next(model.parameters()).device
    begins = torch.linspace(0, len(text) - length - 1, plan.windows).long()
    total = torch.zeros(length, dtype=torch.float64)
    for begin in begins.split(plan.tuning_batch):
        tokens = text[begin[:, None] + torch.arange(length + 1)].to(device)
        logits = model(tokens[:, :-1]).float()
        loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        total += loss.double().sum(0).cpu()
    return total / plan.windows


def by_position(loss: Tensor, bins: int) -> list[float]:
    """The mean of each bin of positions."""
    return [round(value, 4) for value in loss.unflatten(0, (bins, -1)).mean(1).tolist()]


@torch.no_grad()
def generated(model: SmallLlama, plan: Plan, forgets: bool) -> str:
    """Greedy bytes after the prompt, with a cache; `forgets`: each new one is at position 0."""
    device = next(model.parameters()).device
    given = torch.tensor(list(plan.prompt.encode()), device=device)[None]
    cache, text, positions = {}, [], None
    for _ in range(plan.generated):
        given = model(given, positions, cache)[:, -1:].argmax(-1)
        text.append(given.item())
        positions = torch.zeros_like(given) if forgets else None
    return bytes(text).decode(errors="replace")


def one_seed(seed: int, plan: Plan, model: SmallLlama) -> dict:
    """Name -> scaling -> the loss by position, of one model; it is trained here."""
    text, unseen = prose("train"), prose("held out")
    train(model, text, plan.steps, plan.batch, TRAINED + 1, plan.rate, seed)
    short = by_position(losses(model, unseen, plan, TRAINED), 4)
    print(f"seed {seed}: at 256 positions, by quarters: {short}", flush=True)
    found = {"as trained": {}, "after fine-tuning": {}, "at 256 positions": short[-1]}
    for scaling in SCALINGS:
        tuned = copy.deepcopy(model)
        scale(tuned, scaling)
        found["as trained"][scaling] = by_position(losses(tuned, unseen, plan), plan.bins)
        size, length = plan.tuning_batch, LONG + 1
        train(tuned, text, plan.tuning_steps, size, length, plan.tuning_rate, seed + 100)
        found["after fine-tuning"][scaling] = by_position(losses(tuned, unseen, plan), plan.bins)
        for when in ("as trained", "after fine-tuning"):
            curve = found[when][scaling]
            print(f"{scaling:7} {when:18}", *(curve[i] for i in (0, 7, 8, 15, 31, 63)), flush=True)
    return found


def record(plan: Plan) -> None:
    """Train and evaluate all seeds, and write two records."""
    begin, found, models = time.perf_counter(), [], []
    for seed in range(plan.seeds):
        if not found or time.perf_counter() - begin < plan.seconds:
            torch.manual_seed(seed)
            models.append(SmallLlama().to(plan.device))
            found.append(one_seed(seed, plan, models[-1]))
    print(f"{len(found)} seeds in {time.perf_counter() - begin:.0f} s", flush=True)
    curves = {"seeds": len(found), "steps": plan.steps, "fine-tuning steps": plan.tuning_steps}
    curves |= {"positions of a bin": LONG // plan.bins}
    curves |= {name: [one[name] for one in found] for name in found[0]}
    texts = {"prompt": plan.prompt}
    for name, forgets in (("right", False), ("forgotten", True)):
        texts[name] = generated(models[0], plan, forgets)
        print(f"{name}: {texts[name]!r}", flush=True)
    observe("12/long-context", lambda: curves)
    observe("12/long-generation", lambda: texts)


if __name__ == "__main__":
    os.environ[RECORD_SWITCH] = "1"
    record(Plan())
