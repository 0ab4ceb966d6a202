"""Every rotation function of transformers against the one that replaces it: bits and gradients."""

import pytest
import torch

from hf_calls import (
    DTYPES,
    LAYOUTS,
    WIDTHS,
    Case,
    Function,
    Sizes,
    cases,
    differs,
    every_function,
    outcome,
)
from rope_kernels.huggingface.digest import code_digest
from rope_kernels.huggingface.known import BY_DIGEST, KNOWN

HAS_GPU = torch.cuda.is_available()
SMALL, LARGE = Sizes(), Sizes(b=2, s=300, q_heads=8, k_heads=2, d=96)


@pytest.fixture
def plain_pytorch(monkeypatch):
    """What a CPU takes: no kernel, not even an interpreted one."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")


def replaced(function):
    """Ours, and a list of the calls that it gave to the function that it replaced."""
    known, given = BY_DIGEST[code_digest(function)], []

    def original(*args, **kwargs):
        given.append(1)
        return function(*args, **kwargs)

    return known.form(known.rule, original), given


def disagreements(function, some, device):
    """The cases in which ours differs; and how many of them ours took."""
    ours, given = replaced(function)
    found, taken = [], 0
    for case in some:
        call, before = case.call_of(function, device), len(given)
        wanted = outcome(function, call)
        difference = differs(outcome(ours, call), wanted, strides=True)
        if difference is not None:
            found.append((case.layout, case.width, case.dtypes, difference))
        taken += len(given) == before and not isinstance(wanted, str)
    return found, taken


def one_of(known):
    """A function with this body."""
    return Function(known.families.split()[0], known.name).itself


each_body = pytest.mark.parametrize("known", KNOWN, ids=lambda x: x.families.split()[0])


def test_the_table_names_all_functions_and_no_other():
    found = {}
    for function in every_function():
        found.setdefault(code_digest(function.itself), []).append(function)
    named = {x.digest: [Function(family, x.name) for family in x.families.split()] for x in KNOWN}
    assert found == named
    counts = {}
    for function in every_function():
        counts[function.name] = counts.get(function.name, 0) + 1
    assert counts == {
        "apply_rotary_pos_emb": 169,
        "apply_rotary_pos_emb_interleave": 9,
        "apply_rotary_pos_emb_vision": 23,
    }


def usual_cases(function, device="cpu", sizes=SMALL):
    """A case that the function takes, in every dtype: found with the function alone."""
    for layout in LAYOUTS:
        for width in WIDTHS:
            some = [Case(layout, width, dtypes, sizes) for dtypes in DTYPES]
            (taken,) = disagreements(function, [some[0]], device)[1:]
            if taken:
                return some
    raise AssertionError("no case of the table suits this function")


def test_every_function_has_the_bits_of_its_original(plain_pytorch):
    found = {}
    for function in every_function():
        wrong, _ = disagreements(function.itself, usual_cases(function.itself), "cpu")
        if wrong:
            found[function] = wrong
    assert not found


def test_every_body_has_the_bits_of_its_original_in_all_layouts(plain_pytorch):
    found = {}
    for known in KNOWN:
        wrong, taken = disagreements(one_of(known), cases(), "cpu")
        if wrong or not taken:
            found[known.families.split()[0]] = wrong
    assert not found


@pytest.mark.parametrize("dtypes", ("fp16", "fp32", "fp16, table in fp32"))
@each_body
def test_an_interpreted_kernel_has_the_bits_of_every_body(known, dtypes, needs_triton):
    if HAS_GPU:
        pytest.skip("the kernels are compiled")
    function = one_of(known)
    (case,) = [x for x in usual_cases(function, sizes=Sizes(s=3)) if x.dtypes == dtypes]
    wrong, taken = disagreements(function, [case], "cpu")
    assert not wrong and taken


@pytest.mark.gpu
@each_body
def test_a_kernel_has_the_bits_of_all_functions_with_a_body(known):
    """On a GPU, at sizes of models; also the odd layouts of one function."""
    for family in known.families.split():
        function = Function(family, known.name).itself
        wrong, taken = disagreements(function, usual_cases(function, "cuda", LARGE), "cuda")
        assert not wrong and taken >= 3, family


@pytest.mark.parametrize("dtypes", ("fp16", "fp16, table in fp32"))
@pytest.mark.parametrize("family", ("llama", "glm", "deepseek_v4"))
def test_a_compiled_call_has_the_same_bits(family, dtypes, device, needs_triton):
    """As an operator of PyTorch, with the dtypes and strides that the launch gives."""
    function = Function(family, "apply_rotary_pos_emb").itself
    (case,) = [x for x in usual_cases(function, device) if x.dtypes == dtypes]
    ours, given = replaced(function)
    call = case.call_of(function, device)
    torch.compiler.reset()
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(ours, fullgraph=True, backend=backend)
    wanted = outcome(function, call)
    assert differs(outcome(compiled, call), wanted, strides=True) is None
    assert not given
