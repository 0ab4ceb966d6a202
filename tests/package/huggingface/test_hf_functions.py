"""Every rotation function of transformers against the one that replaces it: bits and gradients."""

from functools import cache, partial
from inspect import signature

import pytest
import torch

from hf_calls import (
    DTYPES,
    LAYOUTS,
    LEFT,
    WIDTHS,
    Call,
    Function,
    Sizes,
    cases,
    differs,
    every_function,
    outcome,
    version,
)
from hugging_face import families_of
from rope_kernels.huggingface.digest import code_digest
from rope_kernels.huggingface.rules import RULE_BY_DIGEST, RULES

HAS_GPU = torch.cuda.is_available()
SMALL, LARGE = Sizes(), Sizes(b=2, s=300, q_heads=8, k_heads=2, d=96)


@cache
def digest_of(function):
    """Reading the source takes longer than a call."""
    return code_digest(function)


def replaced(function):
    """Ours, and a list of the calls that it gave to the function that it replaced."""
    rule, given = RULE_BY_DIGEST[digest_of(function)], []

    def original(*args, **kwargs):
        given.append(1)
        return function(*args, **kwargs)

    return partial(rule.form, partial(rule.rotate, function="a model's"), original), given


def disagreements(function, some, device):
    """The cases in which ours differs; and how many of them ours took."""
    ours, given = replaced(function)
    found, taken = [], 0
    for case in some:
        call, before = case.call_of(function, device), len(given)
        wanted = outcome(function, call)
        difference = differs(outcome(ours, call), wanted, call)
        if difference is not None:
            found.append((case.layout, case.width, case.dtypes, difference))
        taken += len(given) == before and not isinstance(wanted, str)
    return found, taken


BODIES = {digest: rule for rule in RULES for digest in rule.digests.split()}
each_body = pytest.mark.parametrize(
    "digest", BODIES, ids=lambda x: f"{families_of(BODIES[x])[0]}-{x}"
)


@cache
def functions_by_body():
    found = {}
    for function in every_function():
        digest = digest_of(function.itself)
        if digest in BODIES:
            found.setdefault(digest, []).append(function)
    return found


def functions_with(digest):
    """Those of the installed transformers; at least one, or the test is skipped."""
    found = functions_by_body().get(digest)
    return found or pytest.skip(f"no function of transformers {version()} has this code")


def test_every_function_is_known_or_left():
    known = {x for functions in functions_by_body().values() for x in functions}
    assert {x.family for x in every_function() if x not in known} == LEFT


def test_every_replacement_takes_what_its_original_takes(plain_pytorch):
    """In the same order, by the same names, and with the same defaults: models leave some out."""

    def taken(function):
        arguments = signature(function).parameters.values()
        return [(x.name, x.kind, x.default) for x in arguments]

    for functions in functions_by_body().values():
        for function in functions:
            assert taken(replaced(function.itself)[0]) == taken(function.itself), function


@cache
def usual_layout(digest):
    """A layout and a width that functions with this code take: found on a CPU, with them alone."""
    function = functions_by_body()[digest][0].itself
    for layout in LAYOUTS:
        for width in WIDTHS:
            (taken,) = disagreements(function, [Call(layout, width, "bf16")], "cpu")[1:]
            if taken:
                return layout, width
    raise AssertionError("no case of the table suits this function")


def usual_cases(function, sizes=SMALL):
    """A case that the function takes, in every dtype."""
    return [Call(*usual_layout(digest_of(function)), dtypes, sizes) for dtypes in DTYPES]


def test_every_body_has_the_bits_of_its_original_in_all_layouts(plain_pytorch):
    found = {}
    for functions in functions_by_body().values():
        wrong, taken = disagreements(functions[0].itself, cases(), "cpu")
        if wrong or not taken:
            found[functions[0]] = wrong
    assert not found


@each_body
def test_an_interpreted_kernel_has_the_bits_of_every_body(digest, needs_triton):
    """Of one token at a position of its own, too, as in a model that generates."""
    if HAS_GPU:
        pytest.skip("the kernels are compiled")
    function = functions_with(digest)[0].itself
    some = [
        case
        for s, dtypes in ((2, ("fp16", "fp16, table in fp32")), (1, ("fp32",)))
        for case in usual_cases(function, Sizes(s=s, q_heads=2))
        if case.dtypes in dtypes
    ]
    wrong, taken = disagreements(function, some, "cpu")
    assert not wrong and taken == 3


@pytest.mark.gpu
@each_body
def test_a_kernel_has_the_bits_of_all_functions_with_a_body(digest):
    """On a GPU, at sizes of models; also the odd layouts of one function."""
    for function in functions_with(digest):
        some = usual_cases(function.itself, LARGE)
        wrong, taken = disagreements(function.itself, some, "cuda")
        assert not wrong and taken >= 3, function


WITHOUT_KEYS = {
    "qwen4_exp": "apply_rotary_pos_emb",
    "mistral_large4": "apply_rotary_pos_emb_interleave",
}


@pytest.mark.parametrize("family", WITHOUT_KEYS)
def test_keys_may_be_none(family, device, plain_pytorch):
    """As in layers that share the keys of an earlier one."""
    function = Function(family, WITHOUT_KEYS[family])
    if function not in every_function():
        pytest.skip(f"transformers {version()} has no {family}")
    ours, given = replaced(function.itself)
    for case in usual_cases(function.itself):
        call = case.call_of(function.itself, device) | {"k": None}
        wanted = outcome(function.itself, call)
        assert differs(outcome(ours, call), wanted, call) is None
        assert not given and isinstance(wanted, tuple)
