"""`lab.inspect`: what its page says of kernels that are right, wrong, or can't be known."""

import json
import re
from functools import partial
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

import inspected_kernels as kernels
import rope_lab as lab
from cells import Cell, names_in
from pairwise import slow_but
from processes import ROOT
from rope_lab.compiler import compile as compile_module
from rope_lab.judge.inspect.inspection import Inspected
from rope_lab.judge.inspect.limits import gpu_of, limit_of
from rope_lab.records import QUIET

SUM = {"tolerance": (1e-5, 1e-5)}
LOOSE = {"tolerance": (1e-2, 1e-1)}
FAR = {"large": 8_000_000}  # rows, of 2.4 billion elements
SIZE = 6000


def rows(size, device, width=300, tensors=1, dtype=torch.float32):
    """300 columns: no block divides them."""
    return tuple(torch.randn(size, width, device=device).to(dtype) for _ in range(tensors))


two_rows = partial(rows, tensors=2)


def half_of_the_rows(size, device):
    return (rows(2 * size, device)[0][:size],)


def table_and_ids(size, device):
    (table,) = rows(500, device)
    return table, torch.randint(500, (size,), device=device)


def few_of_the_rows(size, device):
    """And the last one is far from the first."""
    (x,) = rows(size, device)
    index = torch.randperm(size, device=device)[:3]
    index[1] = size - 1
    return x, index


def matrices(size, device, dtype=torch.float16, k=64):
    shapes = (32 * size, k), (k, 32)
    return tuple(torch.randn(shape, device=device).to(dtype) for shape in shapes)


def nearly_2_to_31(size, device):
    return (torch.randn(2**31 - 20 if size == 9000 else 100 * size, device=device),)


def sparse(size, device):
    return *rows(size, device), torch.randn(16 * size, 300, device=device)


def twice(x):
    return 2 * x


def swiglu(a, b):
    return torch.nn.functional.silu(a) * b


def normed(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def multiplied(a, b):
    return (a.double() @ b.double()).float()


def total(x):
    return x.sum()[None]


def row_sums(x):
    return x.sum(-1)


def minus_its_sum(x):
    return x - x.sum(-1, keepdim=True)


def from_the_left(x):
    return torch.cat((torch.zeros_like(x.flatten()[:1]), x.flatten()[:-1])).view_as(x)


SIZES = "at the sizes 3, 6, 9"
RIGHT = f"RIGHT {SIZES}"
BEGIN, MAKE = "tl.program_id(0)", "torch.empty_like(x)"
LOAD, STORE = "x = tl.load(x_ptr + i, mask=i < n)", "tl.store(out_ptr + i, y, mask=i < n)"
SWIGLU = Cell("w = tl.load(w_ptr + i, mask=i < n)\ny = x * tl.sigmoid(x) * w", tensors="x, w")
LEFT = Cell("y = tl.load(x_ptr + i - 1, mask=(i > 0) & (i < n))", instead={LOAD: ""})
BY_DESCRIPTOR = Cell(
    above="triton.set_allocator(lambda size, *_: torch.empty(size, device='cuda'))",
    instead={
        LOAD: f"x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK]).load([{BEGIN} * BLOCK])",
        STORE: f"tl.make_tensor_descriptor(out_ptr, [n], [1], [BLOCK]).store([{BEGIN} * BLOCK], y)",
    },
)
OFTEN = Cell(
    "while tl.min(i) < n:\n"
    "    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)\n"
    "    i += BLOCK * tl.num_programs(0)",
    instead={LOAD: "", STORE: "", "(triton.cdiv(x.numel(), 64),)": "(2,)"},
)
OF_A_TUPLE = Cell(
    above="from collections import namedtuple\nTensors = namedtuple('Tensors', 'x out')",
    instead={
        "x_ptr, out_ptr": "tensors",
        "x_ptr": "tensors.x",
        "out_ptr": "tensors.out",
        "](x, out": "](Tensors(x, out)",
    },
)
FROM_ZERO = Cell(instead={"mask=i < n": "mask=(i >= 0) & (i < n)"})
ONE = {MAKE: "torch.zeros(1, device=x.device)"}
WIDE = {BEGIN: f"{BEGIN}.to(tl.int64)"}
BY_48 = {
    f"{BEGIN} * BLOCK": f"{BEGIN} * 48",
    "mask=i < n": "mask=(i < n) & (tl.arange(0, BLOCK) < 48)",
    "x.numel(), 64": "x.numel(), 48",
}


def totaled(at):
    """A sum by atomics, in the one number of the result if `at` is 0."""
    added = f"tl.atomic_add(out_ptr + {at}, tl.sum(tl.where(i < n, x, 0.0)))"
    return Cell("", instead={STORE: added, **ONE})


def unknown(why):
    """What is on the page of a kernel whose limit isn't known: no change would show it."""
    return (
        RIGHT,
        why,
        "limited by: not known",
        lambda f: f"predicted at least {f.predicted_us:.1f} us" in repr(f),
        lambda f: not f.limit and "to confirm" not in repr(f),
    )


NO_FLIGHT = "how many bytes are requested before the first is needed is not known"
NOT_LOADED = (
    "WRONG at size 3: ",
    "first at index (0, 0): got nan",
    "With other=0 for the masked lanes of this load",
)
OF_SWIGLU = {"reference": swiglu, "make": two_rows}
OF_NORM = {"reference": normed, **SUM}
OF_FP32 = {"reference": multiplied, "make": partial(matrices, dtype=torch.float32, k=32)}
TRANSPOSED = {"reference": lambda x: x.T.contiguous()}
PICKED = {"reference": lambda table, ids: table[ids]}
FOUND = {  # what is inspected, how, and what its page begins with and has, or what holds of it
    "all that is known": (
        SWIGLU,
        OF_SWIGLU,
        "RIGHT at the sizes 3, 6, 9\nAt size 6 000, compiled for sm_90\n",
        "doubling_kernel: 28 125 programs of 4 warps\n",
        "  bytes         21.6 MB requested, 21.6 MB needed\n  evaluations   exp 1 800 000\n",
        "Time model of NVIDIA H200",
        lambda f: set(f.times[0]) == {"memory", "instructions", "starts", "latency"},
        lambda f: f.predicted_us > max(f.times[0].values()),
        lambda f: f"limited by: {f.limit}\n" in repr(f),
        lambda f: f.launches[0].compiled.loads and not (f.launches[0].bent or f.eager),
        lambda f: 0 < sum(by_line(f).values()) == f.launches[0].instructions,
        lambda f: f" {by_line(f)[LOAD]} of {LOAD}\n" in repr(f),
    ),
    "a loop": (
        kernels.norm,
        OF_NORM,
        *unknown("instructions  not counted: loop"),
        lambda f: f.launches[0].again == {"x_ptr": 2.0},  # each element is loaded twice
        lambda f: "instructions" not in f.times[0],
        lambda f: "f16" not in f.launches[0].compiled.stages["ttir"],  # its DTYPE has arrived
    ),
    "a part of a tensor": (
        kernels.norm,
        OF_NORM | {"make": half_of_the_rows},
        "RIGHT",
        lambda f: f.launches[0].again == {"x_ptr": 2.0},
    ),
    "descriptors": (
        BY_DESCRIPTOR,
        {},
        *unknown("instructions: not counted: tensor descriptors"),
        lambda f: repr(f).count(" 1 by tensor descriptor\n") == 2 and "none" not in repr(f),
        NO_FLIGHT,  # what is copied into shared memory is in no register
        lambda f: "latency" not in f.times[0],
    ),
    "a pipelined loop": (
        partial(kernels.sums_by, kernels.pipelined_kernel, BLOCK=128),
        {"reference": row_sums, **SUM},
        *unknown("instructions: not counted: loop"),
        NO_FLIGHT,
    ),
    "an early return": (
        Cell(instead={"    x = ": f"    if {BEGIN} * BLOCK >= n:\n        return\n    x = "}),
        {},
        *unknown("instructions: not counted: if tl.program_id(0) * BLOCK >= n"),
    ),
    "a function of a library, and a float": (
        kernels.scaled_tanh,
        {"reference": lambda x: torch.tanh(0.5 * x), **SUM},
        *unknown("not counted: branches in a function of a library"),
        lambda f: f.launches[0].functions == {"tanh": 512 * SIZE},
    ),
    "atomics at one address": (
        Cell("y = x", instead={"tl.store(out_ptr + i,": "tl.atomic_add(out_ptr + 0 * i,", **ONE}),
        {"reference": total, **LOOSE},
        *unknown("how long atomics wait for each other"),
    ),
    "tensor cores": (
        kernels.product,
        {"reference": multiplied, "make": matrices, **LOOSE},
        *unknown("how long tensor cores take is not known"),
        lambda f: f.launches[0].flops == 2 * 32 * SIZE * 64 * 32,
        lambda f: f.launches[0].compiled.loads,  # into shared memory
    ),
    "a load for another": (
        kernels.gather,
        PICKED | {"make": table_and_ids},
        *unknown("a load waits for another"),
        # Few ids repeat at small sizes, where each seems to be a new row.
        "loaded again, from a cache at best: table_ptr 12 times",
        lambda f: f.launches[0].requested == SIZE * (2 * 4 * 300 + 8),
        lambda f: f.launches[0].moved == (500 + SIZE) * 4 * 300 + 8 * SIZE,
    ),
    "registers that are spilled": (
        Cell("y = x - tl.sum(x)", instead={"64": "32768"}),
        {"reference": minus_its_sum, "make": partial(rows, width=2**15), "large": 600, **LOOSE},
        *unknown("bytes a thread are spilled"),
    ),
    "counts that are roughly known": (  # of random numbers, in few rows, not just half
        Cell("y = tl.load(w_ptr + i, mask=(i < n) & (x > 0), other=0.0)", tensors="x, w"),
        {"reference": lambda a, b: torch.where(a > 0, b, 0), "make": two_rows},
        "RIGHT",
        "predicted not known",
        lambda f: f.launches[0].bent == ("w_ptr",) and not (f.predicted_us or f.limit),
        lambda f: "at least" not in repr(f),
    ),
    "parts of sectors": (
        kernels.transpose,
        TRANSPOSED | {"small": 50},
        "RIGHT",
        "sectors of out_ptr; choose small as a multiple of 8, so",
        lambda f: f.launches[0].bent == ("sectors of out_ptr",),
    ),
    "whole sectors": (
        kernels.transpose,
        TRANSPOSED | {"small": 48},
        "RIGHT",
        lambda f: f.predicted_us and not f.launches[0].bent,
    ),
    "few bytes of a sector": (
        Cell(SWIGLU.lines.replace("+ i", "+ 16 * i"), tensors="x, w"),
        {"reference": lambda a, b: swiglu(a, b.flatten()[::16].view_as(a)), "make": sparse},
        "RIGHT",
        "of the 32 bytes of a sector each load or store uses few",
    ),
    "a slow branch, left out": (
        Cell("y = x * tl.cos(x)"),
        {"reference": lambda x: x * x.cos(), **SUM},
        "RIGHT",
        lambda f: f.launches[0].instructions and "at least" not in repr(f),
    ),
    "a tuner": (
        kernels.tuned,
        {},
        "RIGHT",
        "configuration 1 of 2: BLOCK=64, num_warps=4",
        "predicted",
        lambda f: f.launches[0].programs == -(-SIZE * 300 // 64),
    ),
    "several launches": (
        lambda x: kernels.tuned(kernels.norm(x)),
        {"reference": lambda x: 2 * normed(x), **SUM},
        "RIGHT",
        lambda f: [x.kernel for x in f.launches] == ["norm_kernel", "tuned_kernel"],
    ),
    "PyTorch between": (
        lambda x: kernels.tuned(x + 0.0),
        {},
        "RIGHT",
        lambda f: [kernel.name for kernel in f.eager] == ["add"],
        lambda f: f.predicted_us > f.gpu.machine.start_us + max(f.times[0].values()) + 1,
    ),
    "a sum of atomics": (
        totaled(0),
        {"reference": total, **SUM},
        "RIGHT",
        "undefined",
        lambda f: f.atomics == {"out_ptr": True} and "lock" not in repr(f),
        lambda f: [kernel.name for kernel in f.eager] == ["zeros"],
    ),
    "atomics beside a tensor": (  # once exit 139
        totaled(64),
        {"reference": total},
        "WRONG",
        "out of bounds",
        "out_ptr",
    ),
    "a sum of bf16": (
        partial(kernels.sums_by, kernels.sums_kernel, BLOCK=64),
        {"reference": row_sums, "make": partial(rows, width=64, dtype=torch.bfloat16)},
        "RIGHT",
    ),
    "TF32, where that is enough": (
        partial(kernels.product, how="tf32"),
        OF_FP32 | LOOSE,
        "RIGHT",
        "fp32 is taken as tf32: input_precision=",
    ),
    "all bits of fp32": (kernels.product, OF_FP32, "RIGHT", lambda f: "taken as" not in repr(f)),
    "a number above the cell": (  # and its launcher reads an element
        Cell("y = SCALE * x", above="SCALE = 2.0", instead={MAKE: f"{MAKE} if x.any() else x"}),
        {},
        "WRONG on a GPU: right in the interpreter, but ",
        "Cannot access global variable SCALE",
    ),
    "fields of a tuple": (
        OF_A_TUPLE,
        {},
        "RIGHT",
        lambda f: set(f.launches[0].tensors) == {"tensors.x", "tensors.out"},
    ),
    "another function": (
        SWIGLU,
        {"reference": lambda a, b: a * b, "make": two_rows},
        "WRONG",
        "first at index (0, 0)",
        "stored by: program 0",
        lambda f: "masked off" not in repr(f),  # lanes of its last block are, and store nothing
    ),
    "another order": (
        kernels.tuned,
        {"reference": lambda x: 2 * x.flip(0)},
        "WRONG",
        "From row 0 to 1, it moves by 300, and should by -300.",
    ),
    "another number of results": (
        kernels.tuned,
        {"reference": lambda x: (2 * x, 1 / x)},
        "WRONG",
        lambda f: "because: " not in repr(f),
    ),
    "a load without other": (LEFT, {"reference": from_the_left}, *NOT_LOADED),
    "results within results": (
        lambda a, b: {"y": (kernels.tuned(a),)},
        {"reference": lambda a, b: {"y": (a * b,)}, "make": two_rows},
        "WRONG",
        "result 0",
    ),
    "an input that is written, besides": (
        lambda x, y: kernels.tuned(x) + 0 * y.fill_(7.0),
        {"reference": lambda x, y: 2 * x + 0 * y.add_(1), "make": two_rows},
        "WRONG",
        "y: ",
    ),
    "the wrong input": (
        lambda x, y: {"x": y.copy_(kernels.tuned(x))},
        {"reference": lambda x, y: {"x": x.mul_(2)}, "make": two_rows},
        "WRONG at size 3: x: ",
    ),
    "an input that is overwritten, and returned": (
        lambda x: x.copy_(kernels.tuned(x)),
        {},
        "WRONG",
        "an input is overwritten: x",
    ),
    "no result": (
        SWIGLU,
        {"reference": lambda a, b: None, "make": two_rows},
        "NOT YET",
        "returns no tensor",
    ),
    "an error": (lambda x: {}[kernels.tuned(x)], {}, "NOT YET", "KeyError"),
    "no kernel": (twice, {}, "RIGHT", "no kernel is launched"),
    "values that are asked for": (
        lambda x: kernels.tuned(x) if x.sum().item() else x,
        {},
        "RIGHT",
        "without memory",
        lambda f: not f.launches,
    ),
    # What should limit it.
    "wanted: starts": (SWIGLU, OF_SWIGLU | {"wanted": "starts"}, f"{RIGHT}\n"),
    "wanted: memory": (
        SWIGLU,
        OF_SWIGLU | {"wanted": "memory"},
        f"NOT YET: right {SIZES}, but limited by starts; wanted: memory\n",
    ),
    "wanted: what is not known": (
        kernels.norm,
        OF_NORM | {"wanted": "memory"},
        f"NOT YET: right {SIZES}, but what limits it is not known; wanted: memory\n",
    ),
    # Offsets at the large size, which no memory here holds. On a GPU they lead elsewhere.
    "32 bits of a block": (
        Cell(),
        FAR,
        "WRONG at size 8000000: program ",
        "of doubling_kernel reads element -",
        "of x_ptr, where 2 ",
        "wraps around in 32 bits, at: i = tl.program_id(0)",
    ),
    "64 bits of a block": (
        Cell(instead=WIDE),
        FAR,
        "RIGHT",
        lambda f: f.launches and not f.unchecked,
    ),
    "32 bits below 2^31": (Cell(), {"large": 7_000_000}, "RIGHT"),
    "32 bits of an index": (
        partial(kernels.gather, wide=False),
        PICKED | {"make": few_of_the_rows, **FAR},
        "WRONG",
        "of gather_kernel reads element -",
        "table_ptr, where 2 ",
        "row * D",
    ),
    "32 bits of a field": (OF_A_TUPLE, FAR, "WRONG", "of tensors.x, where 2 "),
    "32 bits of a mask": (  # of the last program alone, whose elements all exist
        Cell(instead=BY_48),
        {"make": nearly_2_to_31, "large": 9000},
        "WRONG",
        "element -2 147 483 648 of x_ptr, which its mask leaves out",
    ),
    "64 bits of a mask": (
        Cell(instead=BY_48 | WIDE),
        {"make": nearly_2_to_31, "large": 9000},
        "RIGHT",
    ),
    "a mask that is false where it wraps": (  # no address shows it
        FROM_ZERO,
        FAR,
        "RIGHT",
        "whether offsets fit into 32 bits isn't known: ",
        "nothing is loaded or stored then, at: i = tl.program_id",
    ),
    "a mask that is not false yet": (FROM_ZERO, {}, "RIGHT", lambda f: not f.unchecked),
    "random numbers, which wrap on purpose": (
        Cell("y = tl.where(tl.rand(7, i) < 2, 2 * x, 0)", instead=WIDE),
        FAR,
        "RIGHT",
        lambda f: not f.unchecked,
    ),
    "a loop over blocks": (
        OFTEN,
        FAR,
        "RIGHT",
        "whether offsets fit into 32 bits isn't known: ",
        lambda f: f.measured_us is None,  # on a GPU it would end all CUDA calls
    ),
    "a loop over few blocks": (OFTEN, {}, "RIGHT", lambda f: not f.unchecked),
}


def by_line(found):
    return found.launches[0].instructions_by_line


@pytest.fixture(autouse=True)
def whole_pages(monkeypatch, no_allocator):
    monkeypatch.delenv(QUIET, raising=False)


def inspected(candidate, reference=twice, make=rows, **options):
    return lab.inspect(candidate, reference, make, **{"small": 3, "large": SIZE} | options)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("what", FOUND)
def test_what_is_found_of_a_kernel(what, tmp_path):
    candidate, options, begins, *told = FOUND[what]
    if isinstance(candidate, Cell):
        candidate = candidate.launcher(tmp_path)
    found = inspected(candidate, **options)
    page = repr(found)
    assert page.startswith(begins) and bool(found) == begins.startswith("RIGHT"), page
    for number, one in enumerate(told, 1):
        assert one in page if isinstance(one, str) else one(found), (number, page)


def not_yet(words, *_):
    raise NotImplementedError(words)


def test_stubs_say_what_to_write():
    """Of the three functions, in the order in which a reader writes them."""
    stubs = [partial(not_yet, words) for words in ("6: a kernel", "2: in PyTorch", "1: inputs")]
    for given in (stubs, [*stubs[:2], rows], [stubs[0], twice, rows]):
        (words, *_) = [x.args[0] for x in reversed(given) if x in stubs]
        assert repr(inspected(*given)) == f"NOT YET: {words}"


@pytest.mark.parametrize(
    ("name", "value"),
    (("gpu", "gfx942"), ("gpu", "H100"), ("tolerance", 1e-3), ("wanted", "bytes"), ("large", 8)),
)
def test_what_cannot_be_asked_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        inspected(kernels.tuned, **{name: value})


@pytest.mark.needs_compiler
def test_pages_of_two_compilers_compare_equal(monkeypatch, tmp_path):
    """nbval replaces what they count differently, and nothing else."""
    monkeypatch.setenv(QUIET, "1")
    page = repr(inspected(SWIGLU.launcher(tmp_path), swiglu, two_rows))
    lines = (ROOT / "tools/nbval_sanitize.cfg").read_text("utf-8").splitlines()
    said = [line.split(": ", 1) for line in lines if ": " in line]
    rules = [text for key, text in said if key in ("regex", "replace")]

    def sanitized(text):
        for pattern, instead in zip(rules[::2], rules[1::2], strict=True):
            text = re.sub(pattern, instead, text)
        return text

    other = re.sub(r"(instructions  )\d+( a warp)", r"\g<1>1 234\2", page)
    other = re.sub(r"(instructions|latency) \d+\.\d", r"\1 9.9", other)
    assert other != page and sanitized(other) == sanitized(page)
    assert sanitized(page.replace("programs of", "programs by")) != sanitized(page)


def test_without_a_compiler_what_the_interpreter_counts_is_shown(monkeypatch, tmp_path):
    monkeypatch.setattr(compile_module, "compiler_is_installed", lambda: False)
    found = inspected(SWIGLU.launcher(tmp_path), swiglu, two_rows)
    page = repr(found)
    assert found and set(found.times[0]) == {"memory", "starts"}
    assert "21.6 MB needed" in page and "launched for sm_90" in page
    assert "machine code  not read here: Triton has no compiler" in page
    assert "predicted at least" in page
    other = repr(inspected(kernels.tuned, gpu="sm_75"))
    assert other.endswith("sm_75: the time is not known; `make record` on such a GPU records it")


@pytest.mark.needs_compiler
def test_a_configuration_too_large_for_a_gpu_is_no_mistake(monkeypatch):
    """A tuner passes over it, whereas a kernel that is not tuned fails."""
    small = compile_module.SM_OF["sm_90"]._replace(shared=1024)  # all of it reserved
    monkeypatch.setitem(compile_module.SM_OF, "sm_90", small)
    for kernel, is_right in ((kernels.tuned_sums_kernel, True), (kernels.sums_kernel, False)):
        found = inspected(partial(kernels.sums_by, kernel, BLOCK=512), row_sums, **SUM)
        assert bool(found) is is_right and "out of resource" in (found.refused or found.wrong)


@pytest.mark.needs_compiler
def test_registers_of_a_gpu_without_a_record_are_read(monkeypatch):
    # somebody may have recorded a T4
    monkeypatch.setattr("rope_lab.profiling.machines.read", lambda path: {})
    found = inspected(kernels.tuned, gpu="sm_75")
    assert "compiled for sm_75" in repr(found) and 0 < found.launches[0].resident <= 16


SOLUTIONS = {  # of a notebook, with a size of more than 2^31 elements for each exercise
    "13_a_kernel_of_your_own": (300_000, 300_000, 500_000, 1_200_000, 600_000),
    "14_into_the_cache": (2_200_000,),
}


@pytest.mark.parametrize("name", slow_but(SOLUTIONS, "14_into_the_cache"))
def test_the_worked_solutions_index_in_64_bits(name, tmp_path, monkeypatch):
    page = json.loads((ROOT / f"notebooks/solutions/{name}_solutions.ipynb").read_text("utf-8"))
    cells = ["".join(cell["source"]) for cell in page["cells"] if cell["cell_type"] == "code"]
    names, pages, sizes = {"__name__": "__main__"}, [], iter(SOLUTIONS[name])
    inspect = lab.inspect

    def at_a_large_size(*given, small, large, wanted=""):
        pages.append(inspect(*given, small=small, large=next(sizes)))

    monkeypatch.setattr(lab, "inspect", at_a_large_size, raising=False)
    for text in cells:
        names_in(text, tmp_path, names)
    assert len(pages) == len(SOLUTIONS[name])
    assert all(found and not found.unchecked for found in pages), pages


def asked(**work):
    """A launch of programs of one warp, as far as the time model looks at it."""
    return SimpleNamespace(moved=2**28, num_warps=1, **work)


LIMITED = {  # by what -> programs, instructions, bytes in flight, programs on an SM
    "memory": (2**14, 1000, 4096, 16),
    "starts": (2**21, 10, 4096, 16),
    "instructions": (2**16, 10_000, 4096, 16),
    "latency": (264, None, 1024, 16),
}


def test_the_limits_of_a_recorded_gpu():
    gpu, other = gpu_of("NVIDIA H200"), gpu_of("NVIDIA H100 80GB HBM3")
    fastest = gpu_of("sm_90").machine.bytes_a_us  # of all that are recorded
    assert fastest >= gpu.machine.bytes_a_us > other.machine.bytes_a_us
    assert not gpu_of("sm_61").machine  # Triton compiles nothing for it, so it has no record
    assert gpu.copy_us(2**29) == pytest.approx(2**29 / gpu.machine.bytes_a_us, rel=0.05)
    for limit, counts in LIMITED.items():
        names = ("programs", "instructions", "in_flight", "resident")
        launch = asked(**dict(zip(names, counts, strict=True)))
        assert limit_of(Inspected.times(launch, gpu)) == limit
        launch.resident = 0  # of a GPU whose SMs are not known
        assert "latency" not in Inspected.times(launch, gpu)


@pytest.mark.gpu
def test_a_gpu_that_is_here_is_measured(tmp_path):
    assert inspected(SWIGLU.launcher(tmp_path), swiglu, two_rows, large=60_000).measured_us > 0
