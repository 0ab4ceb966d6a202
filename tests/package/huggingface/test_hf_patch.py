"""`patch` and `unpatch`: what is replaced, what is left and why, and that it comes back."""

import functools
import importlib
import inspect
import linecache
import os
import re
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from hf_calls import Call, differs, outcome
from hf_models import FAMILIES
from hugging_face import families_of
from rope_kernels.huggingface import Left, Replaced, patch, unpatch
from rope_kernels.huggingface.calls import Rule
from rope_kernels.huggingface.digest import code_digest
from rope_kernels.huggingface.replacement import function_of
from rope_kernels.huggingface.rules import RULE_BY_DIGEST

LLAMA = "transformers.models.llama.modeling_llama"
CASE = Call("(b, s, w) for (b, h, s, d)", 1, "fp32")


@pytest.fixture(autouse=True)
def nothing_stays_patched():
    pytest.importorskip("transformers", reason="needs transformers")
    yield
    unpatch()


@pytest.fixture
def llama():
    return importlib.import_module(LLAMA)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes a module of Python from text, as the code that comes with a model on the hub."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, text):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return make


def text_of_llama(llama):
    """Its rotation and the helper, as a copy has them."""
    functions = llama.rotate_half, function_of(llama.apply_rotary_pos_emb)
    text = "import torch\n\n" + "\n\n".join(inspect.getsource(f) for f in functions)
    return re.sub(r"^@.*\n", "", text, flags=re.M)


# What a target may be


def test_a_name_a_module_and_a_model(llama, device):
    original = llama.apply_rotary_pos_emb
    for target in ("llama", LLAMA, llama, FAMILIES["llama"].make(device)):
        patched = patch(target)
        assert patched.replaced == (Replaced(LLAMA, "apply_rotary_pos_emb"),)
        assert patched.left == ()
        assert str(patched) == f"replaced {LLAMA}.apply_rotary_pos_emb"
        assert llama.apply_rotary_pos_emb is not original
        unpatch(target)
        assert llama.apply_rotary_pos_emb is original


def test_all_modules_of_a_model_with_two_towers(device):
    patched = patch(FAMILIES["qwen2_vl"].make(device))
    functions = {one.function for one in patched.replaced}
    assert functions == {"apply_rotary_pos_emb", "apply_rotary_pos_emb_vision"}


def test_another_target_is_refused():
    for target in (None, 3, torch.Tensor):
        with pytest.raises(TypeError, match=r"target is of type .*; accepted: a torch\.nn\.Module"):
            patch(target)
    for name in ("lama", "../x", ".x", "", "a..b"):
        with pytest.raises(ValueError, match=f"target is '{re.escape(name)}', but .* be imported"):
            patch(name)


WITHOUT = {  # where no function is known, and what is said
    "bert": r"\S*modeling_bert, in which no function that rotates was found",
    "llama4": r"\S*modeling_llama4, in which .* is known, but found: .*apply_rotary_emb: its code",
    "a model": "Linear, in which no function that rotates was found",
}


@pytest.mark.parametrize("name", WITHOUT)
def test_strict_says_what_is_missing(name):
    target = nn.Linear(2, 2) if name == "a model" else name
    with pytest.raises(ValueError, match=f"^target is {WITHOUT[name]}.*; pass strict=False"):
        patch(target)
    assert not patch(target, strict=False).replaced


def compiled_in_place(model):
    model.compile()
    return model


@pytest.mark.parametrize("compiled", (torch.compile, compiled_in_place), ids=("a copy", "in place"))
def test_a_compiled_model_is_refused(compiled, llama, device):
    """It runs the model's own function. Nothing would say that the kernel isn't used."""
    original, target = llama.apply_rotary_pos_emb, compiled(FAMILIES["llama"].make(device))
    with pytest.raises(
        ValueError, match=r"^target is a compiled Llama.*; accepted: .* strict=False"
    ):
        patch(target)
    assert llama.apply_rotary_pos_emb is original
    assert patch(target, strict=False).replaced
    unpatch(target)
    assert llama.apply_rotary_pos_emb is original


def test_strict_is_a_bool():
    with pytest.raises(TypeError, match="strict is 1; accepted: False, True"):
        patch("qwen3", strict=1)


# It comes back


def test_a_context_manager_undoes_what_it_did_and_no_more(llama):
    original = llama.apply_rotary_pos_emb
    with pytest.raises(RuntimeError, match="within"), patch("llama") as patched:
        assert patched.replaced and llama.apply_rotary_pos_emb is not original
        with patch("llama"):
            pass
        assert llama.apply_rotary_pos_emb is not original
        raise RuntimeError("within")
    assert llama.apply_rotary_pos_emb is original


def wrapped(ours):
    return functools.wraps(ours)(lambda *args, **kwargs: ours(*args, **kwargs))


@pytest.mark.parametrize("theirs", (lambda ours: print, wrapped), ids=("another", "a wrapper"))
def test_what_others_put_there_since_stays(theirs, llama, monkeypatch):
    monkeypatch.setattr(llama, "apply_rotary_pos_emb", llama.apply_rotary_pos_emb)
    patch("llama")
    there = llama.apply_rotary_pos_emb = theirs(llama.apply_rotary_pos_emb)
    with patch("llama", strict=False) as patched:
        assert not patched.replaced
    unpatch()
    assert llama.apply_rotary_pos_emb is there


def test_two_modules_of_one_name_are_patched_each(llama, made):
    modules = [made("twice_loaded", text_of_llama(llama)) for _ in range(2)]
    assert modules[0] is not modules[1]
    originals = [module.apply_rotary_pos_emb for module in modules]
    for module in modules:
        assert patch(module).replaced
    for number, module in enumerate(modules):
        assert module.apply_rotary_pos_emb is not originals[number]
        unpatch(module)
        now = [x.apply_rotary_pos_emb is y for x, y in zip(modules, originals, strict=True)]
        assert now == [True, number == 1]


@pytest.fixture
def of_hub(llama, monkeypatch):
    """The package kernels makes a module of the function, whose `forward` holds it."""
    function = function_of(llama.apply_rotary_pos_emb)

    class Func(nn.Module):
        def forward(self, *args, **kwargs):
            return function(*args, **kwargs)

    monkeypatch.setattr(llama, "apply_rotary_pos_emb", Func())
    return llama.apply_rotary_pos_emb


@pytest.mark.parametrize("kernelized", (False, True))
def test_a_module_of_the_hub_comes_back_as_the_same_object(kernelized, llama, of_hub):
    function = function_of(of_hub)
    if kernelized:  # then a `forward` of its own rotates in place of the function
        of_hub.forward = lambda *args, **kwargs: None
    with patch("llama") as patched:
        assert patched.replaced and llama.apply_rotary_pos_emb is not of_hub
        call = CASE.call_of(function, "cpu")
        got = outcome(llama.apply_rotary_pos_emb, call)
        assert differs(got, outcome(function, call), call) is None
    assert llama.apply_rotary_pos_emb is of_hub


def hook_it(of_hub, llama, monkeypatch):
    of_hub.register_forward_hook(lambda module, args, outs: (outs[0], 2 * outs[1]))


def hook_what_it_is_given(of_hub, llama, monkeypatch):
    def twice(module, args, kwargs):
        return args, kwargs | {"q": 2 * kwargs["q"]}

    of_hub.register_forward_pre_hook(twice, with_kwargs=True)


def hook_its_gradient(of_hub, llama, monkeypatch):
    of_hub.register_full_backward_pre_hook(lambda module, grads: [2 * x for x in grads])


def give_it_a_call_of_its_own(of_hub, llama, monkeypatch):
    members = {"__call__": lambda self, q, k, *args, **kwargs: (k, q)}
    of_hub.__class__ = type("Derived", (type(of_hub),), members)


def hook_every_module(of_hub, llama, monkeypatch):
    hooks = {0: lambda module, args, outs: (outs[0], 2 * outs[1])}
    monkeypatch.setattr(nn.modules.module, "_global_forward_hooks", hooks)


def replace_its_helper(of_hub, llama, monkeypatch):
    monkeypatch.setattr(llama, "rotate_half", lambda x: 2 * x)


CHANGED = hook_it, hook_what_it_is_given, hook_its_gradient, give_it_a_call_of_its_own
CHANGED += hook_every_module, replace_its_helper


@pytest.mark.filterwarnings("ignore:Full backward hook")  # no argument by position has a gradient
@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.parametrize("when", ("before", "after"))
def test_what_was_changed_runs(change, when, llama, of_hub, monkeypatch):
    """The kernel is no longer what the model has, whenever that changed."""
    call = CASE.call_of(function_of(of_hub), "cpu")
    if when == "before":
        change(of_hub, llama, monkeypatch)
    with patch("llama", strict=False):
        if when == "after":
            change(of_hub, llama, monkeypatch)
        got = outcome(llama.apply_rotary_pos_emb, call)
    wanted = outcome(of_hub, call)
    assert isinstance(wanted, tuple) and differs(got, wanted, call) is None


# A function is known by its code


def test_a_copy_in_code_of_a_model_is_known(llama, made):
    text = text_of_llama(llama)
    old = text.replace("sin, unsqueeze_dim", "sin, position_ids=None, unsqueeze_dim")
    for name, source in (("copied_rotation", text), ("old_rotation", old)):
        module = made(name, source)
        original = module.apply_rotary_pos_emb
        patched = patch(module)
        assert [one.function for one in patched.replaced] == ["apply_rotary_pos_emb"], name
        call = CASE.call_of(original, "cpu")
        got = outcome(module.apply_rotary_pos_emb, call)
        assert differs(got, outcome(original, call), call) is None


CHANGES = {  # of Llama's function: each rotates in another way
    "the sign of the helper": ("torch.cat((-x2, x1)", "torch.cat((x2, -x1)"),
    "the sign of the sum": ("(q * cos) + ", "(q * cos) - "),
    "a default": ("unsqueeze_dim=1", "unsqueeze_dim=2"),
    "the sign of one product": ("(k * cos) + ", "(k * cos) - "),
    # A call that names no dimension doesn't show it.
    "where a table gets heads": ("sin.unsqueeze(unsqueeze_dim)", "sin.unsqueeze(1)"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_code_is_left_and_says_why(change, llama, made):
    text = text_of_llama(llama)
    assert CHANGES[change][0] in text
    module = made("changed_rotation", text.replace(*CHANGES[change], 1))
    original = module.apply_rotary_pos_emb
    rule = RULE_BY_DIGEST.get(code_digest(original))
    assert rule is None or families_of(rule) == ["nanochat"], change
    if rule is None:
        reason = "its code is not that of a known function"
        assert patch(module, strict=False).left == (
            Left("changed_rotation", "apply_rotary_pos_emb", reason),
        )
        assert module.apply_rotary_pos_emb is original


def test_how_a_function_was_written_and_run_does_not_count(llama, made):
    """With other words and annotations, a decorator, and a future import of its file."""
    text = text_of_llama(llama).replace("(q, k, cos", "(q: torch.Tensor, k: 'a key', cos")
    text = text.replace('"""', '"""Other words. ', 1).replace("def apply", "@same\ndef apply")
    text = "def same(function):\n    return function\n\n" + text
    text = "from __future__ import annotations\n" + text
    function = made("written_rotation", text).apply_rotary_pos_emb
    call = CASE.call_of(function, "cpu")
    sys.settrace(lambda *args: None)  # CPython rewrites code that is traced, or runs often
    try:
        for _ in range(100):
            function(**call)
    finally:
        sys.settrace(None)
    assert code_digest(function) == code_digest(function_of(llama.apply_rotary_pos_emb))


def test_what_has_no_source_or_wraps_is_left(llama, made):
    text = text_of_llama(llama)
    of_a_string, other = ModuleType("rotation_of_a_string"), made("of_another_module", text)
    exec(text, vars(of_a_string))
    other.torch = ModuleType("torch")
    wrapper = text.replace("def apply_rotary", "@torch.no_grad()\ndef apply_rotary")
    for module, reason in (
        (of_a_string, "the source of apply_rotary_pos_emb can't be read"),
        (made("wrapped_rotation", wrapper), "apply_rotary_pos_emb is a closure"),
        (other, "<module 'torch'> is not a Python function"),
    ):
        (left,) = patch(module, strict=False).left
        assert left.reason == reason


# A function is known by the code that runs

EDITED = {  # what was changed, and the function that it is in
    "the sign of the helper": "rotate_half",
    "the sign of the sum": "apply_rotary_pos_emb",
    "a default": "apply_rotary_pos_emb",
    "where a table gets heads": "apply_rotary_pos_emb",
}


def edit(module, text):
    """Its file, as an editor or a notebook does; nothing is imported again."""
    Path(module.__file__).write_text(text, encoding="utf-8")
    later = time.time() + 60  # two writes within a tick of the clock look alike
    os.utime(module.__file__, (later, later))


@pytest.mark.parametrize("runs", ("the known code", "the changed code"))
@pytest.mark.parametrize("change", EDITED)
def test_a_file_that_was_edited_after_its_import(change, runs, llama, made):
    """What the file says now is not what runs, whichever of the two is known."""
    texts = [text_of_llama(llama)]
    texts.append(texts[0].replace(*CHANGES[change], 1))
    if runs == "the changed code":
        texts.reverse()
    module = made("edited_rotation", texts[0])
    original = module.apply_rotary_pos_emb
    edit(module, texts[1])
    (left,) = patch(module, strict=False).left
    said = f"the source of {EDITED[change]} is not the code that runs: was its file edited later?"
    assert left.reason == said and module.apply_rotary_pos_emb is original
    edit(module, texts[0])
    known = runs == "the known code" or change == "the sign of the helper"  # then it is nanochat's
    assert bool(patch(module, strict=False).replaced) == known


def test_a_function_of_a_notebook_is_known(llama, monkeypatch):
    """torch was imported in another cell, so Python compiles the calls of it in another way."""
    text = text_of_llama(llama).removeprefix("import torch\n")
    cell = ModuleType("cell")
    cell.torch = torch
    lines = text.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "<cell 2>", (len(text), None, lines, "<cell 2>"))
    exec(compile(text, "<cell 2>", "exec"), vars(cell))
    assert patch(cell).replaced


# What a function gives, it is also asked


def rule_of_another(family):
    (digest,) = [x for x in RULE_BY_DIGEST if families_of(RULE_BY_DIGEST[x])[:1] == [family]]
    return RULE_BY_DIGEST[digest]


@pytest.mark.parametrize("family", ("nanochat", "gpt_oss", "blt"))
def test_a_function_that_gives_other_values_than_its_rule_is_left(family, llama, monkeypatch):
    """Or that raises, for whatever reason."""
    digest = code_digest(function_of(llama.apply_rotary_pos_emb))
    monkeypatch.setitem(RULE_BY_DIGEST, digest, rule_of_another(family))
    (left,) = patch(llama, strict=False).left
    assert left.reason == "the code of apply_rotary_pos_emb is known, but it returns other values"


def test_code_that_came_with_a_model_is_not_called_to_see(llama, made, monkeypatch):
    module = made("remote_rotation", text_of_llama(llama))
    monkeypatch.setattr(module.apply_rotary_pos_emb, "__module__", "transformers_modules.a.b")
    monkeypatch.setattr(Rule, "agrees_with", lambda rule, function: pytest.fail("it was called"))
    assert patch(module).replaced


@pytest.mark.parametrize("within", (torch.inference_mode, partial(torch.device, "meta")))
def test_a_model_is_patched_within_what_makes_it(within, llama):
    with within():
        assert patch(llama).replaced


def test_a_file_that_is_gone_or_no_longer_python(llama, made):
    module = made("lost_rotation", text_of_llama(llama))
    for broken in ("def apply_rotary_pos_emb((", "def 0", "else:\n", "def"):
        edit(module, text_of_llama(llama).replace("def apply_rotary_pos_emb(", broken))
        (left,) = patch(module, strict=False).left
        assert left.function == "apply_rotary_pos_emb" and "the source of" in left.reason
    Path(module.__file__).unlink()
    (left,) = patch(module, strict=False).left
    assert left.reason == "the source of apply_rotary_pos_emb can't be read"


@pytest.mark.parametrize("part", ("rotate_half", "apply_rotary_pos_emb"))
def test_a_function_that_is_given_other_code_while_it_is_patched(part, llama, made, log):
    """As IPython's autoreload does: it keeps the functions, and replaces their code."""
    text = text_of_llama(llama)
    change = CHANGES["the sign of the helper" if part == "rotate_half" else "the sign of the sum"]
    module = made("reloaded_rotation", text)
    rotation = module.apply_rotary_pos_emb
    function = getattr(module, part)
    call, before = CASE.call_of(rotation, "cpu"), function.__code__
    first = patch(module)
    ours = module.apply_rotary_pos_emb

    def reload(text):
        edit(module, text)
        again = ModuleType("again")
        exec(compile(text, module.__file__, "exec"), vars(again))
        function.__code__ = getattr(again, part).__code__

    reload(text.replace(*change, 1))
    changed = outcome(rotation, call)
    assert differs(outcome(ours, call), changed, call) is None
    (line,) = log()
    assert line.startswith(f"reloaded_rotation.apply_rotary_pos_emb {OWN}: ")
    assert line.endswith("has new code")
    with patch(module, strict=False) as patched:  # with the changed helper it is nanochat's
        assert bool(patched.replaced) == (part == "rotate_half")
        got = outcome(module.apply_rotary_pos_emb, call)
        assert differs(got, changed, call) is None
    reload(text)
    wanted = outcome(rotation, call)
    assert differs(wanted, changed) is not None
    assert patch(module).replaced == first.replaced and function.__code__ is not before
    assert differs(outcome(module.apply_rotary_pos_emb, call), wanted, call) is None
    unpatch(module)
    assert module.apply_rotary_pos_emb is rotation


# Calls that go to the function itself

ODD = {  # words of the reason that is logged, and how a call gets odd
    "fp64": ("dtypes", lambda call: {name: _as(x, torch.float64) for name, x in call.items()}),
    "a table that requires a gradient": (
        "requires a gradient",
        lambda call: call | {"cos": call["cos"].detach().requires_grad_()},
    ),
    "tables of two dtypes": ("dtypes", lambda call: call | {"sin": call["sin"].half()}),
    "a table with one row for all": (
        "shapes",
        lambda call: call | {"cos": call["cos"][:, :1], "sin": call["sin"][:, :1]},
    ),
    "more rows than positions": (
        "shapes",
        lambda call: call | {"q": _as(call["q"][:, :, 1:])},
    ),
    "more entries in the table than in q": (
        "shapes",
        lambda call: call | {"q": _as(call["q"][:1]), "k": _as(call["k"][:1])},
    ),
    "no tensor": ("not a tensor", lambda call: call | {"cos": 1.0}),
}
OWN = "is computed by the model's own function"


def _as(x, dtype=None):
    if not isinstance(x, torch.Tensor):
        return x
    found = x.detach().to(x.dtype if dtype is None else dtype)
    return found.requires_grad_(x.requires_grad)


@pytest.mark.parametrize("why, change", ODD.values(), ids=ODD)
def test_odd_calls_go_to_the_function_itself(why, change, llama, log):
    original = function_of(llama.apply_rotary_pos_emb)
    rule = RULE_BY_DIGEST[code_digest(original)]
    call = change(CASE.call_of(original, "cpu"))
    rotate = partial(rule.rotate, function="theirs")
    got = outcome(partial(rule.form, rotate, original), call)
    assert differs(got, outcome(original, call), call) is None
    (line,) = log()  # of one call, or of one for values and one for gradients
    assert line.startswith(f"theirs {OWN}: ") and why in line
