"""Kernels that Triton's interpreter runs, and its compiler or a GPU doesn't: wrong, with a cure.

All double their input, by a kernel with a few lines of their own.
"""

import ast
import tempfile

import pytest
import torch

import rope_lab as lab
from cells import Cell
from rope_lab.judge.errors import failure_of
from rope_lab.judge.spec import STRIDED, spec

pytestmark = pytest.mark.usefixtures("needs_triton")


@spec(leave_out=(*STRIDED, "bfloat16"))  # whose atomics aren't interpreted
def twice(x: "(n,)"):  # noqa: F821
    return 2 * x


twice_in_place = spec(twice.function, leave_out=STRIDED, overwrites=("x",))


def twofold(x):
    return 2 * x


def rows(size, device):
    return (torch.randn(100 * size, device=device),)


def inspected(function, large=600):
    return lab.inspect(function, twofold, rows, small=1, large=large)


def tuned(*configs, more=""):
    """A tuner above the kernel, of these arguments of `triton.Config`."""
    listed = ", ".join(f"triton.Config({one})" for one in configs)
    return f"@triton.autotune([{listed}], key=['n']{more})"


REFUSED = {  # the kernel's lines, or its cell, and the verdict's words
    "break": (
        "y = x\nfor k in range(4):\n    if k == 1:\n        break\n    y += x",
        "unsupported AST node type: Break (a loop in a kernel has no break or continue: ",
    ),
    "return in a loop": (
        "y = x\nfor k in range(1):\n    if k > 5:\n        return\n    y += x",
        "Cannot have `return` statements inside `while` or `for` statements in triton. (a loop in "
        "a kernel ",
    ),
    "while, else": ("k = 0\nwhile k < 1:\n    k += 1\nelse:\n    y = 2 * x", ", at: while k"),
    "for, else": ("for k in range(1):\n    pass\nelse:\n    y = 2 * x", "has no else)"),
    "for of a tuple": ("y = 0.0 * x\nfor z in (x, x):\n    y += z", "(a loop runs over range "),
    "a comparison of three": (
        "y = x\nif 0 <= tl.program_id(0) < n:\n    y = 2 * x",
        "simultaneous multiple comparison is not supported (write a <= i < n as (a <= i) & (i < n)"
        "), at: if 0 <= tl.program_id(0) < n:",
    ),
    "a comprehension": (
        "xs = [x for _ in range(2)]\ny = xs[0] + xs[1]",
        "only tuple comprehensions are supported (a kernel ",
    ),
    "a list that grows": (
        "xs = []\nxs.append(2 * x)\ny = xs[0]",
        " (a list in a kernel does not grow",
    ),
    "an element that is set": ("xs = [x]\nxs[0] = 2 * x\ny = xs[0]", "(no element of a list "),
    "a lambda": ("f = lambda a: 2 * a\ny = f(x)", "Lambda (a kernel has no such expression"),
    "another type in a loop": (
        "y = 0\nfor k in range(2):\n    y += x",
        "Loop-carried variable y has initial type int32 but is re-assigned to <['64'], fp32> in "
        "loop! Please make sure that the type stays consistent. (before the loop, give it the dtype"
        " and shape that it has in the loop: tl.zeros((BLOCK,), tl.float32)), at: for k in",
    ),
    "another type in a branch": (
        "if tl.program_id(0) >= 0:\n    y = 2 * x\nelse:\n    y = 0",
        "Mismatched type for y between then block (<['64'], fp32>) and else block (int32) (give ",
    ),
    "set in a branch alone": ("if n > 0:\n    y = 2 * x", "y is not defined (a name that is set"),
    "an f-string": ("name = f'{BLOCK}'\ny = 2 * x", "(a kernel has no strings"),
    "Python's sum": ("y = sum((x, x))", "sum is not defined (of Python's own functions "),
    "math of a number": ("y = x * math.floor(2.5 + 0 * n)", "(Python's math takes constants: "),
    "NumPy's": ("y = x * np.sqrt(4)", "<ufunc 'sqrt'> (a kernel calls tl's functions, and "),
    "a helper without jit": (
        Cell("y = f(x)", above="def f(a):\n    return 2 * a"),
        "Unsupported function referenced: <function f> (a kernel calls tl's functions, and your "
        "own with @triton.jit above their def)",
    ),
    "a number above the cell": (
        Cell("y = FACTOR * x", above="FACTOR = 2"),
        "Cannot access global variable FACTOR from within @jit'ed function (pass it as an argument"
        ", NAME: tl.constexpr, or write NAME = tl.constexpr(...) above the kernel), at: y = FACTOR",
    ),
    "a number that a helper reads": (
        Cell("y = f(x)", above="FACTOR = 2\n@triton.jit\ndef f(a):\n    return FACTOR * a"),
        "variable FACTOR from within @jit'ed function (pass it as an argument, NAME: tl.constexpr,"
        " or write NAME = tl.constexpr(...) above the kernel), at: return FACTOR * a",
    ),
    "a number that a tuner reads, and the kernel": (
        Cell("y = FACTOR * x", above=f"FACTOR = 2\n{tuned('{}, num_warps=FACTOR')}"),
        "variable FACTOR from",
    ),
}


@pytest.mark.needs_compiler
@pytest.mark.parametrize("what", REFUSED)
def test_what_the_compiler_refuses_is_wrong_and_has_a_cure(what, tmp_path):
    lines, told = REFUSED[what]
    cell = lines if isinstance(lines, Cell) else Cell(lines)
    verdict = lab.check_exercise(cell.launcher(tmp_path), twice)
    begins = "right in the interpreter, but doubling_kernel does not compile for an H200: "
    assert verdict.state == "wrong" and verdict.reason.startswith(begins), verdict
    assert told in verdict.reason and "AssertionError(" not in verdict.reason, verdict


GRID = "[(triton.cdiv(x.numel(), 64),)]"
LAUNCHES = {  # text of the cell -> what is in its place, and the verdict's words
    "three warps": ({"BLOCK=64)": "BLOCK=64, num_warps=3)"}, "a power of 2"),
    "a misspelled option": ({"BLOCK=64)": "BLOCK=64, num_warp=4)"}, "num_warp "),
    "too many warps": (
        {"BLOCK=64)": "BLOCK=64, num_warps=64)"},
        "out of resource: threads, Required: 2048, Hardware limit: 1024 (take at most num_warps=32",
    ),
    "a float of warps": ({"BLOCK=64)": "BLOCK=64, num_warps=4.0)"}, "num_warps=4.0 is a float"),
    "a long second axis": (
        {GRID: "[(1, triton.cdiv(x.numel(), 64))]", "program_id(0)": "program_id(1)"},
        "a GPU starts at most 65535 programs on axis 1 of a grid, not 83886",
    ),
    "one block for all": (
        {GRID: "[(1,)]", "BLOCK=64)": "BLOCK=triton.next_power_of_2(x.numel()))"},
        "take smaller blocks, and more programs",
    ),
    "a result on the CPU": (
        {"torch.empty_like(x)": "torch.empty(x.shape, dtype=x.dtype)"},
        "out_ptr of doubling_kernel is on the CPU, and the inputs are on the GPU",
    ),
    "a result moved to the CPU": (
        {"    return out\n": "    return out.cpu()\n"},
        "the result is on the CPU, and the inputs are on the GPU",
    ),
    "a table on the CPU": (
        {"BLOCK=64)": "BLOCK=64, PART=torch.arange(x.numel() % 1000))"},
        "PART of doubling_kernel is on the CPU",
    ),
    "a sum with the CPU": (
        {"    return out\n": "    return out + torch.zeros(1, dtype=x.dtype)\n"},
        "device",
    ),
}


@pytest.mark.needs_compiler
@pytest.mark.parametrize("what", LAUNCHES)
def test_what_a_gpu_refuses_of_a_launch_is_wrong(what, tmp_path):
    instead, told = LAUNCHES[what]
    function = Cell(instead=instead).launcher(tmp_path)
    as_large = 5_368_710  # as an exercise's rehearsal
    for verdict in (lab.check_exercise(function, twice), inspected(function, as_large)):
        assert not verdict and repr(verdict).startswith("WRONG") and told in repr(verdict), verdict


def test_a_gpu_s_own_compiler_is_told_in_the_same_words():
    """There the launch raises Triton's error."""
    from triton.compiler.errors import UnsupportedLanguageConstruct

    source = "def k():\n    while True:\n        break"
    node = ast.parse(source).body[0].body[0].body[0]
    error = UnsupportedLanguageConstruct(source, node, "unsupported AST node type: Break")
    reason = failure_of(error).reason
    assert reason.startswith("it does not compile: unsupported AST node type: Break (a loop in a ")
    assert reason.endswith(", at: break")


FOR_A_GPU = {  # a line of the launcher that a check on CPU tensors can't run
    "an assertion": "assert x.is_cuda, 'on a GPU, please'",
    "an error of its own": "if x.device.type != 'cuda':\n        raise ValueError('not on a GPU')",
    "a wait": "torch.cuda.synchronize()",
    "a tensor": "torch.empty(1, device='cuda')",
    "the number of SMs": "torch.cuda.get_device_properties(x.device).multi_processor_count",
    "the driver's number": "triton.runtime.driver.active.get_current_device()",
}


@pytest.mark.parametrize("what", FOR_A_GPU)
def test_a_launcher_that_asks_for_a_gpu_is_not_wrong(what, tmp_path):
    begin = "    out = torch.empty_like(x)\n"
    function = Cell(instead={begin: f"    {FOR_A_GPU[what]}\n{begin}"}).launcher(tmp_path)
    for verdict in (lab.check_exercise(function, twice), inspected(function)):
        if verdict:  # here is one
            assert torch.cuda.is_available()
        else:
            assert repr(verdict).startswith("NOT YET: the check runs it on CPU tensors"), verdict


@pytest.mark.needs_compiler
def test_a_full_disk_is_not_the_kernels_fault(monkeypatch, tmp_path):
    """The compiler can't write a file."""
    first, second = (Cell(f"y = {y}").launcher(tmp_path) for y in ("2 * x", "x + x"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    for verdict in (lab.check_exercise(first, twice), inspected(second)):
        assert repr(verdict).startswith(("NOT YET", "RIGHT at the sizes")), verdict
        assert "FileNotFoundError: " in repr(verdict), verdict


IN_PLACE = {"out = torch.empty_like(x)": "out = x"}
BY_ATOMICS = {
    "tl.store(out_ptr": "tl.atomic_add(out_ptr",
    "torch.empty_like(x)": "torch.zeros_like(x)",
}
BY_PART = {"y = 2 * x": "y = PART * x"}
TUNED = {  # the tuner, what is changed in the cell, and the verdict's words; '' for RIGHT
    "a grid for the first configuration": (
        tuned("{'BLOCK': 64}", "{'BLOCK': 32}"),
        {", BLOCK=64)": ")"},
        "configuration 2 of 2: BLOCK=32",
    ),
    "a grid for each configuration": (
        tuned("{'BLOCK': 64}", "{'BLOCK': 32}"),
        {", BLOCK=64)": ")", GRID: "[lambda meta: (triton.cdiv(meta['n'], meta['BLOCK']),)]"},
        "",
    ),
    "a wrong third configuration": (
        tuned("{'PART': 2}", "{'PART': 2}, num_warps=8", "{'PART': 3}"),
        BY_PART,
        "configuration 3 of 3: PART=3",
    ),
    "one that does not compile": (
        tuned("{}", "{}, num_warps=3"),
        {},
        "a power of 2",
    ),
    "one that the tuner passes over": (tuned("{}, num_warps=64", "{}"), {}, ""),
    "none but such": (tuned("{}, num_warps=64", "{}, num_warps=128"), {}, "resource: threads"),
    "in place": (tuned("{}", "{}, num_warps=8"), IN_PLACE, "restore_value=['x_ptr']"),
    "in place, restored": (
        tuned("{}", "{}, num_warps=8", more=", restore_value=['x_ptr']"),
        IN_PLACE,
        "",
    ),
    "in place, reset": (
        tuned("{}", "{}, num_warps=8", more=", reset_to_zero=['x_ptr']"),
        IN_PLACE,
        "got 0",
    ),
    "atomics": (tuned("{}", "{}, num_warps=8"), BY_ATOMICS, "restore_value=['out_ptr']"),
    "atomics, reset": (
        tuned("{}", "{}, num_warps=8", more=", reset_to_zero=['out_ptr']"),
        BY_ATOMICS,
        "",
    ),
}


@pytest.mark.needs_compiler
@pytest.mark.parametrize("what", TUNED)
def test_each_configuration_of_a_tuner_counts(what, tmp_path):
    above, instead, told = TUNED[what]
    wanted = twice_in_place if instead is IN_PLACE else twice
    function = Cell(above=above, instead=instead).launcher(tmp_path)
    verdicts = [lab.check_exercise(function, wanted)]
    if instead is not IN_PLACE:  # where `inspect` compares what is returned
        verdicts.append(inspected(function))
    for verdict in verdicts:
        assert bool(verdict) == (not told), verdict
        assert not told or (repr(verdict).startswith("WRONG") and told in repr(verdict)), verdict


HALVES = "a, b = tl.split(tl.reshape(x, (32, 2)))\n"
UNTRUE = "untrue, and the compiler relies on it"
BY_DESCRIPTOR = (
    "all_of_x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])\n"
    "y = 2 * all_of_x.load([tl.program_id(0) * BLOCK])"
)
DIFFERS = {  # the kernel's lines, and what a GPU does in another way
    "tl.cat": (f"{HALVES}y = 2 * tl.cat(a, b, can_reorder=True)", "tl.cat may reorder elements; "),
    "tl.reshape": (
        "y = 2 * tl.reshape(x, (8, 8), can_reorder=True).reshape(64)",
        "can_reorder=True, which tl.view implies, may reorder elements: leave it out, at: y = 2 ",
    ),
    "a scalar's divisor": (
        "y = 2 * x + 0 * tl.multiple_of(tl.program_id(0) + 1, 16)",
        f"tl.multiple_of by 16 is {UNTRUE}: consecutive numbers begin at 1, at: y = 2 * x + 0",
    ),
    "a block's divisor": (
        "j = tl.multiple_of(i + 1, 4)\ny = 2 * tl.load(x_ptr + j - 1, mask=i < n)",
        "consecutive numbers begin at 1, at: j = ",
    ),
    "a pointer's divisor, in bytes": (
        "y = 2 * tl.load(tl.multiple_of(x_ptr + 1, 8) + i - 1, mask=i < n)",
        "tl.multiple_of by 8 is untrue, and the compiler relies on it: consecutive numbers begin ",
    ),
    "a divisor along the second axis": (
        "j = tl.multiple_of(3 * tl.arange(0, 8)[:, None] + tl.arange(0, 8)[None, :], (1, 8))\n"
        "y = 2 * x + 0 * tl.sum(j)",
        "consecutive numbers begin at 3, at: j = ",
    ),
    "a run that wraps around": (
        "j = tl.max_contiguous(i % 20, BLOCK)\ny = 2 * x + 0 * j",
        f"tl.max_contiguous by 64 is {UNTRUE}: 19 is followed by 0, at: j = ",
    ),
    "pointers that are not in a row": (
        "y = 2 * tl.load(tl.max_contiguous(x_ptr + 2 * (i // 2), 4) + i % 2, mask=i < n)",
        "tl.max_contiguous by 4 is untrue",
    ),
    "constancy": (
        "j = tl.max_constancy(i // 2, 4)\ny = 2 * x + 0 * j",
        f"tl.max_constancy by 4 is {UNTRUE}: 0 is followed by 1",
    ),
    "tl.assume": ("tl.assume(n > 10000)\ny = 2 * x", "what tl.assume says is untrue, and the "),
    "a descriptor without an allocator": (
        BY_DESCRIPTOR,
        "no allocator is set; before the launch, write triton.set_allocator(lambda size, align, ",
    ),
}


@pytest.mark.parametrize("what", DIFFERS)
def test_what_a_gpu_does_in_another_way_is_wrong_and_has_a_cure(what, tmp_path):
    lines, told = DIFFERS[what]
    function = Cell(lines).launcher(tmp_path)
    verdict = lab.check_exercise(function, twice)
    assert verdict.state == "wrong" and told in repr(verdict), verdict
    assert verdict.reason.startswith("on a GPU: ") and ", at: " in verdict.reason, verdict
    found = inspected(function)
    assert found.wrong.startswith("at size 1: on a GPU: ") and told in found.wrong, found


IN_A_PRODUCT = """\
rows = tl.broadcast_to(tl.where(i < n, x, 0.0)[None, :], (16, 64)).to(tl.float32)
j = tl.arange(0, 64)
unit = (j[:, None] == j[None, :]).to(tl.float32)
y = tl.sum(tl.dot(rows, unit{precision}), 0) / 8"""
WRONG = {  # lines that a GPU computes in another way than NumPy -> what the verdict says
    "flags that are added": ("either = (x > 0) + (x == x)\ny = tl.where(either, 2 * x, 0.0)", ""),
    "flags that are subtracted": ("y = tl.where((i < n) - (x == x), 2 * x, x)", ""),
    "a flag's negative": ("y = tl.where(-(x > 0), 0.0, 2 * x)", ""),
    "fp32 in tl.dot": (
        IN_A_PRODUCT.format(precision=""),
        "because: on a GPU, tl.dot takes fp32 as TF32, with 10 of the 23 bits of a mantissa; input_"
        'precision="ieee" takes all, and is slower, at: y = tl.sum(tl.dot(rows, unit), 0) / 8',
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_bits_are_those_of_a_gpu(what, tmp_path):
    lines, told = WRONG[what]
    verdict = lab.check_exercise(Cell(lines).launcher(tmp_path), twice)
    assert verdict.state == "wrong" and told in repr(verdict), verdict
    assert "raises" not in repr(verdict), verdict


NOT_YET = {  # the kernel's lines, and why the interpreter can't judge them
    "an atomic operation on bf16": (
        "pointer = out_ptr.to(tl.pointer_type(tl.bfloat16), bitcast=True)\n"
        "tl.atomic_add(pointer + i, x.to(tl.bfloat16), mask=i < 0)\ny = 2 * x"
    ),
    "a cast to or from fp8": "y = x + x.to(tl.float8e5).to(tl.float32)",
    "tl.inline_asm_elementwise": (
        'y = tl.inline_asm_elementwise("abs.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)'
    ),
}


@pytest.mark.parametrize("what", NOT_YET)
def test_what_the_interpreter_cannot_judge_is_told_in_one_sentence(what, tmp_path):
    function = Cell(NOT_YET[what]).launcher(tmp_path)
    verdict = lab.check_exercise(function, twice)
    assert verdict.state == "not yet", verdict
    assert verdict.reason.startswith(f"{what} does not run in Triton's interpreter, which judges: ")
    assert repr(inspected(function)) == f"NOT YET: {verdict.reason}"


RIGHT = {
    "a constexpr above the cell": Cell("y = FACTOR * x", above="FACTOR = tl.constexpr(2)"),
    "names for a helper, a dtype and infinity": Cell(
        "y = tl.minimum(doubles(x).to(FP32), MOST)",
        above=(
            "MOST, FP32 = tl.constexpr(float('inf')), tl.float32\n"
            "@triton.jit\ndef f(a):\n    return 2 * a\n\ndoubles = f"
        ),
    ),
    "a number as a default": Cell(
        "y = f(x)",
        above="FACTOR = 2\n@triton.jit\ndef f(a, by: tl.constexpr = FACTOR):\n    return by * a",
    ),
    "a number that a tuner reads": Cell(
        "y = 2 * x",
        above="FOUR = 4\n@triton.autotune([triton.Config({}, num_warps=FOUR)], key=['n'])",
    ),
    "a heuristic": Cell(
        "y = 2 * x if PART else x + x",
        above="@triton.heuristics({'PART': lambda given: given['n'] < 50})",
    ),
    "constants of math": Cell("y = x * math.sqrt(4) * (math.pi / math.pi)"),
    "an argument that cannot be passed on": Cell(
        "y = PART(x)", above="@triton.jit\ndef part(a):\n    return 2 * a", options=", PART=part"
    ),
    "two warps": Cell("y = 2 * x", options=", num_warps=2"),
    "hints that are true": Cell(
        "j = tl.max_contiguous(tl.multiple_of(i, BLOCK), BLOCK)\n"
        "tl.multiple_of(tl.program_id(0) * 48, 16)\n"
        "tl.multiple_of(i + i // 16 * 16, 16)\n"
        "tl.multiple_of(16 * tl.load(x_ptr + j, mask=i < n, other=0.0).to(tl.int32), 16)\n"
        "tl.max_constancy(i // 4, 4)\n"
        "tl.multiple_of(tl.arange(0, 4)[:, None] * 32 + tl.arange(0, 16)[None, :], [1, 16])\n"
        "tl.max_contiguous(tl.arange(0, 4)[:, None] * 32 + tl.arange(0, 16)[None, :], (1, 16))\n"
        "tl.multiple_of(tl.arange(0, 4)[:, None] * 32 + tl.arange(0, 16)[None, :] * 64, (32, 32))\n"
        "tl.assume(n > 0)\n"
        "p = tl.max_contiguous(tl.multiple_of(tl.multiple_of(x_ptr, 128) + i, 16), BLOCK)\n"
        "y = 2 * tl.load(p, mask=i < n)"
    ),
    "a descriptor with an allocator": Cell(
        BY_DESCRIPTOR,
        above="triton.set_allocator(lambda size, align, stream: torch.empty(size, device='cuda'))",
    ),
    "fp32 in tl.dot, as it is": Cell(IN_A_PRODUCT.format(precision=", input_precision='ieee'")),
    "halves in order": Cell(
        f"{HALVES}y = 2 * tl.reshape(tl.permute(tl.join(a, b), (0, 1)), (64,))"
    ),
    "sums over all axes": Cell("y = 2 * x + 0 * tl.sum(tl.max(tl.reshape(i, (8, 8)), 1))"),
    "flags that are multiplied": Cell("y = 2 * tl.where((x == x) * (i < n), x, 0.0)"),
    "a named tuple": Cell(
        "y = PART.by * x",
        above="from collections import namedtuple",
        options=", PART=namedtuple('Part', ['by'])(2)",
    ),
    "block pointers": Cell(
        "p = tl.make_block_ptr(x_ptr, (n, 1), (1, 1), (0, 0), (BLOCK, 1), (1, 0))\n"
        "p = tl.advance(p, (tl.program_id(0) * BLOCK, 0))\n"
        "y = 2 * tl.load(p, boundary_check=(0,), padding_option='zero').reshape(BLOCK)"
    ),
    "a descriptor that is passed": Cell(
        above="from triton.tools.tensor_descriptor import TensorDescriptor",
        instead={
            "x = tl.load(x_ptr + i, mask=i < n)": "x = x_ptr.load([tl.program_id(0) * BLOCK])",
            "](x, out": "](TensorDescriptor.from_tensor(x, [64]), out",
        },
    ),
    "a gather, and a method of a block": Cell(
        "j = tl.arange(0, BLOCK)\ny = (x + x.gather(j ^ 1, 0).gather(j ^ 1, 0)) * (0 * x).exp()"
    ),
    "CUDA's libdevice": Cell(
        "y = x * (nvidia.cos(0 * x.to(tl.float32)) + nvidia.exp(0 * x.to(tl.float32)))",
        above="from triton.language.extra.cuda import libdevice as nvidia",
    ),
    "a mask that is one for all": Cell(
        "full = (tl.program_id(0) + 1) * BLOCK <= n\n"
        "y = tl.where(full, 2 * tl.load(x_ptr + i, full), 2 * x)"
    ),
    "a constant's type: text": Cell(kind='"tl.constexpr"'),
    "a constant's type: the whole name": Cell(
        above="import triton.language", kind="triton.language.constexpr"
    ),
    "a constant's type: the whole name as text": Cell(
        above="import triton.language", kind='"triton.language.constexpr"'
    ),
    "a constant's type: another short name": Cell(
        above="import triton.language as T", kind="T.constexpr"
    ),
    "a constant's type: its own name": Cell(
        above="from triton.language import constexpr", kind="constexpr"
    ),
    "a constant's type: a name of the cell": Cell(above="Constant = tl.constexpr", kind="Constant"),
    "a constant's type: a submodule": Cell(
        above="from triton import language", kind="language.core.constexpr"
    ),
}


@pytest.mark.parametrize("what", RIGHT)
def test_what_compiles_is_right(what, tmp_path, no_allocator):
    function = RIGHT[what].launcher(tmp_path)
    verdict = lab.check_exercise(function, twice)
    assert verdict and not verdict.remark, verdict
    assert inspected(function)
