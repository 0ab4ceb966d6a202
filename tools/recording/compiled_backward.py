"""What a compiled backward launches, on a GPU:

    python tools/recording/compiled_backward.py > notebooks/records/08_compiled_backward.txt

The function is Hugging Face's, of q and k in (b, h, s, d) with cached cosines and sines.
"""

from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from rope_kernels import RotaryPositionEmbedding
from rope_lab.records import circumstances, origin
from rope_lab.timing import measure

S, B, HEADS, D = 2048, 16, 4, 256  # of q and of k: together the headline's tensor
ORDERS = "stored bshd", "stored bhsd"


def stored(order: str) -> torch.Tensor:
    """A tensor (b, h, s, d), stored in that order."""
    x = torch.randn(B, S, HEADS, D, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    return x if order == "stored bshd" else x.contiguous()


print(origin(**circumstances()))
angles = RotaryPositionEmbedding(D).cuda()(S)[:, 0, 0]
tables = angles.cos().bfloat16()[None], angles.sin().bfloat16()[None]
for order in ORDERS:
    for grads_order in ORDERS:
        torch._dynamo.reset()
        inputs = [stored(order).detach().requires_grad_() for _ in range(2)]
        outs = torch.compile(apply_rotary_pos_emb)(*inputs, *tables)
        grads = [stored(grads_order)] * 2
        backward = partial(torch.autograd.grad, outs, inputs, grads, retain_graph=True)
        median = measure({"backward": backward})["backward"].median_us
        print(f"q and k {order}, gradients {grads_order}: {median} us")
        with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
            backward()
            torch.cuda.synchronize()
        for event in profiler.events():
            if event.device_time > 1:
                print(f"    {event.device_time:.1f} us  {event.name[:72]}")
