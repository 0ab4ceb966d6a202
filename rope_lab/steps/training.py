"""Train the small Llama of notebook 12, the same way every time."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from .prose import batch
from .small_llama import SIZE, Size, SmallLlama


def new_model(
    size: Size = SIZE, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> SmallLlama:
    """A model with the same random weights everywhere: they are drawn on the CPU, in fp32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SmallLlama(size).to(device, dtype)


def optimizer_of(model: SmallLlama, learning_rate: float = 3e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), learning_rate, betas=(0.9, 0.95))


def step(model: SmallLlama, optimizer: torch.optim.Optimizer, tokens: Tensor) -> Tensor:
    """One step on tokens (b, s); the loss before it, detached."""
    loss = model.loss(tokens)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def train(
    model: SmallLlama, text: Tensor, steps: int, size: int = 8, length: int = 128
) -> list[float]:
    """The loss before each step, on windows of a text that the step's number decides."""
    device = next(model.parameters()).device
    optimizer, losses = optimizer_of(model), []
    with _one_thread():
        for number in range(steps):
            tokens = batch(text, size, length + 1, seed=number).to(device)
            losses.append(step(model, optimizer, tokens))
    return torch.stack(losses).tolist()


@contextmanager
def _one_thread() -> Iterator[None]:
    """On a CPU the threads of so small a model wait for each other most of the time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def deterministic() -> Iterator[None]:
    """Equal bits in equal runs: attention's backward adds in a fixed order, which costs time."""
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = False  # no launches of its own
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = fills
