"""A small Llama whose heads, batch and parameters are shared by several ranks, against one process.

The model and its rotation are those of notebook 12. PyTorch's own tools share it: tensor
parallelism by `parallelize_module`, and FSDP2 by `fully_shard`.
"""

from dataclasses import dataclass, field
from functools import cache, partial
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental import local_map
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional as F

from on_a_mesh import mesh_of, silently
from rope_kernels import rope_bw, rope_qk
from rope_lab.steps.small_llama import Size, SmallLlama, rotated_by
from sharded_cases import Cases

cases = Cases()
CASES = cases.by_world_size

SIZE = Size(layers=2, width=16, heads=4, kv_heads=2, head_dim=8, mlp=24, vocabulary=20)
ENTRIES, TOKENS, STEPS = 2, 4, 2
NAMES = "q", "k", "turned q", "turned k"
HEADS = Shard(1)  # in bhsd
# Of the norm of a difference to one process, whose sums come in another order. Measured with gloo:
# at most 1e-6 and 0.043.
TOLERANCE = {torch.float32: 5e-6, torch.bfloat16: 0.1}


@dataclass
class Rotations:
    """The model's rotation, by this package; keeps what it was given and what became of it."""

    given: list = field(default_factory=list)  # (q, k, cos, sin) of each call
    turned: list = field(default_factory=list)  # (q, k)
    gradients: dict = field(default_factory=dict)  # of both, by number of call and name

    def __call__(self, q, k, cos, sin):
        number = len(self.given)
        self.given.append((q, k, cos, sin))
        outs = silently(lambda: rope_qk(q, k, (cos, sin), "bhsd"))
        self.turned.append(outs)
        for name, x in zip(NAMES, (q, k, *outs), strict=True):
            x.register_hook(lambda grad, name=name: self.gradients.update({(number, name): grad}))
        return outs


def new_model(device, dtype):
    torch.manual_seed(1)
    model = SmallLlama(SIZE)
    for x in model.parameters():  # as large as 1 / sqrt(width), norms near 1
        nn.init.normal_(x, std=SIZE.width**-0.5) if x.dim() > 1 else nn.init.uniform_(x, 0.5, 1.5)
    torch.manual_seed(2)
    tokens = torch.randint(0, SIZE.vocabulary, (STEPS, ENTRIES, TOKENS + 1))
    return model.to(device, dtype), tokens.to(device)


def of_own_heads(attend, q, k, v, **options):
    """Attention of this rank's heads, which need no others. torchtitan does the same."""
    attend = partial(attend, **options)
    return local_map(attend, [HEADS], ([HEADS],) * 3, device_mesh=q.device_mesh)(q, k, v)


def train(model, tokens):
    """The loss and all gradients of each step."""
    # one by one: `_foreach_add_` takes no list of both DTensors and tensors
    descent = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    found = []
    for batch in tokens:
        loss = model.loss(batch)
        loss.backward()
        found.append((loss.detach(), {n: x.grad for n, x in model.named_parameters()}))
        descent.step()
        descent.zero_grad()
    return found


@cache
def in_one_process(device, dtype):
    """With the model's own rotation, in plain PyTorch."""
    model, tokens = new_model(device, dtype)
    return train(model, tokens), dict(model.named_parameters())


def tensor_parallel(model, mesh, by_sequence):
    """Heads and columns of the MLP are shared, as in PyTorch's tutorial and in torchtitan."""
    columns = ColwiseParallel(use_local_output=False)
    of_layer = {
        **{f"attention.{name}": columns for name in "qkv"},
        "attention.out": RowwiseParallel(),
        **{name: ColwiseParallel() for name in ("gate", "up")},
        "down": RowwiseParallel(),
    }
    of_model = {"head": ColwiseParallel(output_layouts=Replicate())}
    if by_sequence:  # between attention and MLP each rank has some tokens
        by_tokens, whole = Shard(1), Replicate()
        arguments = (by_tokens, None, None, None), (whole, None, None, None)
        of_layer |= {
            "norm": SequenceParallel(),
            "attention": PrepareModuleInput(
                input_layouts=arguments[0], desired_input_layouts=arguments[1]
            ),
            "attention.out": RowwiseParallel(output_layouts=by_tokens),
            "mlp_norm": SequenceParallel(),
            **{name: ColwiseParallel(input_layouts=by_tokens) for name in ("gate", "up")},
            "down": RowwiseParallel(output_layouts=by_tokens),
        }
        of_model = {
            "embedding": RowwiseParallel(input_layouts=whole, output_layouts=by_tokens),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=by_tokens, output_layouts=whole),
        }
    for layer in model.layers:
        parallelize_module(layer, mesh, of_layer)
    return parallelize_module(model, mesh, of_model)


def fully_sharded(model, mesh):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole(x):
    return x.full_tensor() if isinstance(x, DTensor) else x


def assert_near(got, want, dtype):
    got, want = whole(got).double(), want.double()
    off = (got - want).norm() / want.norm()
    assert off <= TOLERANCE[dtype], off


def assert_rotated_alike(rotations):
    """Each rank's rows bit for bit as one process rotates the same whole tensors, and back.

    In the first call of all, and in the last.
    """
    for number in (0, STEPS * SIZE.layers - 1):
        *given, cos, sin = rotations.given[number]
        gradients = [rotations.gradients[number, name] for name in NAMES]
        every = *given, *rotations.turned[number], *gradients
        assert {(type(x), x.placements) for x in every} == {(DTensor, (HEADS,))}
        every = [x.detach().full_tensor() for x in every]
        q, k, *turned, of_q, of_k, of_turned_q, of_turned_k = every
        assert (q.shape[1], k.shape[1]) == (SIZE.heads, SIZE.kv_heads)
        table = cos, sin
        for got, want in zip(turned, rope_qk(q, k, table, "bhsd"), strict=True):
            assert torch.equal(got, want)
        assert torch.equal(of_q, rope_bw(of_turned_q, table, "bhsd"))
        assert torch.equal(of_k, rope_bw(of_turned_k, table, "bhsd"))


@cases.for_each(2, [(1, 2)], [False], [torch.bfloat16])
@cases.for_each(2, [(1, 2)], [True], [torch.float32])
@cases.for_each(4, [(2, 2)], [False], [torch.float32])
def a_small_llama(sizes, by_sequence, dtype, device):
    """Losses, all gradients and parameters near one process; rotations bit for bit."""
    mesh = mesh_of(device, *sizes)
    wanted, parameters = in_one_process(device, dtype)
    model, tokens = new_model(device, dtype)
    tp, rotations = mesh["tp"], Rotations()
    tensor_parallel(model, tp, by_sequence)
    if sizes[0] > 1:
        fully_sharded(model, mesh["dp"])
    mine = tokens.chunk(sizes[0], dim=1)[mesh.get_local_rank("dp")]
    attention = partial(of_own_heads, F.scaled_dot_product_attention)
    with rotated_by(rotations), mock.patch.object(F, "scaled_dot_product_attention", attention):
        found = train(model, mine)
    assert len(rotations.given) == STEPS * SIZE.layers
    assert_rotated_alike(rotations)
    for (loss, gradients), (of_one, grads) in zip(found, wanted, strict=True):
        loss = whole(loss)
        dist.all_reduce(loss, group=mesh.get_group("dp"))
        assert_near(loss / sizes[0], of_one, dtype)
        assert list(gradients) == list(grads)
        for name, want in grads.items():
            assert_near(gradients[name], want, dtype)
    for name, x in model.named_parameters():
        assert_near(x.detach(), parameters[name].detach(), dtype)
