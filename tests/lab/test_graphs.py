"""A CUDA graph reads and writes memory by its addresses, so what replays it must keep that memory.

Who lets go of the call frees the tensors in it, and a replay then writes where others have theirs.
"""

import gc
import weakref
from functools import partial
from unittest.mock import MagicMock, patch

import pytest
import torch

from rope_lab.timing import in_a_graph


def test_what_replays_keeps_what_the_call_reads_and_writes():
    """The graph itself knows addresses alone; the one here knows nothing, and needs no GPU."""
    x, out = torch.ones(3), torch.empty(3)
    seen = [weakref.ref(x), weakref.ref(out)]
    with patch.object(torch, "cuda", MagicMock()):
        replay = in_a_graph(partial(torch.add, x, x, out=out))
    del x, out
    gc.collect()
    assert all(ref() is not None for ref in seen)
    del replay
    gc.collect()
    assert all(ref() is None for ref in seen)


@pytest.mark.gpu
def test_a_replay_after_others_took_all_memory_that_is_free():
    size = 2**22
    out = torch.zeros(size, device="cuda")

    def make():
        x = torch.arange(size, device="cuda", dtype=torch.float32)
        return in_a_graph(lambda: out.add_(x))

    replay = make()
    gc.collect()
    others = [torch.full((size,), -1e9, device="cuda") for _ in range(16)]
    out.zero_()
    replay()
    torch.cuda.synchronize()
    assert torch.equal(out, torch.arange(size, device="cuda", dtype=torch.float32))
    assert all(torch.equal(other, torch.full_like(other, -1e9)) for other in others)
