"""Record the kernels that a compiled backward launches, on a GPU:

    python tools/recording/compiled_backward.py > notebooks/records/08_compiled_backward.txt

The function is Hugging Face's, of q and k in (b, h, s, d) with cached cosines and sines.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from rope_kernels import RotaryPositionEmbedding
from rope_lab.records import circumstances, origin
from rope_lab.timing import measure

SIZES = 2048, 16, 4, 256  # s, b, heads of q and of k, d: together the headline's tensor
ORDERS = "stored bshd", "stored bhsd"


def q_and_k(order: str, sizes: tuple[int, ...], device: str) -> list[Tensor]:
    """Two tensors (b, h, s, d), stored in this order.

    They are separate, because a single one would be read only once.
    """
    s, b, heads, d = sizes
    views = [
        torch.randn(b, s, heads, d, device=device, dtype=torch.bfloat16).transpose(1, 2)
        for _ in range(2)
    ]
    return views if order == "stored bshd" else [view.contiguous() for view in views]


def backward_calls(
    sizes: tuple[int, ...] = SIZES, device: str = "cuda"
) -> Iterator[tuple[str, str, list[Tensor], Callable]]:
    """Order of q and k, order of their gradients, these gradients, and the backward's call."""
    s, _, _, d = sizes
    angles = RotaryPositionEmbedding(d).to(device)(s)[:, 0, 0]
    tables = angles.cos().bfloat16()[None], angles.sin().bfloat16()[None]
    for order in ORDERS:
        for grads_order in ORDERS:
            torch._dynamo.reset()
            inputs = [x.requires_grad_() for x in q_and_k(order, sizes, device)]
            outs = torch.compile(apply_rotary_pos_emb)(*inputs, *tables)
            grads = q_and_k(grads_order, sizes, device)
            call = partial(torch.autograd.grad, outs, inputs, grads, retain_graph=True)
            yield order, grads_order, grads, call


def main() -> None:
    """Print the record."""
    print(origin(**circumstances()))
    for order, grads_order, grads, backward in backward_calls():
        median = measure({"backward": backward})["backward"].median_us
        megabytes = 2 * sum(grad.nbytes for grad in grads) / 1e6  # gradients read and written
        print(f"q and k {order}, gradients {grads_order}: {median} us, {megabytes:.0f} MB")
        with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
            backward()
            torch.cuda.synchronize()
        for event in profiler.events():
            if event.device_time > 1:
                print(f"    {event.device_time:.1f} us  {event.name[:72]}")


if __name__ == "__main__":
    main()
