"""Models of transformers on several ranks, with norms and rotation in one launch where they may be.

Each is compared with itself, unpatched, on the same ranks.
"""

from contextlib import contextmanager, nullcontext
from unittest import mock

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
from rope_kernels import api
from rope_kernels.huggingface import norms, patch

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


@contextmanager
def counted(module, name):
    """Counts the calls of a function that a kernel takes."""
    wrapped = getattr(module, name)
    with mock.patch.object(module, name, wraps=wrapped) as calls:
        yield calls


def compare(model, tokens, fused, alone=0):
    """The model with itself, and how many calls normalize and rotate, or only rotate."""
    wanted = logits_and_gradients(model, tokens)
    patched = patch(model, norms=True, strict=True)
    with patched, counted(norms, "normalize_by") as with_norms, counted(api, "rotate") as without:
        got = logits_and_gradients(model, tokens)
    assert (with_norms.call_count, without.call_count) == (fused, alone)
    for name, x in wanted.items():
        torch.testing.assert_close(got[name], x, rtol=1e-4, atol=1e-5, msg=name)
    return got


def attention_of_own_heads(module, q, k, v, mask, **options):
    """PyTorch's attention takes no DTensor on a CPU, and torch 2.11 multiplies none by heads."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    own = [x.to_local() for x in (q, k, v)]
    out, weights = sdpa_attention_forward(module, *own, mask, **options)
    return DTensor.from_local(out, q.device_mesh, [Shard(2)]), weights  # (b, s, h, d)


def tokens_of(rank, device):
    torch.manual_seed(5 + rank)
    return torch.randint(0, 64, (2, 6), device=device)


@CASES.for_each([False, True])
def a_patched_model_with_fsdp(each_norm, device):
    """Sharded by layers all is fused; a norm that is sharded by itself has a class of its own."""
    mesh = mesh_of(device, 2)
    model = new_model().to(device)
    for layer in model.model.layers:
        if each_norm:
            fully_shard(layer.self_attn.q_norm, mesh=mesh)
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    fused, alone = (0, LAYERS) if each_norm else (LAYERS, 0)
    compare(model, tokens_of(dist.get_rank(), device), fused, alone)


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
        compare(model, tokens_of(0, device), 0 if dtensors else LAYERS)


@CASES.for_each()
def a_patched_model_with_hooks_of_tensor_parallelism(device):
    """Those with which transformers sums the gradients of norms over ranks: the norms run."""
    from transformers.distributed.tensor_parallel import ReplicatedWithGradAllReduce

    mesh = mesh_of(device, 2)
    model, tokens = new_model().to(device), tokens_of(dist.get_rank(), device)
    name = "model.layers.0.self_attn.q_norm.weight"
    of_this_rank = logits_and_gradients(model, tokens)[name]
    for layer in model.model.layers:
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            ReplicatedWithGradAllReduce().install_forward(norm, mesh)
    logits_and_gradients(model, tokens)  # from now on there are gradients that a hook finds
    model.zero_grad = lambda: [x.grad.zero_() for x in model.parameters()]
    got = compare(model, tokens, 0, LAYERS)[name]
    assert (got - of_this_rank).norm() > 0.1 * got.norm(), "the hook sums nothing"
