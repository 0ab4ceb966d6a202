"""Models of transformers on several ranks, with our rotation, or with norms in its launch, too.

Each is compared with itself, unpatched, on the same ranks.
"""

from contextlib import nullcontext
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from on_a_mesh import Cases, mesh_of
from rope_kernels.huggingface import calls, patch
from rope_lab.n12.models import with_norms

CASES = Cases()
LAYERS = 2


def new_model():
    """A small Qwen 3, the same on each rank."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": LAYERS}
    torch.manual_seed(3)
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, **heads))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.add_(0.3 * torch.randn(weight.shape))
    return model


def logits_and_gradients(model, tokens):
    model.zero_grad()
    logits = model(tokens, use_cache=False).logits
    logits.square().sum().backward()
    found = {"logits": logits.detach()}
    for name, x in model.named_parameters():
        found[name] = x.grad.full_tensor() if isinstance(x.grad, DTensor) else x.grad.clone()
    return found


def compare(model, tokens, entered=patch):
    """The model with itself; how many calls rotate by `rope_qk`'s way."""
    wanted = logits_and_gradients(model, tokens)
    with (
        entered(model),
        mock.patch.object(calls, "check_and_rotate", wraps=calls.check_and_rotate) as rotates,
    ):
        got = logits_and_gradients(model, tokens)
    for name, x in wanted.items():
        torch.testing.assert_close(got[name], x, rtol=1e-4, atol=1e-5, msg=name)
    return rotates.call_count


def attention_of_own_heads(module, q, k, v, mask, **options):
    """PyTorch's attention takes no DTensor on a CPU, and torch 2.11 multiplies none by heads."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    own = [x.to_local() for x in (q, k, v)]
    out, weights = sdpa_attention_forward(module, *own, mask, **options)
    return DTensor.from_local(out, q.device_mesh, [Shard(2)]), weights  # (b, s, h, d)


def tokens_of(rank, device):
    torch.manual_seed(5 + rank)
    return torch.randint(0, 64, (2, 6), device=device)


def shard(model, device, each_norm=False):
    """By layers, or norms by themselves, too."""
    mesh = mesh_of(device, 2)
    for layer in model.model.layers:
        if each_norm:
            fully_shard(layer.self_attn.q_norm, mesh=mesh)
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


@CASES.for_each()
def a_patched_model_with_fsdp(device):
    model = new_model().to(device)
    shard(model, device)
    assert compare(model, tokens_of(dist.get_rank(), device)) == LAYERS


@CASES.for_each([False, True])
def a_forward_with_norms_with_fsdp(each_norm, device):
    """A norm that is sharded by itself is not gathered where it is not called."""
    model, tokens = new_model().to(device), tokens_of(dist.get_rank(), device)
    shard(model, device, each_norm)
    with pytest.raises(TypeError, match="q_weight is a DTensor") if each_norm else nullcontext():
        compare(model, tokens, with_norms)


@CASES.for_each([False, True])
def a_patched_model_with_fsdp_and_tensor_parallelism(dtensors, device):
    """Plain heads of a rank take the kernel; DTensors take the model's own function."""
    from transformers import AttentionInterface

    mesh = mesh_of(device, 1, 2)
    model = new_model().to(device)
    columns = ColwiseParallel(use_local_output=not dtensors)
    plan = {f"self_attn.{name}_proj": columns for name in "qkv"}
    plan |= {f"mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")}
    plan |= {"self_attn.o_proj": RowwiseParallel(), "mlp.down_proj": RowwiseParallel()}
    if dtensors:  # as torchtitan: the gradients of norms come from all heads
        AttentionInterface.register("of_own_heads", attention_of_own_heads)
        model.set_attn_implementation("of_own_heads")
        by_heads = SequenceParallel(sequence_dim=2)
        plan |= {f"self_attn.{name}_norm": by_heads for name in "qk"}
    for layer in model.model.layers:
        parallelize_module(layer, mesh["tp"], plan)
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    with implicit_replication() if dtensors else nullcontext():  # of cos and sin
        assert compare(model, tokens_of(0, device)) == (0 if dtensors else LAYERS)
