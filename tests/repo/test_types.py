"""A type checker accepts the package, right calls of it and our pages' Python, and finds misspelt
calls."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import rope_kernels
from ops import PUBLIC
from processes import ROOT
from test_readme import BLOCKS

TYPED_CALLS = Path(__file__).with_name("typed_calls.py")
PACKAGE = Path(rope_kernels.__file__).parent

WRONG = {  # each is one line that mypy has to refuse, with a word of its complaint
    "rope_qk(t, t, rope, positon_ids=ids)": '"positon_ids"',
    "apply_rotary_pos_emb(t, rope, start_position=ids)": '"start_position"',
    "rope_fw(t, rope, in_place=True)": '"in_place"',
    "RotaryPositionEmbedding(8, base=10.0)": '"base"',
    'apply_rotary_pos_emb(t, rope, "shbd")': "shbd",
    'rope_fw(t, rope, inplace="False")': '"inplace"',
    "rope_bw(t, None)": '"None"',
    'rope_fw(t, rope, output_pairing="halves")': "halves",
    'rope_fw(t, rope, rotary_dim="8")': '"rotary_dim"',
    "rope_qk(t, rope)": '"freqs"',
    'rope_fw(t, rope, rounding="twice")': "twice",
    'rope_fw(t, rope, cp_order="ring")': "ring",
    'norm_rope(t, None, rope, rounding="upcast")': "upcast",
    "qk_norm_rope(t, t, rope, weight_ofset=1)": '"weight_ofset"',
    "rope_to_cache(t, t, t, rope, t, t, ids, cp_size=2)": '"cp_size"',
    "split_qkv_rope(t, rope, 8, 2, inplace=True)": '"inplace"',
    "rope_kernels.huggingface.patch('llama', norm=True)": '"norm"',
    "rope_kernels.hugging_face": '"hugging_face"',
}


VALUES = {  # of arguments without a default, or where it says little; 4 for an integer
    **dict.fromkeys(("t", "q", "k", "v", "x", "grad", "k_cache", "v_cache", "qkv"), "t"),
    **dict.fromkeys(("weight", "q_weight", "k_weight", "rotary_dim"), "None"),
    **dict.fromkeys(("cu_seqlens", "start_positions", "position_ids", "slot_mapping"), "ids"),
    **{"freqs": "rope", "tensor_format": '"bshd"', "interleaved": "True", "sections": "[4]"},
    **{"path": '"operator"', "reason": '"words"'},
}


def call_with_every_keyword(name):
    parameters = inspect.signature(PUBLIC[name]).parameters.values()
    values = {
        x.name: "4" if x.annotation is int else VALUES.get(x.name, repr(x.default))
        for x in parameters
    }
    return f"{name}({', '.join(f'{key}={value}' for key, value in values.items())})"


def lines_of_mypy(folder, *arguments, **environment):
    """What `mypy --strict` prints, in a process of its own."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("needs mypy")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-color-output", *arguments],
        cwd=folder,
        env={"PATH": "", **environment},
        capture_output=True,
        encoding="utf-8",
    )
    assert found.returncode in (0, 1), found.stdout + found.stderr
    return found.stdout.splitlines()


@pytest.mark.parametrize("system", ("linux", "win32", "darwin"))
def test_mypy_accepts_the_package_on_every_system(system, tmp_path):
    """Of the lab and the tools, only what Python's own modules have there is looked at.

    `tools/mutants.py` ends groups of processes, and runs on Linux and macOS alone.
    """
    options = (f"--platform={system}", f"--cache-dir={tmp_path}")
    *complaints, last = lines_of_mypy(ROOT, *options, "rope_kernels")
    assert complaints == [] and last.startswith("Success")
    tools = sorted(str(x) for x in (ROOT / "tools").glob("*.py") if x.stem != "mutants")
    others = ("rope_lab", "lab.py", *tools)
    apart = ("--config-file=", "--follow-imports=skip", *options, *others)
    found = [line for line in lines_of_mypy(ROOT, *apart) if "Module has no attribute" in line]
    assert found == []


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """What mypy prints of the right calls, the wrong ones and our pages', by file.

    It reads the package but reports nothing there, as for users who installed it.
    """
    folder = tmp_path_factory.mktemp("mypy")
    wrong = folder / "wrong_calls.py"
    start = "import torch\nimport rope_kernels\n"
    for room in (rope_kernels, rope_kernels.norms, rope_kernels.serving):
        start += f"from {room.__name__} import {', '.join(room.__all__)}\n"
    start += "\nt, ids, rope = torch.ones(1), torch.ones(1), RotaryPositionEmbedding(8)\n"
    wrong.write_text(start + "\n".join(WRONG) + "\n", encoding="utf-8")
    right = folder / "right_calls.py"
    called = [name for name in PUBLIC if is_called(name)]
    calls = "\n".join(map(call_with_every_keyword, called))
    right.write_text(f"{start}{calls}\n", encoding="utf-8")
    (folder / "rope_kernels").symlink_to(PACKAGE)
    blocks = [folder / f"{name}.py" for name in BLOCKS]
    for block, code in zip(blocks, BLOCKS.values(), strict=True):
        block.write_text(code, encoding="utf-8")
    # Most of transformers has no types, and reading it takes long. kernels isn't installed.
    settings = folder / "mypy.ini"
    skipped = "[mypy-transformers.*]\nfollow_imports = skip\n"
    skipped += "[mypy-kernels.*]\nignore_missing_imports = True\n"
    settings.write_text(f"[mypy]\n{skipped}", encoding="utf-8")
    options = "--follow-imports=silent", "--cache-dir=cache", f"--config-file={settings}"
    files = TYPED_CALLS, right, wrong, *blocks
    lines = lines_of_mypy(folder, *options, *files, MYPYPATH=str(folder))
    return {
        "right": [x for x in lines if TYPED_CALLS.name in x or right.name in x],
        "wrong": [line for line in lines if wrong.name in line],
        **{path.stem: [line for line in lines if path.name in line] for path in blocks},
        "first line": start.count("\n") + 1,
    }


def test_mypy_accepts_every_public_name_and_keyword(complaints):
    assert complaints["right"] == []


def test_mypy_accepts_the_blocks_of_our_pages(complaints):
    has_transformers = importlib.util.find_spec("transformers") is not None
    checked = [name for name in BLOCKS if has_transformers or "transformers" not in BLOCKS[name]]
    assert {name: complaints[name] for name in checked if complaints[name]} == {}


def test_mypy_flags_every_wrong_call(complaints):
    """Few tests share the one run of mypy: with many, two processes would run it."""
    for number, (call, word) in enumerate(WRONG.items()):
        place = f":{complaints['first line'] + number}: error: "
        found = [line for line in complaints["wrong"] if place in line]
        assert any(word in line for line in found), (call, found)


def is_called(name):
    """Whether a public name is a function or a class, and not the type of an argument."""
    public = PUBLIC[name]
    return inspect.isroutine(public) or inspect.isclass(public)
