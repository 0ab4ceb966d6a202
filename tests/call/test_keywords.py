"""Every keyword reaches the field of its name, all the way down: two swapped flags are no accident.

A wrong order would be a wrong result and no error. So nothing here compares results: every option
has a value of its own, and is looked for under its name.
"""

import inspect
from dataclasses import fields, replace
from itertools import combinations
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from rope_kernels import (
    api,
    apply_rotary_pos_emb,
    norm_rope,
    qk_norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
    rope_to_cache,
    routes,
    split_qkv_rope,
)
from rope_kernels.autograd import norm_function, operators, rope_function
from rope_kernels.call.arguments import Call, NormCall
from rope_kernels.call.rotation import Normalization, Rotation
from rope_kernels.launch import fastpath, launch
from rope_kernels.launch.plan import ForwardTensors, RopeTensors

WHERE = "cu_seqlens", "start_positions", "position_ids"
OF_PATCHED_MODELS = "promoted_from", "keeps_strides"  # no argument of a public function
T = torch.randn(4, 1, 2, 8)


def names_of(kind):
    return tuple(field.name for field in fields(kind))


def of_type(kind, *types):
    return [field.name for field in fields(kind) if field.type in types]


FLAGS = of_type(Rotation, bool)
NORM_FLAGS = "after", "like_model", "casts_last"


def rotation_with(flag=None, norm=None):
    """A rotation whose fields all differ, but for the flags: one of them is up."""
    tensors = {name: torch.zeros(i + 1) for i, name in enumerate(of_type(Rotation, Tensor | None))}
    numbers = {name: i + 2 for i, name in enumerate(of_type(Rotation, int))}
    numbers |= {name: i + 1.5 for i, name in enumerate(of_type(Rotation, float))}
    flags = {name: name == flag for name in FLAGS}
    table = torch.zeros(4, 1, 1, 8)
    return Rotation(table, tensor_format="sbhd", norm=norm, **tensors, **numbers, **flags)


def norm_with(*true, **options):
    flags = {name: name in true for name in NORM_FLAGS}
    return Normalization(**{"eps": 0.25, "weight_offset": 0.5} | options, **flags)


def values_of(x):
    """The fields by name. A tensor counts by its size: a dispatcher may hand on another object."""
    values = {name: getattr(x, name) for name in names_of(type(x))}
    return {n: tuple(v.shape) if isinstance(v, Tensor) else v for n, v in values.items()}


def is_same(one, other):
    """Whether fields are equal, and of one type: True == 1."""
    one, other = values_of(one), values_of(other)
    return one == other and [*map(type, one.values())] == [*map(type, other.values())]


# From a public function to what it asks for

FUNCTIONS = (apply_rotary_pos_emb, rope_qk, rope_fw, rope_bw, norm_rope, qk_norm_rope)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_argument_gets_into_the_field_of_its_name(function, monkeypatch):
    calls = []
    monkeypatch.setattr(api, "rotate_call", lambda call: calls.append(call) or ("one", "two"))
    given = {name: object() for name in inspect.signature(function).parameters}
    function(**given)
    (call,) = calls
    assert call.tensors == tuple(given.pop(name) for name in call.names)
    assert (call.norm is not None) == ("norm" in function.__name__)
    if norm := call.norm:
        assert norm.weights == tuple(given.pop(name) for name, _ in norm.named)
        options = [name for name in names_of(NormCall) if name in given]
        assert len(options) == 3
        assert all(getattr(norm, name) is given.pop(name) for name in options)
    assert {name: getattr(call, name) for name in given} == given
    of_others = {"tensors", "norm", "cache", "packed", "transpose", *OF_PATCHED_MODELS}
    assert {*given} | of_others == {*names_of(Call)}
    assert [getattr(call, name) for name in OF_PATCHED_MODELS] == ["", False]
    assert call.transpose == (function is rope_bw)


def test_every_argument_of_a_cache_gets_into_the_field_of_its_name(monkeypatch):
    calls = []
    monkeypatch.setattr(api, "write_to_cache_call", lambda call: calls.append(call) or ("one",))
    given = {name: object() for name in inspect.signature(rope_to_cache).parameters}
    rope_to_cache(**given)
    (call,) = calls
    assert call.tensors == (given.pop("q"), given.pop("k"))
    for of_it in (call.cache, call):
        names = [name for name in names_of(type(of_it)) if name in given]
        assert names and all(getattr(of_it, name) is given.pop(name) for name in names)
    assert not given and call.tensor_format == "thd"


def test_every_argument_of_a_projection_gets_into_the_field_of_its_name(monkeypatch):
    calls = []
    monkeypatch.setattr(api, "split_call", lambda call: calls.append(call) or ("one",))
    given = {name: object() for name in inspect.signature(split_qkv_rope).parameters}
    split_qkv_rope(**given)
    (call,) = calls
    assert call.tensors == (given.pop("qkv"),)
    assert call.packed.input_format is call.tensor_format is given.pop("tensor_format")
    for of_it in (call.packed, call):
        names = [name for name in given if hasattr(of_it, name)]
        assert names and all(getattr(of_it, name) is given.pop(name) for name in names)
    assert not given


KEYWORDS = {
    function: [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for function in FUNCTIONS
}


@pytest.mark.parametrize("function", FUNCTIONS[1:], ids=lambda function: function.__name__)
def test_every_function_shows_the_options_of_the_first(function):
    """With its types and defaults, though it takes them as `**options`."""
    of_first = inspect.signature(apply_rotary_pos_emb).parameters
    here = inspect.signature(function).parameters
    shared = [name for name in KEYWORDS[apply_rotary_pos_emb] if name != "rounding"]
    assert [name for name in here if name in shared] == shared
    assert all(str(here[name]) == str(of_first[name]) for name in shared)
    assert here["rounding"].default is None
    assert ("upcast" in str(here["rounding"])) == ("norm" not in function.__name__)
    assert here["freqs"] == of_first["freqs"].replace(kind=here["freqs"].kind)
    if "norm" not in function.__name__:
        assert KEYWORDS[function] == KEYWORDS[apply_rotary_pos_emb]


@pytest.mark.parametrize("name", ("interleave", "transpose", "keeps_strides", "tensors"))
@pytest.mark.parametrize("function", FUNCTIONS[1:], ids=lambda function: function.__name__)
def test_a_function_refuses_a_keyword_that_it_does_not_show(function, name):
    """Even one that `Call` has a field for."""
    given = dict.fromkeys(inspect.signature(function).parameters)
    with pytest.raises(TypeError) as error:
        function(**given, **{name: True})
    came, accepted = str(error.value).split("; accepted: ")
    assert came == f"{function.__name__}() got an unexpected keyword argument {name!r}"
    assert accepted.split(", ") == KEYWORDS[function]


def call_of(**options):
    given = dict.fromkeys(names_of(Call)) | {"tensors": (T,), "freqs": T, "fused": True}
    return Call(**(given | options))


def test_a_rotation_has_what_the_call_has_under_the_same_name():
    shared = [name for name in names_of(Rotation) if name in names_of(Call) and name != "norm"]
    assert len(shared) == 14
    given = {name: object() for name in shared}
    call = call_of(**given, tensors=(None,), rotary_dim=8, output_pairing="same")
    rotation = routes.rotation_of(call, (T, None), None)
    assert {name: getattr(rotation, name) for name in shared} == given
    assert rotation.one_per_pair is rotation.to_half_split is False


def test_a_normalization_has_what_the_call_has():
    given = {"eps": 0.25}
    for rounding, offset, flags in (
        ("once", 0.5, ()),
        (None, 0.5, ()),
        ("model", 0.0, ("like_model",)),
        ("model", 0.5, ("like_model", "casts_last")),
        ("model_cast_last", 0.0, ("like_model", "casts_last")),
    ):
        for after in (False, True):
            given |= {"weight_offset": offset, "norm_after": after}
            norm = NormCall(weights=(None,), **given)
            want = norm_with(*flags, *(["after"] if after else []), weight_offset=offset)
            call = call_of(rounding=rounding, norm=norm)
            assert routes.normalization_of(call) == want


# Through the operators


@pytest.fixture
def arrived(monkeypatch):
    """What the operators launch, instead of a launch."""
    found = []

    def rotate(tensors, rotation, *given):
        found.append(rotation)
        return (T.clone(),)

    monkeypatch.setattr(operators, "check_values", lambda *given: None)
    monkeypatch.setattr(operators, "check_inplace", lambda *given: None)
    monkeypatch.setattr(launch, "entry_of_rotation", lambda *given: None)
    monkeypatch.setattr(launch, "rotate", rotate)
    return found


@pytest.mark.parametrize("inplace", (False, True))
@pytest.mark.parametrize("flag", FLAGS)
def test_an_operator_launches_what_it_was_given(inplace, flag, arrived):
    rotation = rotation_with(flag)
    operators.rotate_by_operator((T,), rotation, inplace)
    assert is_same(arrived.pop(), rotation)


class Context(SimpleNamespace):
    """What a Function of autograd remembers."""

    def save_for_backward(self, *saved):
        self.saved_tensors = saved

    def set_materialize_grads(self, value):
        pass

    def mark_non_differentiable(self, *outs):
        pass


@pytest.mark.parametrize("flag", FLAGS)
def test_a_backward_has_the_rotation_of_its_forward(flag):
    rotation, ctx, seen = rotation_with(flag), Context(), []

    def rotate(grads, rotation):
        seen.append(replace(rotation))
        return grads

    rope_function.keep_rotation(ctx, (T,), (T,), rotation)
    rope_function.gradients(ctx, (T,), (True,), rotate)
    assert is_same(seen[0], replace(rotation, transpose=not rotation.transpose))


@pytest.mark.parametrize("flag", [*FLAGS, *NORM_FLAGS])
def test_a_norms_backward_has_the_rotation_of_its_forward(flag, monkeypatch):
    rotation, ctx, seen = rotation_with(flag, norm_with(flag)), Context(), []
    rows, found = norm_function.Rows((T,), ()), ((T,), (T[..., 0],), None)

    def run(*given):
        seen.append(given)
        return (T,), ()

    monkeypatch.setattr(launch, "norm_rope_backward", run)
    norm_function.keep_norm(ctx, rows, found, rotation)
    with torch.no_grad():
        norm_function.gradients(ctx, (T,), ((True,), ()))
    *_, kept_rotation, wanted = seen.pop()
    assert is_same(kept_rotation, rotation)
    assert wanted == (True, False)


# In a signature of the fast path


@pytest.fixture
def entry_of(monkeypatch):
    """The entry of a call with these options, of a rotation or of what is beside it."""
    monkeypatch.setattr(fastpath, "ENABLED", True)
    fastpath.forget()

    def entry_of(kind, options):
        if kind is Call:
            return fastpath.entry_of_call(call_of(**options), (T, None))
        if kind is Rotation:
            return launch.entry_of_rotation((T,), Rotation(T, **options), False)
        given = dict.fromkeys(names_of(NormCall)) | {"weights": (T,)}
        return fastpath.entry_of_call(call_of(norm=NormCall(**(given | options))), (T, None))

    yield entry_of
    fastpath.forget()


ELSEWHERE = {
    Call: ("tensors", "freqs", "fused", "norm", "cache", "packed"),
    Rotation: ("table", "sin"),
    NormCall: ("weights",),
}


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_two_swapped_options_have_another_signature(kind, entry_of):
    options = [name for name in names_of(kind) if name not in ELSEWHERE[kind]]
    pairs = [*combinations([name for name in options if name not in WHERE], 2)]
    values = [("one", "two"), (False, True), (0, False), (1, True), (1, 1.0)]
    cases = [(pair, case) for pair in pairs for case in values]
    starts = [name for name in WHERE if name in options]
    cases += [(pair, (torch.arange(3), None)) for pair in combinations(starts, 2)]
    assert len(cases) >= 15
    for name, (x, y) in [(name, case) for name in options for case in values if name not in WHERE]:
        assert entry_of(kind, {name: x}) is not entry_of(kind, {name: y}), name
    for (one, other), (x, y) in cases:
        swapped = entry_of(kind, {one: y, other: x})
        assert swapped is not entry_of(kind, {one: x, other: y}), (one, other)
        assert None is not swapped is entry_of(kind, {one: y, other: x}), (one, other)


def test_a_call_that_is_not_fused_has_no_entry(entry_of):
    assert all(entry_of(Call, {"fused": fused}) is None for fused in (False, 1, None))


# In a launch


def test_a_kernel_gets_the_tensors_of_a_rotation_by_their_names():
    rotation, given = rotation_with(), []
    entry = fastpath.Entry(launch=lambda tensors: given.append(tensors) or True)
    launch.rotate((T,), rotation, False, entry)
    launch.norm_rope((T,), (), rotation, False, False, entry)
    for tensors, kind in zip(given, (RopeTensors, ForwardTensors), strict=True):
        names = {"start_positions": "starts", "position_ids": "ids"}
        for name in ("table", "sin", *WHERE):
            field = names.get(name, name)
            assert kind._make(tensors)[kind._fields.index(field)] is getattr(rotation, name)
