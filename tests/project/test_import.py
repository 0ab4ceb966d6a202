"""What importing loads, and that the package works where Triton is absent.

Each case runs in a process of its own: here Triton is loaded long since.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

from rope_kernels.machine.engine import interpreter_is_on

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "rope_lab"


def run_python(code, **variables):
    """Run code in a fresh process, as a reader who has set nothing; what it printed."""
    environment = {name: value for name, value in os.environ.items() if "TRITON" not in name}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment |= {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", **variables}
    result = subprocess.run(
        [sys.executable, "-c", dedent(code)], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("said", ("1", "true", "Yes", "on", "Y", "0", "off", "no", "2", ""))
def test_the_interpreter_is_on_where_triton_says_so(said, monkeypatch):
    knobs = pytest.importorskip("triton.knobs", reason="needs Triton")
    monkeypatch.setenv("TRITON_INTERPRET", said)
    assert interpreter_is_on() == knobs.runtime.interpret


# what is loaded


def test_importing_needs_torch_alone_and_changes_nothing():
    """Nor does a call without Triton's interpreter, which the reference answers with one rounding.

    The import of torch.distributed.tensor takes half a second, that of transformers longer.
    """
    run_python("""
        import os
        import sys
        import types
        import torch
        environment, loaded = dict(os.environ), set(sys.modules)
        import rope_kernels
        new = {name.partition(".")[0] for name in set(sys.modules) - loaded}
        assert new - sys.stdlib_module_names - {"torch"} == {"rope_kernels"}, new
        assert dict(os.environ) == environment

        for name in ("rotate", "rotate_inplace"):  # operators for torch.compile
            operator = getattr(torch.ops.rope_kernels, name)
            assert "start_positions" in str(operator.default._schema)
        from rope_kernels.huggingface import patch
        assert patch(types.ModuleType("empty")).replaced == ()

        from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, norm_rope
        from rope_kernels import reference, rope_bw, rope_fw, rope_qk
        t, rope = torch.randn(3, 2, 2, 8), RotaryPositionEmbedding(8)
        rope_qk(t, t, rope)
        norm_rope(t, None, rope)
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            t, freqs = torch.randn(7, 2, 3, 10, dtype=dtype), 10 * torch.randn(7, 1, 1, 6)
            options = {"round_once": True}
            want = reference.apply_rotary_pos_emb(t, freqs, **options)
            transposed = reference.apply_rotary_pos_emb(t, freqs, transpose=True, **options)
            assert torch.equal(rope_fw(t, freqs), want)
            assert torch.equal(rope_bw(t, freqs), transposed)
            leaf = t.clone().requires_grad_()
            out = apply_rotary_pos_emb(leaf, freqs)
            assert torch.equal(out, want)
            assert torch.equal(torch.autograd.grad(out, leaf, t)[0], transposed)
        rounded_often = reference.apply_rotary_pos_emb(t.bfloat16(), freqs)
        assert not torch.equal(rope_fw(t.bfloat16(), freqs), rounded_often)
        for name in ("triton", "transformers", "torch.distributed.tensor"):
            assert name not in sys.modules, name
    """)


def test_only_a_launch_loads_triton():
    """Not the module's table, errors, vmap, the unfused function, or its backward."""
    run_python(
        """
        import sys
        import torch
        from torch import func
        from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_qk
        t, freqs = torch.randn(3, 2, 2, 8, requires_grad=True), RotaryPositionEmbedding(8)
        for call in (apply_rotary_pos_emb, rope_qk):
            try:
                call(t, t, freqs(2)) if call is rope_qk else call(t, freqs(2))
            except ValueError:
                pass
            else:
                raise AssertionError("a table that is too short will do")
        func.vmap(lambda t: apply_rotary_pos_emb(t, freqs))(t[None])
        rope_qk(t, t, freqs, fused=False)
        apply_rotary_pos_emb(t, freqs, fused=False).sum().backward()
        assert "triton" not in sys.modules
        apply_rotary_pos_emb(t, freqs)
        assert "triton" in sys.modules
        """,
        TRITON_INTERPRET="1",
    )


# without Triton

WITHOUT_TRITON = """
import sys
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, path=None, target=None: (
    None if name.partition(".")[0] == "triton" else find_spec(name, path, target)
))
try:
    import triton
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("Triton is there all the same")
"""


def run_without_triton(code, **variables):
    return run_python(WITHOUT_TRITON + dedent(code), **variables)


def test_without_triton_everything_works_on_the_cpu():
    run_without_triton(
        """
        import torch
        from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, reference
        from rope_kernels import rope_bw, rope_fw, rope_qk
        freqs = RotaryPositionEmbedding(4)(6)
        t = torch.randn(6, 1, 2, 6, dtype=torch.float64, requires_grad=True)
        want = reference.apply_rotary_pos_emb(t, freqs)
        transposed = reference.apply_rotary_pos_emb(t, freqs, transpose=True)
        for fused in (True, False):
            assert torch.equal(apply_rotary_pos_emb(t, freqs, fused=fused), want)
        assert torch.equal(rope_fw(t, freqs), want)
        assert torch.equal(rope_bw(t, freqs), transposed)
        for function in (rope_fw, rope_bw, apply_rotary_pos_emb):
            function(t.detach()[:, 0], freqs, "thd", cu_seqlens=torch.tensor([0, 2, 5]))
        x, module = t.detach(), RotaryPositionEmbedding(4)
        tables = [(f.cos(), f.sin()) for f in (freqs[:, 0, 0], freqs[:, 0, 0][None])]
        options = {"position_ids": torch.tensor([[5, 0, 1, 1, 2, 3]])}, {}
        options += {"start_positions": torch.tensor([2])}, {"cp_size": 3, "cp_rank": 1}
        for kind in (freqs, *tables, module):
            for keywords, length in zip(options, (6, 6, 4, 2)):
                table = module.turns(None) if kind is module else kind
                x = t.detach()[:length]
                want = reference.apply_rotary_pos_emb(x, table, round_once=True, **keywords)
                assert torch.equal(apply_rotary_pos_emb(x, kind, **keywords), want)
                for inplace in (False, True):
                    q, k = x.clone(), x[:, :, :1].clone()
                    results = rope_qk(q, k, kind, inplace=inplace, **keywords)
                    assert (results[0] is q) == inplace
                    assert torch.equal(results[0], want) and torch.equal(results[1], want[:, :, :1])
        table = freqs.double().clone().requires_grad_()
        assert torch.autograd.gradcheck(apply_rotary_pos_emb, (t, table))
        assert torch.autograd.gradgradcheck(apply_rotary_pos_emb, (t, table))
        """,
        TRITON_INTERPRET="1",
    )


def test_without_triton_the_lab_says_in_one_sentence_what_is_needed(tmp_path):
    """And it judges functions of PyTorch, whose versions a figure still names."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TRITON)  # for the process that judges, too
    (tmp_path / "answers.py").write_text(
        "import torch\n\n"
        "def right(x):\n    a, b = x.chunk(2, -1)\n    return torch.cat((-b, a), -1)\n\n"
        "def wrong(x):\n    return 1 / 0\n"
    )
    said = run_python(
        """
        import answers
        import rope_lab as lab
        from rope_lab.engine import problems
        from rope_lab.records import versions
        assert lab.ENGINE.kind == "PyTorch alone", lab.ENGINE.kind
        assert lab.device == lab.ENGINE.device == "cpu"
        about_triton = [line for line in problems(lab.ENGINE.machine) if "Triton" in line]
        assert len(about_triton) == 1
        assert about_triton[0] in repr(lab.ENGINE)
        try:
            lab.need_triton()
        except ImportError as error:
            assert str(error) == about_triton[0]
        else:
            raise AssertionError("a notebook with kernels would go on")
        assert "torch" in versions()
        assert lab.check_exercise(answers.right, lab.exercises.rotate_half)
        wrong = lab.check_exercise(answers.wrong, lab.exercises.rotate_half)
        assert "it raises ZeroDivisionError" in repr(wrong)
        print(about_triton[0])
        """,
        PYTHONPATH=os.pathsep.join((str(tmp_path), str(ROOT))),
        ROPE_LAB_QUIET="1",
    ).strip()
    assert said.startswith("Triton ") and said.endswith(".") and ". " not in said
    if sys.platform == "linux":
        assert said == "Triton is not installed: `make lab` installs it."


# the rooms of the lab


def test_every_room_can_be_imported_from_the_notebooks_folder():
    """As an installed package, as a notebook does it: the root is not the current folder."""
    names = [path.relative_to(ROOT).with_suffix("").parts for path in LAB.rglob("*.py")]
    modules = {".".join(name).removesuffix(".__init__") for name in names}
    run_python(
        f"""
        import importlib, os, sys
        os.chdir({str(ROOT / "notebooks")!r})
        import rope_lab
        assert not {{"triton", "matplotlib"}} & sys.modules.keys()
        for name in {sorted(modules - {"rope_lab.compiler.compile_process"})!r}:
            importlib.import_module(name)
        """,
        TRITON_INTERPRET="1",
    )


def test_the_lab_lists_each_of_its_rooms():
    """An unlisted package would be missing where rope_lab is installed without `-e`."""
    project = tomllib.loads((LAB / "pyproject.toml").read_text(encoding="utf-8"))
    setuptools = project["tool"]["setuptools"]
    rooms = {path.parent.relative_to(ROOT).as_posix() for path in LAB.rglob("__init__.py")}
    assert set(setuptools["packages"]) == {room.replace("/", ".") for room in rooms}
    assert setuptools["package-dir"] == {"rope_lab": "."}
    assert not [line for line in project["project"]["dependencies"] if "rope" in line]
