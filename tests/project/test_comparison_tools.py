"""tools/compare_*.py and sass_digest.py: do they see what they must see?"""

import importlib.util
import inspect
import json
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch

import rope_kernels
from digested_calls import norms
from random_calls.draw import FUNCTIONS, KNOWN_MISTAKES, MISTAKES, NORM_MISTAKES, draw
from random_calls.make import Maker, arguments_of, sums_of_rows
from random_calls.mistakes import spoil
from random_calls.perform import digest
from rope_kernels.launch import launch_norm, norm_plan

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"


def load(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sass_digest, compare_speed, compare_with_pytorch = map(
    load, ("sass_digest", "compare_speed", "compare_with_pytorch")
)


def run_tool(name, *arguments):
    command = [sys.executable, TOOLS / f"{name}.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


# --- compare_results ---------------------------------------------------------------------------

# The negative of what `apply_rotary_pos_emb` returns for interleaved pairs
WRONG_SIGN = """
_right = apply_rotary_pos_emb


def apply_rotary_pos_emb(*arguments, **options):
    out = _right(*arguments, **options)
    return -out if options["interleaved"] else out
"""


# Results as they should be, and the negative gradient
WRONG_GRADIENT = """
import torch

_right = norm_rope


class _Negated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


def norm_rope(*arguments, **options):
    out = _right(*arguments, **options)
    return _Negated.apply(out) if out.requires_grad else out
"""


def is_plain(call, mode="no_grad"):
    """Not refused, and not without elements."""
    refused = call["mistake"] or call["inplace"] or call["module"]["interpolation"] or call["cp"]
    refused = refused or (call["one column per pair"] and not call["rotary_dim is named"])
    return not refused and call["mode"] == mode and all(call["sizes"].values())


def plain_calls(mode, are_broken):
    """Numbers of two calls that a copy answers wrongly, and of three that it answers rightly."""
    calls = {i: draw(0, i) for i in range(300)}
    calls = {i: call for i, call in calls.items() if is_plain(call, mode)}
    broken = [i for i, call in calls.items() if are_broken(call)][:2]
    return broken, [i for i, call in calls.items() if not are_broken(call)][:3]


def compare_with_a_copy(folder, mistake, numbers):
    ignored = shutil.ignore_patterns("__pycache__", "lab")
    shutil.copytree(ROOT / "rope_kernels", folder / "rope_kernels", ignore=ignored)
    with (folder / "rope_kernels" / "__init__.py").open("a") as file:
        file.write(mistake)
    return run_tool("compare_results", ROOT, folder, "--jobs", 1, "--only", *numbers)


def test_a_broken_copy_is_found_in_the_broken_calls_alone(tmp_path, needs_triton):
    broken, sound = plain_calls(
        "no_grad",
        lambda call: call["function"] == "apply_rotary_pos_emb" and call["interleaved"],
    )
    result = compare_with_a_copy(tmp_path, WRONG_SIGN, broken + sound)
    assert result.returncode == 1, result.stderr
    for index in broken:
        assert f"call {index}:\n" in result.stdout
    assert "2 differences in 5 calls" in result.stdout
    assert "differs: #0 0: old ['" in result.stdout


def test_a_wrong_gradient_of_a_norm_is_found(tmp_path, needs_triton):
    broken, sound = plain_calls(
        "grad",
        lambda call: call["function"] == "norm_rope" and call["grad of"]["t"],
    )
    sound = [i for i in sound if draw(0, i)["function"] != "norm_rope"]
    result = compare_with_a_copy(tmp_path, WRONG_GRADIENT, broken + sound)
    assert result.returncode == 1, result.stderr
    assert f"2 differences in {2 + len(sound)} calls" in result.stdout
    for index in broken:
        assert f"call {index}:\n" in result.stdout
    assert result.stdout.count("differs: #0 gradient of t: old ['") == 2


# --- compare_with_pytorch -----------------------------------------------------------------------


class Negated(compare_with_pytorch.PlainPyTorch):
    """Plain PyTorch that turns the other way."""

    def __getattr__(self, name):
        plain = super().__getattr__(name)
        if name not in FUNCTIONS:
            return plain
        return lambda *given, **options: plain(
            *given, **options | {"inverse": not options["inverse"]}
        )


def test_plain_pytorch_agrees_and_what_does_not_is_found(needs_triton):
    calls = {i: draw(0, i) for i in range(200, 1200)}
    quick = {"function": "apply_rotary_pos_emb", "double backward": False}
    plain = [i for i, call in calls.items() if is_plain(call, "no_grad") and call | quick == call]
    plain.sort(key=lambda i: calls[i]["sizes"]["s"] * calls[i]["sizes"]["d"])
    with_axes = [i for i in plain if calls[i]["module"]["ids of axes"]][:1]
    with_own = [i for i in plain if calls[i]["module"]["inv_freq"]][:1]
    for index in with_axes + with_own:
        assert compare_with_pytorch.differences(0, index, rope_kernels) == []
        found = compare_with_pytorch.differences(0, index, rope_kernels, Negated(rope_kernels))
        assert any(line.startswith("#0 0: differs by") for line in found)


def test_what_a_module_takes_is_drawn():
    drawn = [draw(0, i)["module"] for i in range(300)]
    assert {module["attention_factor"] for module in drawn} == {None, 1.25, 0.5}
    assert {module["inv_freq"] for module in drawn} == {None, "float32", "float64"}
    assert {max(module["axes"]) for module in drawn if module["axes"]} >= {0, 1, 2, 15}
    assert sum(module["ids of axes"] for module in drawn) > 5


# --- what is drawn ------------------------------------------------------------------------------


def test_a_call_depends_on_seed_and_number_alone_and_is_plain_data():
    calls = [draw(7, i) for i in range(300)]
    assert calls == [draw(7, i) for i in range(300)]
    assert calls != [draw(8, i) for i in range(300)]
    json.dumps(calls)


def test_every_argument_is_drawn_with_another_value_than_its_default():
    """An argument that is added to a function has to be drawn, too."""
    missing = {
        (function, name)
        for function in FUNCTIONS
        for name, parameter in inspect.signature(getattr(rope_kernels, function)).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for index in range(400):
        call = draw(0, index)
        made = arguments_of(call, rope_kernels, Maker(0, index, "cpu"))
        sums = made.sums or sums_of_rows(call, rope_kernels, made.tensors)
        options = made.options | ({"sumsq": sums} if sums else {})
        parameters = inspect.signature(getattr(rope_kernels, call["function"])).parameters
        for name, value in options.items():
            if isinstance(value, (torch.Tensor, list)) or value != parameters[name].default:
                missing.discard((call["function"], name))
    assert missing == set()


@pytest.mark.parametrize("mistake", [*MISTAKES, *NORM_MISTAKES, *KNOWN_MISTAKES])
def test_each_mistake_changes_a_call(mistake):
    """Of the calls that it applies to, in the first that are drawn."""
    for index in range(200):
        call = draw(0, index) | {"mistake": mistake}
        if mistake in NORM_MISTAKES and not call["norm"]:
            continue
        make = Maker(0, index, "cpu")
        made = arguments_of(call, rope_kernels, make)
        before = repr(made), repr(vars(made.freqs) if hasattr(made.freqs, "inv_freq") else None)
        try:
            spoilt = spoil(call, made, make)
        except (TypeError, ValueError):
            return  # refused where it was assigned
        after = vars(spoilt.freqs) if hasattr(spoilt.freqs, "inv_freq") else None
        if (repr(spoilt), repr(after)) != before:
            return
    raise AssertionError(f"{mistake} changes none of 200 calls")


def test_what_is_known_to_differ_is_drawn_only_when_asked_for():
    known = set(KNOWN_MISTAKES)
    assert not known & {draw(0, i)["mistake"] for i in range(1000)}
    drawn = {draw(0, i, ("flags",))["mistake"] for i in range(1000)}
    flags = {m for m, name in KNOWN_MISTAKES.items() if name == "flags"}
    assert known & drawn == flags


def test_a_digest_sees_one_bit_strides_and_dtype_but_no_kind_of_nan():
    x = torch.tensor([[1.0, float("nan")], [0.0, 2.0]])
    assert digest(x) == digest(x.clone())
    assert digest(x) == digest(torch.where(x.isnan(), -x, x))
    others = [x.double(), x.t().contiguous().t(), x.flatten(), x + torch.tensor([0.0, 2.0**-22])]
    others.append(torch.where(x == 0, -0.0, x))
    for other in others:
        assert digest(other) != digest(x)


# --- sass_digest -------------------------------------------------------------------------------

SASS = """\
.text.NAME:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_4:
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR6][R2.64] ;
        /*0020*/               @P1 BRA `(.L_x_4) ;
        /*0030*/                   STG.E.U16 desc[UR6][R2.64], R4 ;
"""


def test_names_and_numbers_of_labels_do_not_enter():
    one = sass_digest.normalized(SASS.replace("NAME", "rope_kernel"), "rope_kernel")
    other = SASS.replace("NAME", "other").replace("L_x_4", "L_x_9")
    assert sass_digest.normalized(other, "other") == one
    assert one[2] == "@P1 BRA (+-16)"
    moved = SASS.replace(".L_x_4:\n", "", 1) + ".L_x_4:\n        /*0040*/     EXIT ;\n"
    assert sass_digest.normalized(moved, "NAME")[2] == "@P1 BRA (+32)"


def test_opcodes_and_widths():
    opcodes = [sass_digest.opcode_of(line) for line in sass_digest.normalized(SASS, "NAME")]
    assert opcodes == ["LDC", "LDG.E.128", "BRA", "STG.E.U16"]
    assert sass_digest.widths("LDG", opcodes) == {"16": 1}
    assert sass_digest.widths("STG", [*opcodes, "STG.E", "STG.E.64"]) == {"2": 1, "4": 1, "8": 1}


KERNEL = {
    "sass": "a",
    "opcodes": "b",
    "registers": 40,
    "spilled": 0,
    "stack": 0,
    "shared": 0,
    "loads": {"16": 4},
    "stores": {"16": 4},
    "instructions": 300,
    "warps": 1,
}


def digests_of(grid=(8,), **changes):
    launch = {"kernel": "k", "grid": list(grid), "warps": 1}
    kernels = {"k": KERNEL | changes}
    return {"triton": "3", "target": "sm_90", "calls": {"table": [launch]}, "kernels": kernels}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({}, 0, "identical: 1 of 1"),
        ({"sass": "x"}, 0, "same opcodes: 1 of 1 calls\n    table"),
        ({"sass": "x", "opcodes": "x"}, 0, "same figures: 1 of 1 calls\n    table"),
        (
            {"sass": "x", "opcodes": "x", "registers": 41},
            1,
            "different: 1 of 1 calls\n    table: registers 40 -> 41",
        ),
        (
            {"sass": "x", "opcodes": "x", "instructions": 303},
            0,
            "within 1 %: 1 of 1 calls\n    table: instructions 300 -> 303",
        ),
        ({"sass": "x", "instructions": 297}, 0, "within 1 %: 1 of 1 calls"),
        ({"sass": "x", "instructions": 304}, 1, "different: 1 of 1 calls"),
        ({"sass": "x", "instructions": 296}, 1, "different: 1 of 1 calls"),
        ({"sass": "x", "loads": {"2": 32}}, 1, "loads {'16': 4} -> {'2': 32}"),
        ({"grid": (9,)}, 0, "other grid or number of warps: 1 calls\n    table"),
    ],
)
def test_calls_are_compared(changes, status, said, capsys):
    assert sass_digest.compare(digests_of(), digests_of(**changes)) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("figure", sass_digest.FIGURES)
def test_within_1_percent_is_said_of_no_other_figure(figure, capsys):
    """Not even beside an instruction more."""
    other = {"16": 4, "4": 1} if figure in ("loads", "stores") else 1000
    more = {"sass": "x", "opcodes": "x", "instructions": 301, figure: other}
    assert sass_digest.compare(digests_of(), digests_of(**more)) == 1
    assert "different: 1 of 1 calls" in capsys.readouterr().out


def test_a_call_that_is_missing_or_launches_twice_is_a_difference(capsys):
    missing, twice = digests_of(), digests_of()
    missing["calls"] = {}
    twice["calls"]["table"] *= 2
    assert sass_digest.compare(digests_of(), missing) == 1
    assert "in one file only: table" in capsys.readouterr().out
    assert sass_digest.compare(digests_of(), twice) == 1
    assert sass_digest.compare(digests_of(), digests_of() | {"triton": "4"}) == 2


NORM_FLAGS = {
    *("after", "rounds_cos_sin", "per_head", "inverse", "one_per_pair", "per_batch"),
    *("rows_outer", "interleaved", "reads_interleaved", "writes_interleaved"),
}
OF_ONE_KERNEL = (
    {"weights_last", "rounds_normal", "rounds_product", "fused", "rounds_products"},
    {"fold", "given", "packed"},
    set(),
)
NEVER = {"fast_sine", "over_positions"}  # the interpreter has none, and padded rows are not
ALWAYS_GIVEN = {"q", "q_out", "table"}, {"q_grad", "q", "q_rstd", "table"}, {"q_partial", "q_out"}


def test_every_branch_of_the_norms_kernels_is_digested(monkeypatch, whole_way, needs_triton):
    """Each flag both ways, each tensor that may be missing, and each dtype."""
    seen = {kernel: set() for kernel in (norm_plan.FORWARD, norm_plan.BACKWARD, norm_plan.SUM)}
    dtypes = set()

    def note(plan, tensors):
        given = {name: x is not None for name, x in tensors._asdict().items()}
        values = [x._asdict() for x in plan.constants.values() if isinstance(x, tuple)]
        fields = [field for value in values for field in value.items()]
        flags = {name: value for name, value in fields if isinstance(value, bool)}
        seen[plan.kernel] |= (given | flags).items()
        dtypes.add(tensors[0].dtype)

    monkeypatch.setattr(launch_norm, "run", note)
    calls = dict(norms.every_call(rope_kernels))
    cases = [name for name in calls if " | timed | " not in name]
    for name in cases:
        calls[name]()
    assert len(cases) > 300 and len(dtypes) == 4
    for found, more, always in zip(seen.values(), OF_ONE_KERNEL, ALWAYS_GIVEN, strict=True):
        names = {name for name, _ in found} - always - NEVER
        assert names >= (NORM_FLAGS | more if found is not seen[norm_plan.SUM] else set())
        assert {(name, value) for name in names for value in (False, True)} <= found


def test_the_norms_that_are_timed_are_digested():
    digested = {name for name, _ in norms.every_call(rope_kernels)}
    wanted = {f"norm | timed | {name}" for name in timed_norms()}
    assert wanted and wanted <= digested


def test_a_call_is_compiled_without_a_gpu(tmp_path):
    pytest.importorskip("triton", reason="needs Triton")
    output = tmp_path / "digests.json"
    name = "tests | half rotary, in place | rope_fw"
    result = run_tool("sass_digest", ROOT, "-o", output, "--only", name)
    assert result.returncode == 0, result.stderr
    digests = json.loads(output.read_text())
    (launch,) = digests["calls"][name]
    kernel = digests["kernels"][launch["kernel"]]
    assert set(kernel["stores"]) == {"16"} and 0 < kernel["registers"] <= 64, kernel
    assert launch["grid"] == [64], launch


# --- compare_speed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock", "old", "new", "said"),
    [
        ("device", 100.0, 100.9, "same"),
        ("device", 100.0, 101.1, "SLOWER"),
        ("device", 100.0, 98.0, "faster"),
        ("host", 10.0, 10.4, "same"),  # within half a microsecond
        ("host", 10.0, 10.6, "SLOWER"),
        ("host", 100.0, 102.9, "same"),  # within 3 %
        ("host", 100.0, 103.1, "SLOWER"),
    ],
)
def test_bars(clock, old, new, said):
    assert compare_speed.verdict(clock, old, new) == said


def test_a_slower_checkout_is_found_in_a_dry_run(tmp_path):
    pytest.importorskip("triton", reason="needs Triton")
    output = tmp_path / "speed.json"
    slow = "--dry-run", "--pretend-slowdown", 1.02, "--only", "headline bf16, on the fly"
    result = run_tool("compare_speed", ROOT, ROOT, *slow, "--rounds", 3, "-o", output)
    assert result.returncode == 1, result.stderr
    rows = json.loads(output.read_text())["rows"]
    assert [row["verdict"] for row in rows] == ["SLOWER"] * 2, rows
    assert all(1.01 < row["ratio"] < 1.03 and len(row["rounds"]["new"]) == 3 for row in rows)


def timed_norms():
    """Name -> case, of the calls with a norm."""
    cases = compare_speed.device_cases() | compare_speed.host_cases()
    return {name: case for name, case in cases.items() if case["norm"]}


def test_norms_are_timed_in_three_formats_both_ways_by_both_clocks():
    found = {
        (case["clock"], name.removeprefix("host: ").split(",")[0], case["tensor_format"], way)
        for name, case in timed_norms().items()
        for way in ("forward", "backward")
        if way in case["direction"] or case["direction"] == "both"
    }
    functions, formats = ("norm_rope", "qk_norm_rope"), ("sbhd", "bhsd", "thd")
    wanted = product(("device", "host"), functions, formats, ("forward", "backward"))
    assert found == set(wanted)


@pytest.mark.parametrize("name", timed_norms())
def test_a_call_with_a_norm_is_what_its_name_says(name, monkeypatch):
    pytest.importorskip("triton", reason="needs Triton")
    called, case = [], compare_speed.shrunk(timed_norms()[name])
    for function in ("norm_rope", "qk_norm_rope"):
        really = getattr(rope_kernels, function)
        monkeypatch.setattr(
            rope_kernels,
            function,
            lambda *x, name=function, really=really, **options: (
                called.append((name, x[-1], options)) or really(*x, **options)
            ),
        )
    results = compare_speed.make_call(case, "cpu")()
    ((function, tensor_format, options),) = called
    assert name.removeprefix("host: ").startswith(f"{function}, {tensor_format}")
    assert options.keys() <= {"interleaved", "inplace", "rotary_dim", "cu_seqlens"}  # old ones too
    assert ("cu_seqlens" in options) == (tensor_format == "thd")
    assert ("rotary_dim" in options) == ("table" in name)
    of_tensors = 1 + (function == "qk_norm_rope")
    if "backward" not in name:
        results = results if isinstance(results, tuple) else (results,)
        assert len(results) == of_tensors and not any(x.requires_grad for x in results)
    else:
        assert [x.dim() for x in results[of_tensors:]] == [1] * of_tensors  # of the weights
        assert [x.shape[-1] for x in results] == [16] * 2 * of_tensors
