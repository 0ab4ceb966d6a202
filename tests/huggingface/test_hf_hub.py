"""The layer for the kernels hub, from a folder: bits, modes, what it leaves, and its neighbors.

Without the package kernels these tests are skipped; where CI is set, that is a failure. Those that
take functions as transformers marks them need a version of kernels that it accepts.
"""

import importlib
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import hub_layer
from hf_calls import READ, Case, Sizes, differs, every_function, outcome, version
from hf_models import FAMILIES, in_a_fixed_order, inputs_of, logits_and_gradients, unequal
from hub_layers import LAYER, NAME, Caller, Hub, calls_of, need_kernels, need_marks
from rope_kernels.huggingface import calls, patch, unpatch
from rope_kernels.huggingface.known import function_of
from rope_kernels.launch import launch

ROOT = Path(__file__).resolve().parents[2]
LLAMA = "transformers.models.llama.modeling_llama"
CASE = Case("(b, s, w) for (b, h, s, d)", 1, "fp16", Sizes(s=3))
MODELS = ("gpt_oss", "nanochat", "olmo2")  # each by another rule

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    need_kernels()
    from kernels import LocalLayerRepository, get_local_kernel

    folder = tmp_path_factory.mktemp("hub")
    hub_layer.write(folder)
    return Hub(LocalLayerRepository(folder, layer_name=LAYER), get_local_kernel(folder))


@pytest.fixture
def modes(hub):
    """By name: those in which the layer is asked for."""
    from kernels import Mode

    return {
        "training": Mode.TRAINING,
        "training, compiled": Mode.TRAINING | Mode.TORCH_COMPILE,
        "inference": Mode.INFERENCE,
    }


@pytest.fixture
def fixed_order(monkeypatch, device):
    with in_a_fixed_order(monkeypatch, device):
        yield


@pytest.fixture
def marks():
    need_marks()


marked = pytest.mark.usefixtures("marks")


@pytest.fixture(autouse=True)
def nothing_stays_patched():
    yield
    unpatch()


def global_of(family):
    """What the models of a family call: a module, because kernels is installed."""
    return vars(importlib.import_module(LLAMA.replace("llama", family)))["apply_rotary_pos_emb"]


# The bits


@marked
@pytest.mark.parametrize("name", MODELS)
def test_a_kernelized_model_has_the_same_bits(name, hub, modes, device, monkeypatch, fixed_order):
    """Logits and every gradient in bf16 and in autocast; in all modes the copy takes the calls."""
    taken = calls_of(hub.module("huggingface.calls"), "rotate_call", monkeypatch)
    of_others = calls_of(calls, "rotate_call", monkeypatch)
    for autocast in (False, True):
        model, inputs = FAMILIES[name].call(device, autocast)
        wanted = logits_and_gradients(model, inputs, autocast)
        assert not taken
        with hub.kernelized(model, modes["training"], device):
            got = logits_and_gradients(model, inputs, autocast)
        assert not unequal(got, wanted)
        assert len(taken) == FAMILIES[name].layers and not of_others
        taken.clear()
    wanted = logits_of(model, inputs)
    for mode in ("training, compiled", "inference"):
        with hub.kernelized(model, modes[mode], device):
            assert torch.equal(logits_of(model, inputs), wanted), mode
        assert len(taken) == FAMILIES[name].layers and not of_others, mode
        taken.clear()


def logits_of(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits


def functions_of_the_hub():
    """Those that transformers marks with this name, by the text of its files."""
    marked = []
    for function in every_function():
        folder = Path(importlib.import_module("transformers").__file__).parent / "models"
        path = folder / function.family / f"modeling_{function.family}.py"
        text = path.read_text(encoding="utf-8")
        if f'_from_hub("{NAME}")' in text and function.name == "apply_rotary_pos_emb":
            marked.append(function)
    return marked


@marked
def test_every_function_of_the_hub_has_the_bits_of_its_original(
    hub, modes, device, monkeypatch, fixed_order
):
    """All functions of this name have the same arguments, and seven bodies of code."""
    taken = calls_of(hub.module("huggingface.calls"), "rotate_call", monkeypatch)
    functions, found = functions_of_the_hub(), {}
    assert version() not in READ or len(functions) == READ[version()][1]
    for function in functions:
        taken.clear()
        for width in (1, 1 / 2):  # a table per element, or per pair; the first may be refused
            call = Case(CASE.layout, width, "fp16").call_of(function.itself, device)
            wanted = outcome(function.itself, call)
            model = Caller(vars(function.module)[function.name])
            with hub.kernelized(model, modes["training"], device):
                if difference := differs(outcome(model, call), wanted, strides=False):
                    found[function] = difference
        if not taken:
            found.setdefault(function, "no call was taken")
    assert not found


@marked
def test_a_kernel_of_the_copy_is_launched(hub, modes, device, monkeypatch, needs_triton):
    """Interpreted on a CPU. Once forward and once backward, by the copy's own code."""
    of_hub = global_of("llama")
    call = CASE.call_of(function_of(of_hub), device)
    launches = calls_of(hub.module("launch.launch"), "rotate", monkeypatch)
    of_others = calls_of(launch, "rotate", monkeypatch)
    with hub.kernelized(Caller(of_hub), modes["training"], device) as caller:
        got = outcome(caller, call)
    assert differs(got, outcome(function_of(of_hub), call), strides=True) is None
    assert (len(launches), len(of_others)) == (2, 0)


@marked
def test_a_compiled_model_has_the_operator_of_the_copy(hub, modes, device, needs_triton):
    """One graph, with an operator a layer; bits and gradients as the model's own graph.

    Not of eager: there, transformers needs no mask, and a GPU takes another kernel for attention.
    """
    family = replace(FAMILIES["llama"], options={"num_hidden_layers": 1})
    inputs = {name: x[1:, :4] for name, x in inputs_of(family, device).items()}
    model = family.make(device)
    wanted, own = of_a_graph(model, inputs)
    with hub.kernelized(model, modes["training, compiled"], device):
        got, kernelized = of_a_graph(model, inputs)
    operator = getattr(torch.ops, hub.build.__name__).rotate.default
    for graph, count in ((own, 0), (kernelized, 1)):
        assert sum(node.target is operator for node in graph.graph.nodes) == count
    assert not unequal(got, wanted)


def of_a_graph(model, inputs):
    """Logits and gradients of the compiled model, whose one graph runs as it is, and the graph."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    model.forward = torch.compile(model.forward, fullgraph=True, backend=keep)
    try:
        found = logits_and_gradients(model, inputs, autocast=False)
    finally:
        del model.forward
        torch.compiler.reset()
    (graph,) = graphs
    return found, graph


@marked
@pytest.mark.gpu
def test_the_switch_of_transformers_takes_a_local_folder(hub, device, monkeypatch):
    """Set in training, it stays in evaluation. On a CPU transformers refuses it."""
    from transformers import KernelConfig

    model, inputs = FAMILIES["llama"].make(device).train(), inputs_of(FAMILIES["llama"], device)
    wanted = logits_of(model, inputs)
    taken = calls_of(hub.module("huggingface.calls"), "rotate_call", monkeypatch)
    folder = Path(hub.build.__file__).parents[2]
    config = KernelConfig({NAME: f"{folder}:{LAYER}"}, use_local_kernel=True)
    try:
        model.set_use_kernels(True, config)
        for _ in range(2):
            assert torch.equal(logits_of(model, inputs), wanted)
            model.eval()
        assert len(taken) == 2 * FAMILIES["llama"].layers
    finally:
        vars(global_of("llama")).pop("forward", None)


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


@marked
def test_the_block_of_the_page_runs(hub, device, tmp_path, monkeypatch):
    """The card has the same one."""
    (block,) = blocks_of("docs/hub.md")
    assert blocks_of("integrations/hub/README.md") == [block]
    (tmp_path / "build").mkdir()
    (tmp_path / "build/hub").symlink_to(Path(hub.build.__file__).parents[2])
    monkeypatch.chdir(tmp_path)
    of_hub, found = global_of("llama"), {}
    try:
        exec(block.replace('"cuda"', repr(device)), found)
        assert "forward" in vars(of_hub)
        assert vars(of_hub)["forward"].__func__.__qualname__ == f"{LAYER}.forward"
    finally:
        vars(of_hub).pop("forward", None)
    wanted = logits_of(found["model"], {"input_ids": torch.arange(6, device=device)[None]})
    assert wanted.isfinite().all()


# What it leaves


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes a function of the hub in a module of its own, from Llama's text with changes."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, *changes):
        llama = importlib.import_module(LLAMA)
        functions = llama.rotate_half, function_of(llama.apply_rotary_pos_emb)
        text = "import torch\nfrom kernels import use_kernel_forward_from_hub\n\n"
        text += "\n\n".join(inspect.getsource(function) for function in functions)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name).apply_rotary_pos_emb

    return make


def test_an_unknown_function_is_called_itself(hub, modes, made, device, monkeypatch):
    of_hub = made("minus_rotation", ("(q * cos) + ", "(q * cos) - "))
    call = CASE.call_of(function_of(of_hub), device)
    taken = calls_of(hub.module("huggingface.calls"), "rotate_call", monkeypatch)
    wanted = outcome(function_of(of_hub), call)
    for mode in modes.values():
        with hub.kernelized(Caller(of_hub), mode, device) as caller:
            assert "forward" in vars(of_hub)
            assert differs(outcome(caller, call), wanted, strides=True) is None
            torch.compiler.reset()
            compiled = torch.compile(caller, fullgraph=True, backend="eager")
            assert differs(outcome(compiled, call), wanted, strides=True) is None
    assert not taken


def test_arguments_in_another_order_keep_their_names(hub, modes, made, device, monkeypatch):
    """kernels checks the arguments of the first function alone; another may have more of them."""
    usual = made("usual_rotation")
    old = made("old_rotation", ("sin, unsqueeze_dim=1", "sin, position_ids=None, unsqueeze_dim=1"))
    new = made(
        "unknown_rotation",
        ("sin, unsqueeze_dim=1", "sin, position_ids=None, unsqueeze_dim=1"),
        ("cos = cos.unsq", "cos = (cos if position_ids is None else -cos).unsq"),
    )
    taken = calls_of(hub.module("huggingface.calls"), "rotate_call", monkeypatch)
    for of_hub in (old, new):
        call = Case("(b, s, w) for (b, s, h, d)", 1, "fp16").call_of(function_of(of_hub), device)
        assert call.pop("unsqueeze_dim") == 2
        for more in ({"unsqueeze_dim": 2}, {"position_ids": 0, "unsqueeze_dim": 2}):
            wanted = outcome(function_of(of_hub), call | more)
            # the layer is loaded by now, so that kernels binds it without a check
            with hub.kernelized(Caller(usual), modes["training"], device):
                pass
            with hub.kernelized(Caller(of_hub), modes["training"], device) as caller:
                assert differs(outcome(caller, call | more), wanted, strides=False) is None
    assert len(taken) == 2  # those of the known one


# Beside an installed package, and with `patch`


def test_operators_live_side_by_side(hub, device, needs_triton):
    ours, theirs = torch.ops.rope_kernels, getattr(torch.ops, hub.build.__name__)
    assert ours.rotate.default is not theirs.rotate.default
    schemas = [str(x.rotate.default._schema).partition("(")[2] for x in (ours, theirs)]
    assert schemas[0] == schemas[1]
    q = torch.randn(2, 3, 1, 8, device=device)
    angles = torch.randn(3, 1, 1, 8, device=device)
    compiled = [
        torch.compile(package.apply_rotary_pos_emb, fullgraph=True, backend="eager")
        for package in (sys.modules["rope_kernels"], hub.build.rope_kernels)
    ]
    one, other = [function(q, angles, "bshd") for function in compiled]
    assert torch.equal(one, other)


@marked
def test_patch_takes_a_kernelized_function_and_puts_it_back(hub, modes, device, monkeypatch):
    """Whichever comes first, `patch` counts while it lasts."""
    llama = importlib.import_module(LLAMA)
    of_hub, call = llama.apply_rotary_pos_emb, CASE.call_of(function_of(global_of("llama")), device)
    of_copy = calls_of(hub.module("huggingface.calls"), "rotate_call", monkeypatch)
    of_package = calls_of(calls, "rotate_call", monkeypatch)
    wanted = outcome(function_of(of_hub), call)

    def check(is_patched):
        assert (llama.apply_rotary_pos_emb is of_hub) != is_patched and "forward" in vars(of_hub)
        got = outcome(lambda **call: llama.apply_rotary_pos_emb(**call), call)
        assert differs(got, wanted, strides=False) is None
        assert (len(of_copy), len(of_package)) == ((0, 1) if is_patched else (1, 0))
        of_copy.clear()
        of_package.clear()

    with hub.kernelized(Caller(of_hub), modes["training"], device):
        check(is_patched=False)
        with patch("llama"):
            check(is_patched=True)
        check(is_patched=False)
    with patch("llama"), hub.kernelized(Caller(of_hub), modes["training"], device):
        check(is_patched=True)
        unpatch()
        check(is_patched=False)
