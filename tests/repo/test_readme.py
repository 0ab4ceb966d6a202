"""Blocks of Python on our pages and examples of the API: each runs, and shows what is true.

A block asserts what it shows, or its test does: then it is in `CLAIMS`. Blocks for several ranks
run under torchrun. `test_types.py` has mypy check all of them.
"""

import doctest
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ops import PUBLIC
from processes import ROOT, run_python
from rope_kernels import RotaryPositionEmbedding, rope_qk
from rope_kernels.huggingface import unpatch


def blocks_of(page):
    """The blocks of Python on a page, by its name and their order."""
    found = re.findall(r"```py\w*\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    return {f"{Path(page).stem.lower()}_{number}": code for number, code in enumerate(found)}


# Its code is that of the rungs, which test_seven_kernels.py compares and has judged.
OF_RUNGS = ROOT / "docs/seven_kernels.md"
DOCS = sorted({*ROOT.glob("docs/*.md")} - {OF_RUNGS})
PAGES = ["README.md", *(f"docs/{path.name}" for path in DOCS)]
BLOCKS = {name: code for page in PAGES for name, code in blocks_of(page).items()}
ON_RANKS = [name for name, code in BLOCKS.items() if "torch.distributed" in code]
IN_ONE_PROCESS = [name for name in BLOCKS if name not in ON_RANKS]

LOGGING = {"package_2": "package"}  # block -> its page


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    unpatch()
    torch.compiler.set_stance("default")
    torch.compiler.reset()


# what blocks show without an assertion of their own


def both_calls_rotate_and_the_last_in_place(q, k, q1, q2, k2, **others):
    torch.testing.assert_close(q1, q2, rtol=0, atol=0.05)
    assert torch.equal(q, q2) and torch.equal(k, k2)


def all_is_patched(patched, **others):
    assert patched.replaced and not patched.left


def the_table_at_these_positions_gives_the_same(rope, position_ids, q, q1, **others):
    cos, sin = (x.repeat(1, 1, 2) for x in rope.cos_sin(position_ids))
    by_table, _ = rope_qk(q, q, (cos, sin), tensor_format="bshd")
    torch.testing.assert_close(q1, by_table)
    assert rope.attention_factor != 1  # of YaRN


def pairs_turn_by_the_positions_on_their_axes(rope, image, q, q1, **others):
    angle = image[[0] * 16 + [1] * 24 + [2] * 24].movedim(0, -1) * rope.inv_freq
    table = torch.cat((angle, angle), -1)
    want = rope_qk(q, q, (table.cos(), table.sin()), tensor_format="bhsd")[0]
    torch.testing.assert_close(q1, want, rtol=1e-4, atol=1e-4)


def rows_have_norm_1(q1, q2, q3, **others):
    """A rotation keeps it."""
    for rows in (q1, q2, q3):
        squares = rows.float().square().mean(-1)
        torch.testing.assert_close(squares, torch.ones_like(squares), rtol=0, atol=0.02)


def keys_and_values_are_in_their_slots(rotate, rotate_and_cache, **others):
    """In caches as vLLM's, by block, and as SGLang's, by slot."""
    heads, size = 2, 64
    cos, sin = RotaryPositionEmbedding(size).cos_sin(128)
    table = torch.cat((cos[:, : size // 2], sin[:, : size // 2]), -1)
    positions, slots = torch.tensor([7, 8, 9, 0, 1]), torch.tensor([23, 24, 25, 80, 81])
    query, key, value = torch.randn(5, 8 * size), *torch.randn(2, 5, heads * size)
    rotated_query, rotated_key = query.clone(), key.clone()
    rotate(positions, rotated_query, rotated_key, size, table, is_neox=True)
    assert not rotated_query.equal(query)
    by_block = torch.zeros(2, 10, 16, heads, size)
    by_slot = torch.zeros(2, 160, heads, size)[:, :, None]
    for caches in (by_block.unbind(0), by_slot.unbind(0)):
        q = query.clone()
        rotate_and_cache(positions, q, key, value, size, table, True, *caches, slots)
        assert q.equal(rotated_query)
        for cache, wanted in zip(caches, (rotated_key, value), strict=True):
            assert cache.flatten(0, 1)[slots].flatten(1).equal(wanted)


CLAIMS = {
    "readme_0": both_calls_rotate_and_the_last_in_place,
    "hugging_face_0": all_is_patched,
    "frameworks_0": keys_and_values_are_in_their_slots,
    "positions_0": the_table_at_these_positions_gives_the_same,
    "positions_1": pairs_turn_by_the_positions_on_their_axes,
    "package_1": rows_have_norm_1,
}


@pytest.mark.filterwarnings("ignore")  # of transformers
@pytest.mark.parametrize("name", IN_ONE_PROCESS)
def test_a_block_runs_by_itself(name, tmp_path, monkeypatch):
    code = BLOCKS[name]
    assert "assert" in code or name in CLAIMS or name in LOGGING
    if "huggingface" in code or "transformers" in code:
        pytest.importorskip("transformers")
    if "from kernels import" in code:
        pytest.importorskip("kernels.layer", reason="needs the package kernels")
        monkeypatch.chdir(tmp_path)  # It writes a folder.
    path = tmp_path / f"{name}.py"
    # 6 positions, because the interpreter is slow
    path.write_text(code.replace("4096", "6"), encoding="utf-8")
    found = runpy.run_path(str(path), run_name=name)  # a module, which Inductor looks for
    CLAIMS.get(name, dict)(**{key: x for key, x in found.items() if not key.startswith("__")})


@pytest.mark.parametrize("name", LOGGING)
def test_a_block_logs_what_its_page_shows(name):
    """On a CPU, without an interpreter."""
    if "transformers" in BLOCKS[name]:
        pytest.importorskip("transformers")
    page = (ROOT / f"docs/{LOGGING[name]}.md").read_text("utf-8")
    (shown,) = re.findall(r"```text\n(INFO.*?)```", page, re.DOTALL)
    to_stdout = "import sys\nsys.stderr = sys.stdout\n"
    printed = run_python(to_stdout + BLOCKS[name], CUDA_VISIBLE_DEVICES="")
    assert [x for x in printed.splitlines() if "rope_kernels:" in x] == shown.splitlines()


# blocks for several ranks

SECONDS, GRACE = 240, 50  # of a launch; for the launcher to end its ranks, which takes it 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_RANKS)
def test_a_block_runs_on_two_ranks(name, tmp_path):
    """On two GPUs through NCCL, else on the CPU through gloo, in plain PyTorch."""
    assert "assert" in BLOCKS[name]
    (tmp_path / "block_of_a_page.py").write_text(BLOCKS[name], encoding="utf-8")
    launcher = ["torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command = [sys.executable, "-m", *launcher, "--nproc-per-node", "2", "-m", "block_of_a_page"]
    paths = map(str, (tmp_path, ROOT, os.environ.get("PYTHONPATH", "")))
    variables = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    variables.pop("TRITON_INTERPRET", None)
    if torch.cuda.device_count() < 2:  # no rank sees a GPU, and gloo looks for no other machine
        variables |= {"CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo"}
    launch = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, encoding="utf-8")
    try:
        _, said = launch.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        launch.terminate()  # ranks have sessions of their own, and only the launcher knows them
        _, said = launch.communicate(timeout=GRACE)
    assert launch.returncode == 0, said


CALLED = [name for name, it in PUBLIC.items() if inspect.isfunction(it) or inspect.isclass(it)]


@pytest.mark.parametrize("name", CALLED)
def test_an_example_of_the_api_runs(name):
    """Every public function and class has one."""
    names = PUBLIC | {"torch": torch}
    (example,) = doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, globs=names)
    assert example.examples and not doctest.DocTestRunner().run(example).failed


def explained_by(function):
    """The arguments that a docstring has words on."""
    _, _, text = inspect.getdoc(function).partition("\nArgs:\n")
    names = re.findall(r"^    (\w+(?:, \w+)*): ", text.split("\n\n")[0], re.MULTILINE)
    return {name for together in names for name in together.split(", ")}


@pytest.mark.parametrize("name", [name for name in CALLED if inspect.isfunction(PUBLIC[name])])
def test_help_explains_every_argument_or_names_the_function_that_does(name):
    text = inspect.getdoc(PUBLIC[name])
    others = [explained_by(other) for key, other in PUBLIC.items() if f"`{key}`" in text]
    arguments = set(inspect.signature(PUBLIC[name]).parameters)
    assert arguments - explained_by(PUBLIC[name]) <= set().union(*others)


def test_help_of_the_first_call_explains_every_argument():
    assert explained_by(rope_qk) == set(inspect.signature(rope_qk).parameters)
