"""The fast path hands the driver exactly what Triton's JIT hands it, and serves no other call.

On a machine without a GPU a CUDA driver that records launches tells (`recording_driver/`), wherever
there is a C compiler. Where there is a GPU, every other test takes the fast path too.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rope_kernels
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb
from yardstick import assert_rounded_once, rotate_fp64

triton = pytest.importorskip("triton", reason="needs Triton")
HERE = Path(__file__).parent / "recording_driver"
recorded = pytest.mark.skipif(
    torch.cuda.is_available() or shutil.which("gcc") is None,
    reason="needs gcc, and no real driver",
)
KNOWN = "3.5", "3.6", "3.7", "3.8", "3.9"  # releases of Triton, whose C function is taken


@pytest.fixture(scope="module")
def run_child(tmp_path_factory):
    """Run `child.py` with the recording driver, and return what it printed."""
    folder = tmp_path_factory.mktemp("driver")
    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    library = folder / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", f"-I{headers}", "-o", library, HERE / "libcuda.c"]
    subprocess.run(command, check=True)
    (folder / "libcuda.so").symlink_to(library)  # Triton 3.5 links its launchers with -lcuda

    def before(name, *values):
        return os.pathsep.join([*map(str, values), *filter(None, [os.environ.get(name)])])

    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", folder),
        "TRITON_LIBCUDA_PATH": str(folder),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": before("PYTHONPATH", Path(rope_kernels.__file__).parent.parent),
    }

    def run(*arguments, fast_path="1", **more):
        child = [sys.executable, HERE / "child.py", *arguments]
        given = environment | {"ROPE_KERNELS_FAST_PATH": fast_path} | more
        done = subprocess.run(child, env=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def by_c_functions(run_child):
    """What a child tried by Triton's C functions, where we know them."""
    return run_child("private")


@pytest.fixture(scope="module", params=("private", "handle"))
def noted(request, run_child, by_c_functions):
    """The same, and what another one tried by handles alone."""
    found = by_c_functions if request.param == "private" else run_child(request.param)
    return {"way": request.param} | found


@recorded
def test_the_c_function_where_it_is_known_and_else_the_handle(noted):
    known = triton.__version__.rpartition(".")[0] in KNOWN
    assert bool(noted["by handle"]) == (noted["way"] == "handle" or not known)


@recorded
def test_the_driver_gets_the_same_both_ways(noted):
    assert len(noted["cases"]) >= 28
    for name, ways in noted["cases"].items():
        whole, fast = dict(ways["whole"]), dict(ways["fast"])
        assert (whole.pop("whole way"), fast.pop("whole way")) == (1, 0), name
        assert whole == fast, name
        assert fast["launches"] == 1 and fast["its own stream"], name
        assert "unknown" not in [value for _, value in fast["parameters"]], name
    # addresses are told from each other, or this would compare nothing with nothing
    parameters = dict(noted["cases"]["q and k"]["fast"]["parameters"])
    assert [parameters[name] for name in ("q_ptr", "k_ptr", "q_out_ptr", "k_out_ptr")] == [
        *("q", "k", "out 0", "out 1")
    ]
    assert parameters["table_ptr"] == "freqs"


UNKNOWN_VERSIONS = "3.4.0", "3.99.0", "4.0", "3.7.0+git5b1a2c3d", "no version"
FOUND = {  # what a child tried -> what it has to find
    # launches, and whole ways: forward, backward, and the sum of the weights' gradients
    "norm with gradients": [[3, 3], [3, 0], [3, 0]],
    "with a profiler's hook": {"seen": 3, "whole way without": 0},
    "debug compiles another kernel": True,
    "another backend": [1, 1, 1],
    "enable_fp_fusion": [True],  # every launch says it: Triton 3.10 changes the default
    "unknown versions": {version: [[1, 0, 0], ["rope_kernel"]] for version in UNKNOWN_VERSIONS},
    "other launchers": {
        "WithoutPrivateNames": [[1, 0, 0], []],
        "WithMemory": [[1, 0, 0], [1, 1, 1]],  # as much as each program asks for, at every launch
    },
}


@recorded
@pytest.mark.parametrize("tried", FOUND)
def test_what_a_child_finds(tried, noted):
    assert noted[tried] == FOUND[tried]


@recorded
@pytest.mark.parametrize("tried", ("output off by one", "another current device"))
def test_what_goes_the_whole_way(tried, noted):
    assert (noted[tried]["whole way"], noted[tried]["launches"]) == (1, 1)


@recorded
def test_aligned_then_off_by_one_then_aligned(noted):
    aligned, off, aligned_again = noted["by turns"]
    assert aligned["kernel"] == aligned_again["kernel"] != off["kernel"]
    assert [x["whole way"] for x in noted["by turns"]] == [0, 0, 0]


@recorded
def test_forward_and_backward_new_and_in_place_are_four_kernels(noted):
    assert [x["whole way"] for x in noted["flags"]] == [0] * 4
    assert len({x["kernel"] for x in noted["flags"]}) == 4


@recorded
def test_the_fast_path_can_be_switched_off(run_child):
    assert run_child("calls", fast_path="0") == [1, 1, 1]


@recorded
@pytest.mark.parametrize(
    "name", ("pre-run hook", "debug", "enter hook", "exit hook", "instrumentation", "stages")
)
def test_hooks_and_knobs_are_honored_at_every_launch(name, noted):
    """Set after the first call or before it, and cleared: three calls each time."""
    if name not in noted["hooks and knobs"] and triton.__version__.startswith("3.5."):
        pytest.skip("not in Triton 3.5")
    quiet, honored = [1, 0, 0], [1, 1, 1]
    assert noted["hooks and knobs"][name] == [quiet, honored, quiet, honored, quiet]


@recorded
def test_a_kernel_without_a_handle_goes_the_whole_way_with_one_warning(noted):
    told = noted["without a handle"]
    assert told["whole ways"] == [1, 1, 1, 1]
    (warning,) = told["warnings"]
    assert "Triton 99.0.0" in warning and "not subscriptable" in warning


@recorded
def test_an_error_of_the_driver_is_raised_after_one_launch(noted):
    refused = noted["refused by the driver"]
    assert "Triton Error [CUDA]" in refused["error"]
    assert (refused["launches"], refused["whole way"]) == (1, 0)
    assert refused["next"] == [0, 0, 0]


@recorded
def test_the_machine_code_does_not_hang_on_tritons_default(run_child, by_c_functions):
    """Of both kernels, forward and backward, called and through torch.compile's operator."""
    one, other = by_c_functions["code"], run_child("code", TRITON_DEFAULT_FP_FUSION="0")
    assert one["default"] is True and other["default"] is False
    names = ["rope_kernel", "whole_rows_kernel"]
    assert sorted({name for name, *_ in one["ours"]}) == names and len(one["ours"]) == 4
    assert one["ours"] == other["ours"]
    assert all(fused for _, _, fused in one["ours"])
    assert one["left to Triton"] != other["left to Triton"]  # or this would compare nothing


@pytest.mark.gpu
def test_offsets_by_turns_on_the_gpu():
    """Aligned, off by one element, aligned, twice: the second time by the fast path."""
    freqs = RotaryPositionEmbedding(32).cuda()(6)
    memory = torch.randn(6 * 2 * 4 * 32 + 1, device="cuda")
    for _ in range(2):
        for offset in (0, 1, 0):
            t = memory[offset : offset + 6 * 2 * 4 * 32].view(6, 2, 4, 32)
            assert_rounded_once(apply_rotary_pos_emb(t, freqs), rotate_fp64(t, freqs, "sbhd"))
