"""`lab.inspect`: what it finds of kernels that are right, wrong, or can't be known."""

import json
import re
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from pairwise import slow_but
from processes import ROOT
from rope_lab.records import QUIET

pytestmark = pytest.mark.usefixtures("needs_triton")
SUM = (1e-5, 1e-5)
NOTEBOOKS = ROOT / "notebooks"


@pytest.fixture
def kernels(monkeypatch):
    import inspected_kernels

    monkeypatch.delenv(QUIET, raising=False)  # the whole page

    return inspected_kernels


def inspected(function, reference, make, **options):
    import rope_lab as lab

    return lab.inspect(function, reference, make, **{"small": 3, "large": 6000} | options)


@pytest.mark.needs_compiler
def test_a_kernel_that_is_right(kernels):
    found = inspected(kernels.swiglu, kernels.swiglu_in_pytorch, kernels.two_rows)
    assert found and found.sizes == [3, 6, 9]
    (launch,) = found.launches
    size = 4 * 6000 * kernels.WIDTH
    assert launch.programs == -(-6000 * kernels.WIDTH // 128)
    assert launch.requested == launch.moved == pytest.approx(3 * size)
    assert not (launch.again or launch.bent or launch.scattered or found.eager)
    assert launch.functions == {"exp": 128 * launch.programs}
    assert launch.compiled.loads and launch.instructions
    by_line, line = launch.instructions_by_line, "a = tl.load(a_ptr + i, mask=i < n)"
    assert sum(by_line.values()) == launch.instructions
    assert f" {by_line[line]} of {line}\n" in repr(found)
    (times,) = found.times
    assert set(times) == {"memory", "instructions", "starts", "latency"}
    assert found.predicted_us > max(times.values())
    page = repr(found)
    assert page.startswith("RIGHT at the sizes 3, 6, 9") and found.limit in page
    assert "NVIDIA H200" in page


def test_stubs_say_what_to_write(kernels):
    """Of the three functions, in the order in which a reader writes them."""

    def no_inputs(size, device):
        raise NotImplementedError("1: make inputs")

    def no_reference(*inputs):
        raise NotImplementedError("2: say it in PyTorch")

    def no_kernel(*inputs):
        raise NotImplementedError("6: write a kernel")

    def says(words, *given):
        assert repr(inspected(*given)) == f"NOT YET: {words}"

    says("1: make inputs", no_kernel, no_reference, no_inputs)
    says("2: say it in PyTorch", no_kernel, no_reference, kernels.two_rows)
    says("6: write a kernel", no_kernel, kernels.swiglu_in_pytorch, kernels.two_rows)


@pytest.mark.needs_compiler
def test_pages_of_two_compilers_compare_equal(kernels, monkeypatch):
    """nbval replaces what they count differently, and nothing else."""
    monkeypatch.setenv(QUIET, "1")
    page = repr(inspected(kernels.swiglu, kernels.swiglu_in_pytorch, kernels.two_rows))
    lines = (NOTEBOOKS.parent / "tools/nbval_sanitize.cfg").read_text("utf-8").splitlines()
    said = [line.split(": ", 1) for line in lines if ": " in line]
    rules = [text for key, text in said if key in ("regex", "replace")]

    def sanitized(text):
        for pattern, instead in zip(rules[::2], rules[1::2], strict=True):
            text = re.sub(pattern, instead, text)
        return text

    (instructions,) = re.findall(r"instructions  (\d+) a warp", page)
    other = page.replace(f"{instructions} a warp", "1 234 a warp")
    other = re.sub(r"(instructions|latency) \d+\.\d", r"\1 9.9", other)
    assert other != page and sanitized(other) == sanitized(page)
    assert sanitized(page.replace("programs of", "programs by")) != sanitized(page)
    assert "bytes" in sanitized(page) and "a warp" in sanitized(page)


def test_without_a_compiler_what_the_interpreter_counts_is_shown(kernels, monkeypatch):
    from rope_lab.compiler import compile as compile_module

    monkeypatch.setattr(compile_module, "compiler_is_installed", lambda: False)
    found = inspected(kernels.swiglu, kernels.swiglu_in_pytorch, kernels.two_rows)
    (launch,) = found.launches
    assert found and launch.compiled is None and launch.instructions is None
    assert launch.requested == pytest.approx(3 * 4 * 6000 * kernels.WIDTH)
    assert set(found.times[0]) == {"memory", "starts"}
    page = repr(found)
    assert "machine code  not read here: Triton has no compiler" in page
    assert "predicted at least" in page and "launched for sm_90" in page
    other = inspected(kernels.swiglu, kernels.swiglu_in_pytorch, kernels.two_rows, gpu="sm_75")
    assert repr(other).endswith(
        "sm_75: the time is not known; `make record` on such a GPU records it"
    )


@pytest.mark.needs_compiler
@pytest.mark.parametrize("make", ("rows", "half_of_the_rows"))
def test_instructions_are_not_counted_through_a_loop(make, kernels):
    make = getattr(kernels, make)
    found = inspected(kernels.norm, kernels.norm_in_pytorch, make, tolerance=SUM)
    (launch,) = found.launches
    assert launch.again == {"x_ptr": 2.0}  # 300 columns take three turns, each element two loads
    assert launch.instructions is None and "instructions" not in found.times[0]
    assert "instructions  not counted: loop" in repr(found) and "at least" in repr(found)
    assert "f16" not in launch.compiled.stages["ttir"]  # its DTYPE has arrived


LIMIT_NOT_KNOWN = (  # a kernel, its reference, its inputs, and why its limit isn't known
    ("by_descriptor", "double", "rows", "instructions: not counted: tensor descriptors"),
    ("pipelined", "sums", "rows", "instructions: not counted: loop"),
    ("early_return", "double", "rows", "instructions: not counted: if first >= n"),
    (
        "of_a_library",
        "tanh_in_pytorch",
        "rows",
        "not counted: branches in a function of a library",
    ),
    ("at_one_address", "total_in_pytorch", "rows", "how long atomics wait for each other"),
    ("matmul", "matmul_in_pytorch", "matrices", "how long tensor cores take is not known"),
    ("gather", "taken_from_a_table", "table_and_ids", "a load waits for another"),
    ("spilled", "minus_its_sum", "wide_rows", "bytes a thread are spilled"),
)


@pytest.mark.needs_compiler
def test_what_no_gpu_compiles_is_not_right(kernels):
    """Its launcher reads an element, too. `test_refused_kernels.py` has what is refused."""
    found = inspected(kernels.scaled_if_there_is_something, kernels.double, kernels.rows)
    head = repr(found).splitlines()[0]
    assert head.startswith("WRONG on a GPU: right in the interpreter, but ") and not found, head
    assert "Cannot access global variable SCALE" in head, head


@pytest.mark.needs_compiler
def test_a_configuration_too_large_for_a_gpu_is_no_mistake(kernels, monkeypatch):
    """A tuner passes over it, whereas a kernel that is not tuned fails."""
    from rope_lab.compiler import compile as compile_module

    small = compile_module.SM_OF["sm_90"]._replace(shared=1024)  # all of it reserved
    monkeypatch.setitem(compile_module.SM_OF, "sm_90", small)
    tuned = inspected(kernels.tuned_sums, kernels.sums, kernels.rows, tolerance=SUM)
    assert tuned and "out of resource" in tuned.refused, tuned
    alone = inspected(kernels.norm, kernels.norm_in_pytorch, kernels.rows, tolerance=SUM)
    assert not alone and "out of resource" in alone.wrong, alone


@pytest.mark.needs_compiler
def test_pointers_may_be_fields_of_a_tuple(kernels):
    """And are called alike where they are counted and where their offsets are compared."""
    found = inspected(kernels.of_a_tuple, kernels.double, kernels.rows)
    assert found and set(found.launches[0].tensors) == {"tensors.x", "tensors.out"}
    far = inspected(kernels.of_a_tuple, kernels.double, kernels.rows, large=8_000_000)
    assert "of tensors.x, where 2 " in far.wrong


@pytest.mark.needs_compiler
@pytest.mark.parametrize(("function", "reference", "make", "why"), LIMIT_NOT_KNOWN)
def test_a_limit_that_is_not_seen_is_not_known(function, reference, make, why, kernels):
    """The time is the least one, and no change is named that would show a limit."""
    given = (getattr(kernels, name) for name in (function, reference, make))
    found = inspected(*given, large=600, tolerance=(1e-2, 1e-2))
    page = repr(found)
    assert found and not found.limit and why in page, page
    assert "limited by: not known" in page and "to confirm" not in page, page
    assert f"predicted at least {found.predicted_us:.1f} us" in page


@pytest.mark.needs_compiler
@pytest.mark.parametrize(
    ("name", "reference", "make", "wanted", "said"),
    (
        ("swiglu", "swiglu_in_pytorch", "two_rows", "starts", "RIGHT"),
        ("swiglu", "swiglu_in_pytorch", "two_rows", "memory", "limited by starts; wanted: memory"),
        (
            "norm",
            "norm_in_pytorch",
            "rows",
            "memory",
            "what limits it is not known; wanted: memory",
        ),
    ),
)
def test_a_limit_can_be_wanted(name, reference, make, wanted, said, kernels):
    given = (getattr(kernels, one) for one in (name, reference, make))
    found = inspected(*given, large=60_000, tolerance=SUM, wanted=wanted)
    head, *rest = repr(found).splitlines()
    right = "at the sizes 3, 6, 9"
    assert head == (f"RIGHT {right}" if said == "RIGHT" else f"NOT YET: right {right}, but {said}")
    assert bool(found) == (said == "RIGHT") and rest


@pytest.mark.needs_compiler
@pytest.mark.parametrize("name", ("by_descriptor", "pipelined"))
def test_bytes_in_flight_are_not_made_up(name, kernels):
    """What is copied into shared memory is in no register, so it isn't seen when it arrives."""
    reference = kernels.double if name == "by_descriptor" else kernels.sums
    found = inspected(getattr(kernels, name), reference, kernels.rows, tolerance=SUM)
    assert "latency" not in found.times[0]
    assert "how many bytes are requested before the first is needed is not known" in repr(found)


@pytest.mark.needs_compiler
def test_copies_by_descriptor_are_loads_and_stores(kernels):
    page = repr(inspected(kernels.by_descriptor, kernels.double, kernels.rows))
    assert page.count(" 1 by tensor descriptor\n") == 2 and "none" not in page


def test_of_counts_that_are_only_roughly_known_no_time_follows(kernels):
    """Of random elements half are positive, in few rows not just half: it might be less, too."""
    given = kernels.where_positive, kernels.where_positive_in_pytorch, kernels.two_rows
    found = inspected(*given)
    page = repr(found)
    assert found and found.launches[0].bent == ("b_ptr",) and found.predicted_us is None
    assert "predicted not known" in page and "at least" not in page and not found.limit


def test_sectors_that_are_not_whole_have_a_cure(kernels):
    """All bytes of a transpose are counted; a tile at its edge has parts of sectors."""

    def at(small):
        return inspected(
            kernels.turned_by_tiles, kernels.turned_in_pytorch, kernels.rows, small=small
        )

    found = at(50)
    assert found and found.launches[0].bent == ("sectors of out_ptr",), found
    assert "sectors of out_ptr; choose small as a multiple of 8, so" in repr(found)
    assert at(48).predicted_us and not at(48).launches[0].bent


@pytest.mark.needs_compiler
def test_a_product_of_fp32_is_judged_and_told_as_a_gpu_takes_it(kernels):
    def by(precision, tolerance=None):
        function = partial(kernels.product, precision=precision)
        given = function, kernels.matmul_in_pytorch, kernels.square_matrices
        return inspected(*given, large=600, tolerance=tolerance)

    short = by("tf32")
    assert "on a GPU, tl.dot takes fp32 as TF32, with 10 of" in short.wrong, short
    assert "fp32 is taken as tf32: input_precision=" in repr(by("tf32", (1e-2, 1e-1)))
    whole = by("ieee")
    assert whole and "taken as" not in repr(whole), whole


def test_the_configuration_that_is_read_is_named(kernels):
    """Of a tuner it is the first one, and a GPU may take another."""
    page = repr(inspected(kernels.tuned, kernels.double, kernels.rows))
    assert "configuration 1 of 2: BLOCK=64, num_warps=4" in page and "predicted" in page


def test_rows_that_ids_choose_again_are_needed_once(kernels):
    """Few ids hardly repeat at small sizes; a straight line would have made each a new row."""
    in_the_table = 500

    def make(size, device):
        table = torch.randn(in_the_table, kernels.WIDTH, device=device)
        return table, torch.randint(in_the_table, (size,), device=device)

    found = inspected(kernels.gather, lambda table, ids: table[ids], make, large=6000)
    (launch,) = found.launches
    row, ids = 4 * kernels.WIDTH, 8 * 6000
    assert found and launch.requested == 6000 * 2 * row + ids
    assert launch.moved == (in_the_table + 6000) * row + ids
    assert launch.again == {"table_ptr": 6000 / in_the_table}
    assert "loaded again, from a cache at best: table_ptr 12 times" in repr(found)


def test_atomics(kernels):
    def total_in_pytorch(x):
        return x.sum()[None]

    found = inspected(kernels.total, total_in_pytorch, kernels.rows, tolerance=SUM)
    assert found and found.atomics == {"out_ptr": True} and "undefined" in repr(found)
    assert "lock" not in repr(found)
    assert [kernel.name for kernel in found.eager] == ["zeros"]
    beside = inspected(partial(kernels.total, at=64), total_in_pytorch, kernels.rows)
    assert "out of bounds" in beside.wrong and "out_ptr" in beside.wrong  # once exit 139


def test_few_bytes_of_a_sector_are_told(kernels):
    def make(size, device):
        return *kernels.rows(size, device), torch.randn(16 * size, kernels.WIDTH, device=device)

    def reference(a, b):
        return kernels.swiglu_in_pytorch(a, b.flatten()[::16].view_as(a))

    found = inspected(partial(kernels.swiglu, step=16), reference, make)
    assert "of the 32 bytes of a sector each load or store uses few" in str(found)


def test_a_sum_of_bf16_is_a_number(kernels):
    assert inspected(kernels.bf16_sums, lambda x: x.sum(-1), kernels.bf16_rows)


def test_wrong_kernels_name_the_program(kernels):
    past_the_end = partial(kernels.swiglu, step=2)
    past = inspected(past_the_end, kernels.swiglu_in_pytorch, kernels.two_rows)
    assert "reads element" in past.wrong and "b_ptr" in past.wrong
    other = inspected(kernels.swiglu, lambda a, b: a * b, kernels.two_rows)
    assert "first at index (0, 0)" in other.wrong and other.owner == "program 0"


@pytest.mark.parametrize(
    ("reference", "words"),
    (
        (lambda x: -2 * x, "x[0, 0] is multiplied by 2, and should be by -2"),
        (
            lambda x: 2 * x.flip(0),
            "From row 0 to 1, it moves by 300, and should by -300.",
        ),
        (lambda x: (2 * x, 1 / x), ""),  # of another number of results there is none
    ),
)
def test_a_wrong_result_gets_evidence(reference, words, kernels):
    found = inspected(kernels.tuned, reference, kernels.rows)
    assert words in found.evidence.words and bool(words) == ("because: " in repr(found)), found


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_a_load_without_other_is_told_as_the_cause(kernels, dtype):
    def make(size, device):
        return (torch.randn(size, 300, device=device, dtype=dtype),)

    found = inspected(kernels.from_the_left, kernels.from_the_left_in_pytorch, make)
    assert "first at index (0, 0): got nan" in found.wrong
    assert "With other=0 for the masked lanes of this load" in repr(found)
    other = inspected(kernels.swiglu, lambda a, b: a * b, kernels.two_rows)
    assert "masked off" not in repr(other)  # its last block is masked, and no such lane is stored


def test_results_within_results_and_inputs_are_compared(kernels):
    def inspect(function, reference):
        return inspected(function, reference, kernels.two_rows)

    def nested(a, b):
        return {"y": (kernels.swiglu(a, b),)}

    def twice_the_first(x, y):
        x *= 2

    assert "result 0" in inspect(nested, lambda a, b: {"y": (2 * a * b,)}).wrong
    assert "y: " in inspect(kernels.both, kernels.both_in_pytorch).wrong
    assert inspect(kernels.the_other, twice_the_first).wrong.startswith("at size 3: x: ")
    assert "returns no tensor" in inspect(kernels.swiglu, lambda a, b: None).refused
    overwritten = inspected(kernels.onto_its_input, kernels.double, kernels.rows)
    assert overwritten.wrong.endswith("an input is overwritten: x")  # and returned


@pytest.mark.needs_compiler
def test_the_loop_in_the_slow_branch_of_a_cosine_leaves_the_count(kernels):
    found = inspected(kernels.turned, lambda x: x * x.cos(), kernels.rows, tolerance=SUM)
    assert found.launches[0].instructions and "at least" not in repr(found)


def test_libdevice_and_a_float_argument(kernels):
    """Neither runs in Triton's own interpreter; here it is mended."""
    arguments = kernels.scaled_tanh, lambda x: torch.tanh(0.5 * x), kernels.rows
    found = inspected(*arguments, tolerance=SUM)
    assert found.launches[0].functions == {"tanh": 128 * found.launches[0].programs}


def asked(**work):
    """A launch of programs of one warp, as far as the time model looks at it."""
    return SimpleNamespace(moved=2**28, num_warps=1, **work)


def test_a_gpu_whose_sms_are_unknown_has_no_limit_by_latency():
    from rope_lab.judge.inspect.inspection import Inspected
    from rope_lab.judge.inspect.limits import gpu_of

    launch = asked(programs=2**14, instructions=1000, in_flight=4096, resident=0)
    assert set(Inspected.times(launch, gpu_of("NVIDIA H200"))) == {
        "memory",
        "starts",
        "instructions",
    }


def test_what_the_interpreter_cannot_do_is_no_mistake(kernels):
    found = inspected(lambda x: {}[kernels.tuned(x)], kernels.double, kernels.rows)
    assert not found.wrong and "KeyError" in found.refused
    rejected = ("gpu", "gfx942"), ("gpu", "H100"), ("tolerance", 1e-3), ("wanted", "bytes")
    for name, value in rejected:
        with pytest.raises(ValueError, match=name):
            inspected(kernels.tuned, kernels.double, kernels.rows, **{name: value})


# offsets at the large size, which no memory here holds


@pytest.mark.parametrize("name", slow_but(("of_a_block", "of_an_index"), "of_an_index"))
def test_an_offset_that_wraps_around_at_the_large_size_is_wrong(name, kernels):
    """8 million rows are 2.4 billion elements. On a GPU the kernel would write elsewhere."""
    function = getattr(kernels, name)
    reference, make = kernels.double, kernels.rows
    if name == "of_an_index":
        reference, make = kernels.taken, kernels.rows_and_index
    narrow = inspected(partial(function, wide=False), reference, make, large=8_000_000)
    assert not narrow and "wraps around in 32 bits, at: " in narrow.wrong
    assert f"of {name}_kernel reads element -" in narrow.wrong
    assert "at size 8000000: program " in narrow.wrong and "x_ptr, where 2 " in narrow.wrong
    assert ("row * D" if "index" in name else "i = (program") in narrow.wrong
    wide = inspected(partial(function, wide=True), reference, make, large=8_000_000)
    assert wide and not wide.unchecked and wide.launches, wide
    assert inspected(partial(function, wide=False), reference, make, large=7_000_000), "2^31"


def test_a_mask_of_the_last_block_wraps_around_too(kernels):
    """Every element is below 2^31, but not every lane of the last program."""

    def make(size, device):
        return (torch.randn(2**31 - 60 if size == 9000 else 100 * size, device=device),)

    def in_three_parts(wide):
        function = partial(kernels.of_a_block, wide=wide, parts=3)
        return inspected(function, kernels.double, make, large=9000)

    assert (
        "element -2 147 483 648 of x_ptr, which its mask leaves out" in in_three_parts(False).wrong
    )
    assert in_three_parts(True)


def test_what_a_wrapped_offset_leaves_out_is_not_known(kernels):
    """No address shows it: the mask is false there."""
    found = inspected(kernels.from_zero, kernels.double, kernels.rows, large=8_000_000)
    assert found and "nothing is loaded or stored then, at: i = tl.program_id" in found.unchecked
    assert not inspected(kernels.from_zero, kernels.double, kernels.rows).unchecked


def test_numbers_that_wrap_around_on_purpose_are_no_mistake(kernels):
    found = inspected(kernels.randomly, kernels.double, kernels.rows, large=8_000_000)
    assert found and not found.unchecked, found


def test_what_is_not_known_of_offsets_is_said(kernels):
    found = inspected(kernels.often, kernels.double, kernels.rows, large=8_000_000)
    assert found and "whether offsets fit into 32 bits isn't known: " in repr(found)
    assert found.measured_us is None  # on a GPU it would leave its tensors, and end CUDA's calls
    assert not inspected(kernels.often, kernels.double, kernels.rows).unchecked  # small tensors


SOLUTIONS = {  # of a notebook, with a size of more than 2^31 elements for each exercise
    "13_a_kernel_of_your_own": (300_000, 300_000, 500_000, 1_200_000, 600_000),
    "14_into_the_cache": (2_200_000,),
}


@pytest.mark.parametrize("name", slow_but(SOLUTIONS, "14_into_the_cache"))
def test_the_worked_solutions_index_in_64_bits(name, tmp_path, monkeypatch, kernels):
    import rope_lab as lab

    page = json.loads((NOTEBOOKS / f"solutions/{name}_solutions.ipynb").read_text("utf-8"))
    cells = ["".join(cell["source"]) for cell in page["cells"] if cell["cell_type"] == "code"]
    names, pages, sizes = {"__name__": "__main__"}, [], iter(SOLUTIONS[name])
    inspect = lab.inspect

    def at_a_large_size(*given, small, large, wanted=""):
        pages.append(inspect(*given, small=small, large=next(sizes)))

    monkeypatch.setattr(lab, "inspect", at_a_large_size, raising=False)
    for number, text in enumerate(cells):
        path = tmp_path / f"cell_{number}.py"
        path.write_text(text, encoding="utf-8")
        exec(compile(text, path, "exec"), names)
    assert len(pages) == len(SOLUTIONS[name])
    assert all(found and not found.unchecked for found in pages), pages


def test_several_launches_and_pytorch_between_them(kernels):
    def two_in_pytorch(x):
        return 2 * kernels.norm_in_pytorch(x)

    found = inspected(kernels.two_launches, two_in_pytorch, kernels.rows, tolerance=SUM)
    assert [launch.kernel for launch in found.launches] == ["norm_kernel", "tuned_kernel"]
    alone = inspected(kernels.tuned, kernels.double, kernels.rows)
    assert alone.launches[0].programs == -(-6000 * kernels.WIDTH // 64)  # first of two tiles
    copied = inspected(lambda x: kernels.tuned(x + 0.0), kernels.double, kernels.rows)
    assert [kernel.name for kernel in copied.eager] == ["add"]
    assert copied.predicted_us > alone.predicted_us + 1


@pytest.mark.needs_compiler
def test_a_dot_is_not_in_the_time_model(kernels):
    found = inspected(
        kernels.matmul, kernels.matmul_in_pytorch, kernels.matrices, tolerance=(1e-2, 1e-2)
    )
    (launch,) = found.launches
    assert launch.flops == 2 * 32 * 6000 * 64 * 32
    assert "how long tensor cores take is not known" in repr(found)
    assert launch.compiled.loads  # into shared memory


def test_what_cannot_be_known_is_a_sentence(kernels):
    def asks_its_values(x):
        return kernels.tuned(x) if x.sum().item() else x

    asks = inspected(asks_its_values, kernels.double, kernels.rows)
    assert asks.ok and "without memory" in asks.refused and not asks.launches
    none = inspected(kernels.double, kernels.double, kernels.rows)
    assert none.refused == "no kernel is launched"
    unknown = inspected(kernels.tuned, kernels.double, kernels.rows, gpu="sm_80")
    assert unknown.launches and not unknown.times and unknown.predicted_us is None
    assert "the time is not known" in repr(unknown)
    with pytest.raises(ValueError, match="large >= 3 small"):
        inspected(kernels.tuned, kernels.double, kernels.rows, large=8)


@pytest.mark.needs_compiler
def test_registers_of_a_gpu_without_a_record_are_read(kernels, monkeypatch):
    # somebody may have recorded a T4
    monkeypatch.setattr("rope_lab.profiling.machines.read", lambda path: {})
    found = inspected(kernels.tuned, kernels.double, kernels.rows, gpu="sm_75")
    page = repr(found)
    assert "compiled for sm_75" in page and 0 < found.launches[0].resident <= 16
    assert "sm_75: the time is not known" in page and "exact" not in page


def test_the_limits_of_a_recorded_gpu():
    from rope_lab.judge.inspect.inspection import Inspected
    from rope_lab.judge.inspect.limits import gpu_of, limit_of

    gpu, other = gpu_of("NVIDIA H200"), gpu_of("NVIDIA H100 80GB HBM3")
    fastest = gpu_of("sm_90").machine.bytes_a_us  # of all that are recorded
    assert fastest >= gpu.machine.bytes_a_us > other.machine.bytes_a_us
    assert not gpu_of("sm_61").machine  # Triton compiles nothing for it, so it has no record
    launches = {
        "memory": asked(programs=2**14, instructions=1000, in_flight=4096, resident=16),
        "starts": asked(programs=2**21, instructions=10, in_flight=4096, resident=16),
        "instructions": asked(programs=2**16, instructions=10_000, in_flight=4096, resident=16),
        "latency": asked(programs=264, instructions=None, in_flight=1024, resident=16),
    }
    for limit, launch in launches.items():
        assert limit_of(Inspected.times(launch, gpu)) == limit
    assert gpu.copy_us(2**29) == pytest.approx(2**29 / gpu.machine.bytes_a_us, rel=0.05)


@pytest.mark.gpu
def test_a_gpu_that_is_here_is_measured(kernels):
    found = inspected(kernels.swiglu, kernels.swiglu_in_pytorch, kernels.two_rows, large=60_000)
    assert found.measured_us > 0
