"""The layer for the package `kernels` has the bits of the function in whose place it is.

`kernels` is not in the tests' environment. Where it is missing, a module stands in that is made of
a function as `kernels` makes it.
"""

import importlib
from contextlib import contextmanager, nullcontext
from types import MethodType

import pytest
import torch

from hf_calls import Function, cases, differs, outcome
from hf_models import FAMILIES, in_a_fixed_order, inputs_of, logits_and_gradients, unequal
from rope_kernels.huggingface.layers import RotaryPosEmb, write_kernel

# A model for each of the functions that transformers marks: in fp32, cast back, by half a table,
# the other way round.
MARKED = ("llama", "olmo2", "esm", "hunyuan_vl", "gpt_oss", "nanochat")


def layer_for(function):
    """The module that `kernels` makes of a marked function, with our forward."""

    class Func(torch.nn.Module):
        def forward(self, *args, **kwargs):
            return function(*args, **kwargs)

    module = Func()
    module.forward = MethodType(RotaryPosEmb.forward, module)
    return module


@pytest.mark.parametrize("family", MARKED)
def test_calls_have_the_bits_of_the_function(family, device, caplog):
    pytest.importorskip("transformers", reason="needs transformers")
    caplog.set_level("INFO", logger="rope_kernels")
    function = Function(family, "apply_rotary_pos_emb").itself
    layer, ours = layer_for(function), 0
    for case in cases():
        call = case.call_of(function, device)
        wanted = outcome(function, call)
        caplog.clear()
        assert differs(outcome(layer, call), wanted, call) is None, case
        ours += "the model's own function" not in caplog.text and not isinstance(wanted, str)
    assert ours >= 4


def test_a_function_that_is_not_known_stays_the_models_own(device, caplog):
    caplog.set_level("INFO", logger="rope_kernels")

    def interleaved(q, k, cos, sin, unsqueeze_dim=1):
        return [torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) for x in (q, k)]

    q, k = torch.randn(2, 2, 3, 4, 8, device=device)
    cos, sin = torch.randn(2, 2, 4, 8, device=device)
    for got, wanted in zip(
        layer_for(interleaved)(q, k, cos, sin), interleaved(q, k, cos, sin), strict=True
    ):
        assert torch.equal(got, wanted)
    assert "the model's own function" in caplog.text


def test_torch_compile_records_the_models_own_function():
    function = Function("llama", "apply_rotary_pos_emb").itself
    q, k = torch.randn(2, 2, 3, 4, 8)
    cos, sin = torch.randn(2, 2, 4, 8)
    compiled = torch.compile(layer_for(function), backend="eager", fullgraph=True)
    for got, wanted in zip(compiled(q, k, cos, sin), function(q, k, cos, sin), strict=True):
        assert torch.equal(got, wanted)


@pytest.fixture
def kernels():
    """The package, and not the folder of tests that has its name."""
    pytest.importorskip("kernels.layer", reason="needs the package kernels")
    return importlib.import_module("kernels")


class Itself:
    """A repository of `kernels` with this process's layer, which the interpreter can run.

    What `kernels` loads from a folder is a copy of the package, unknown to the lab.
    """

    layer_name = RotaryPosEmb.__name__

    def load(self):
        return RotaryPosEmb


@contextmanager
def put_into(model, repository, kernels):
    """The layer in a model, by `kernels`."""
    from transformers.integrations.hub_kernels import kernelize

    device = next(model.parameters()).device.type
    mapping = {"rotary_pos_emb": {device: {kernels.Mode.TRAINING: repository}}}
    with kernels.use_kernel_mapping(mapping, inherit_mapping=False):
        kernelize(model, mode=kernels.Mode.TRAINING)
    yield
    with kernels.use_kernel_mapping({}, inherit_mapping=False):
        kernelize(model, mode=kernels.Mode.TRAINING)


@pytest.mark.filterwarnings("ignore")  # of `kernels`, for layers that no mapping has
@pytest.mark.parametrize("family", ("llama", "qwen3", "glm4"))
def test_models_have_their_bits(family, kernels, device, tmp_path, monkeypatch, caplog):
    """Glm4's function pairs neighbors. It isn't marked, so it stays."""
    caplog.set_level("INFO", logger="rope_kernels")
    folder = write_kernel(tmp_path / "kernel")
    layer = kernels.LocalLayerRepository(folder, layer_name="RotaryPosEmb")
    model, inputs = FAMILIES[family].call(device, autocast=False)
    with in_a_fixed_order(monkeypatch, device):
        wanted = logits_and_gradients(model, inputs, autocast=False)
        with put_into(model, layer, kernels):
            got = logits_and_gradients(model, inputs, autocast=False)
    assert not unequal(got, wanted)
    uses_ours = "is computed by plain PyTorch" in caplog.text  # on a CPU that is logged
    assert device != "cpu" or uses_ours == (family != "glm4")


@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.parametrize("family", ("llama", "qwen3"))
def test_models_have_their_bits_by_the_kernel(family, kernels, device, interpreter, monkeypatch):
    """In fp32, because the interpreter rounds bf16 otherwise than the model."""
    made = FAMILIES[family]
    model, inputs = made.make(device), inputs_of(made, device)
    with nullcontext() if interpreter else in_a_fixed_order(monkeypatch, device):
        wanted = logits_and_gradients(model, inputs, autocast=False)
        with put_into(model, Itself(), kernels):
            got = logits_and_gradients(model, inputs, autocast=False)
    assert not unequal(got, wanted)
    assert interpreter is None or interpreter.launches == 2 * made.layers  # forward and backward


def test_a_folder_that_exists_is_refused(tmp_path):
    with pytest.raises(ValueError, match="which exists; accepted: a path"):
        write_kernel(tmp_path)
    assert not any(tmp_path.iterdir())
