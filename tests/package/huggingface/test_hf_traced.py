"""A patched model that is compiled, exported or traced is the model as it was."""

from functools import partial

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from hf_models import FAMILIES, inputs_of
from pairwise import slow_but
from rope_kernels.huggingface import patch, unpatch

pytestmark = pytest.mark.filterwarnings("ignore")  # of the tracers, and of transformers


@pytest.fixture(autouse=True)
def everything_is_new():
    pytest.importorskip("transformers", reason="needs transformers")
    torch.compiler.reset()
    yield
    unpatch()
    torch.compiler.reset()


class Logits(torch.nn.Module):
    """A model that takes and returns a tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, use_cache=False).logits


class Layer(torch.nn.Module):
    """The first layer of a model, whose mask depends on no value."""

    def __init__(self, model):
        super().__init__()
        self.layer, self.turns = model.model.layers[0], model.model.rotary_emb
        self.embedding = model.model.embed_tokens.weight.detach()

    def forward(self, tokens):
        hidden = self.embedding[tokens]
        turns = self.turns(hidden, torch.arange(tokens.shape[1], device=tokens.device)[None])
        return self.layer(hidden, position_embeddings=turns)


def nodes_of(graph):
    return [node.format_node() for node in graph.nodes]


def by_dynamo(model, tokens):
    """The second length makes a second graph, with sizes that vary."""
    graphs, model = [], Logits(model)

    def keep(module, example):
        graphs.append(nodes_of(module.graph))
        return module

    run = torch.compile(model, backend=keep)
    longer = torch.cat((tokens, tokens), 1)
    logits = run(tokens), run(longer)
    assert len(graphs) == 2
    return graphs, logits


def by_export(model, tokens):
    program = torch.export.export(Logits(model), (tokens,), strict=False)
    return nodes_of(program.graph), program.module()(tokens)


def by_make_fx(model, tokens, pre_dispatch=False):
    module = make_fx(Layer(model), pre_dispatch=pre_dispatch)(tokens)
    return nodes_of(module.graph), module(tokens)


def by_jit(model, tokens):
    traced = torch.jit.trace(Logits(model), (tokens,), check_trace=False)
    return [node.kind() for node in traced.inlined_graph.nodes()], traced(tokens)


WAYS = {
    "dynamo": by_dynamo,
    "export": by_export,
    "make_fx": by_make_fx,
    "make_fx before dispatch": partial(by_make_fx, pre_dispatch=True),
    "jit": by_jit,
}


@pytest.mark.parametrize(
    "way", slow_but(WAYS, "export", "make_fx", "make_fx before dispatch", "jit")
)
def test_what_is_recorded_is_the_model_itself(way, device):
    family = FAMILIES["qwen3"]
    model, tokens = family.make(device), inputs_of(family, device)["input_ids"]

    def record():
        torch.compiler.reset()
        torch.manual_seed(5)
        with torch.no_grad():
            return WAYS[way](model, tokens)

    wanted, logits = record()
    assert wanted
    with patch(model):
        got, logits_of_patched = record()
    assert got == wanted
    torch.testing.assert_close(logits_of_patched, logits, rtol=0, atol=0)
