"""What importing loads, and that the package works where Triton is absent.

Each case runs in a process of its own: here Triton is loaded long since.
"""

import os
import re
import sys
from textwrap import dedent

import pytest
import torch

from processes import ROOT, run_python
from rope_kernels import rope_fw
from rope_lab.compiler.launches import launched_by

LAB, PACKAGE = ROOT / "rope_lab", ROOT / "rope_kernels"


@pytest.mark.skipif("torch.cuda.is_available()", reason="kernels are compiled here")
@pytest.mark.parametrize("said", ("1", "true", "Yes", "on", "Y", "0", "off", "no", "2", ""))
def test_the_interpreter_is_on_where_triton_says_so(said, monkeypatch, plain_pytorch, whole_way):
    from triton import knobs

    import rope_kernels.kernel  # noqa: F401 (with the variable it would be interpreted for good)

    launches = []
    monkeypatch.setenv("TRITON_INTERPRET", said)
    with launched_by(launches.append):
        rope_fw(torch.ones(2, 1, 1, 4), torch.ones(2, 1, 1, 4))
    assert len(launches) == knobs.runtime.interpret


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
        from rope_kernels.huggingface import from_config, patch
        assert patch(types.ModuleType("empty"), strict=False).replaced == ()
        config = {"head_dim": 8, "rope_theta": 1e4}
        assert from_config(config).rotary_dim == 8

        from ops import FEW, OPS
        for op in OPS:
            for case in FEW:
                op.sample("cpu", **case).check()
        for name in ("triton", "transformers", "torch.distributed.tensor"):
            assert name not in sys.modules, name
    """)


def test_the_room_for_hugging_face_is_loaded_when_it_is_asked_for():
    """As README spells it; an editor finds its name, and no other."""
    run_python("""
        import sys
        import types
        import rope_kernels
        assert "rope_kernels.huggingface" not in sys.modules
        assert set(dir(rope_kernels)) == {*rope_kernels.__all__, "huggingface"}
        assert "rope_kernels.huggingface" not in sys.modules
        try:
            rope_kernels.hugging_face
        except AttributeError as error:
            said = str(error)
        assert said == "module 'rope_kernels' has no attribute 'hugging_face'", said
        assert not hasattr(rope_kernels, "hugging_face")
        found = rope_kernels.huggingface.patch(types.ModuleType("empty"), strict=False)
        assert isinstance(found, rope_kernels.huggingface.Patched)
        assert rope_kernels.huggingface is sys.modules["rope_kernels.huggingface"]
        from rope_kernels import huggingface
        assert huggingface is rope_kernels.huggingface and "transformers" not in sys.modules
    """)


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
        from ops import FEW, OPS
        from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb
        for op in OPS:
            for case in FEW:
                sample = op.sample("cpu", **case)
                wanted = sample.check()
                if op.inplace and case.get("output_pairing") != "half":
                    with torch.no_grad():
                        outs = sample.call(inplace=True)
                    assert outs[0] is sample.given[op.inplace[0]]
                    torch.testing.assert_close(outs, wanted)
        t, table = torch.randn(6, 1, 2, 6).double(), RotaryPositionEmbedding(4)(6).double().clone()
        given = t.requires_grad_(), table.requires_grad_()
        assert torch.autograd.gradcheck(apply_rotary_pos_emb, given)
        assert torch.autograd.gradgradcheck(apply_rotary_pos_emb, given)
        """,
        TRITON_INTERPRET="1",
    )


def test_without_triton_the_lab_says_in_one_sentence_what_is_needed(tmp_path):
    """And it judges functions of PyTorch, whose versions a figure still names."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TRITON, encoding="utf-8")
    (tmp_path / "answers.py").write_text(
        "import torch\n\n"
        "def right(x):\n    a, b = x.chunk(2, -1)\n    return torch.cat((-b, a), -1)\n\n"
        "def wrong(x):\n    return 1 / 0\n\n"
        "def unsigned(x):\n    a, b = x.chunk(2, -1)\n    return torch.cat((b, a), -1)\n",
        encoding="utf-8",
    )
    said = run_python(
        """
        import answers
        import rope_lab as lab
        from rope_lab.judge import definitions
        from rope_lab.records import circumstances
        assert lab.ENGINE.kind == "PyTorch alone", lab.ENGINE.kind
        assert lab.device == lab.ENGINE.device == "cpu"
        about_triton = [line for line in lab.ENGINE.problems if "Triton" in line]
        assert len(about_triton) == 1
        assert about_triton[0] in repr(lab.ENGINE)
        try:
            lab.need_triton()
        except ImportError as error:
            assert str(error) == about_triton[0]
        else:
            raise AssertionError("a notebook with kernels would go on")
        assert "torch" in circumstances()["versions"]
        assert lab.check_exercise(answers.right, definitions.rotate_half)
        wrong = lab.check_exercise(answers.wrong, definitions.rotate_half)
        assert "it raises ZeroDivisionError" in repr(wrong)
        unsigned = lab.check_exercise(answers.unsigned, definitions.rotate_half)
        assert "is multiplied by 1, and should be by -1" in repr(unsigned)
        print(about_triton[0])
        """,
        PYTHONPATH=os.pathsep.join((str(tmp_path), str(ROOT))),
        ROPE_LAB_QUIET="1",
    ).strip()
    assert said.startswith("Triton ") and said.endswith(".") and ". " not in said
    if sys.platform == "linux":
        assert said == "Triton is not installed: `make lab` installs it."


def test_an_editor_is_offered_the_labs_public_names_alone():
    """All that notebooks and docs use, loaded or not."""
    pages = [*ROOT.glob("notebooks/**/*.ipynb"), *ROOT.glob("docs/*.md")]
    used = {
        name
        for page in pages
        for name in re.findall(r"(?<![\w.])lab\.([a-zA-Z]\w*)", page.read_text(encoding="utf-8"))
    }
    said = run_python("""
        import types
        import rope_lab as lab
        names = dir(lab)
        modules = {x for x in names if isinstance(getattr(lab, x), types.ModuleType)}
        assert modules == {"draw"}, modules
        print(*names)
    """)
    assert used - {"py", "md"} <= set(said.split())  # lab.py is a file
    assert not [name for name in said.split() if name.startswith("_")]


# a torch that is too new, or too old

MISSING = [  # one of each kind of name
    "torch._C._len_torch_dispatch_stack",
    "torch._C._TorchDispatchModeKey.FAKE",
    "torch._C.DispatchKey.PreDispatch",
    "torch._C._functorch.get_unwrapped",
    "torch._C._autograd._get_creation_meta",
    "torch._C._autograd.CreationMeta.DEFAULT",
    "torch.autograd.forward_ad._current_level",
    "torch._compile._disable_dynamo",
    "torch.nn.Module._load_from_state_dict",
    "torch.nn.Module.apply",  # of which no private name is
]


def test_a_torch_that_lacks_a_private_name_is_told_when_the_package_is_imported():
    """The error names what is missing, this torch, and what helps; the last import succeeds."""
    run_python(
        f"""
        import sys
        import torch
        import torch._compile
        from operator import attrgetter

        def error_of_import():
            try:
                import rope_kernels
            except ImportError as error:
                return str(error)
            finally:
                for module in [x for x in sys.modules if x.startswith("rope_kernels")]:
                    del sys.modules[module]

        *gone, public = {MISSING!r}
        for path in gone:
            place, _, name = path.partition("torch.")[2].rpartition(".")
            owner = attrgetter(place)(torch)
            value = getattr(owner, name)
            delattr(owner, name)
            said = error_of_import()
            setattr(owner, name, value)
            assert said is not None, path
            assert name in said and torch.__version__ in said and "Install" in said, said
        del torch.nn.Module.apply
        assert error_of_import() is None, public
        """
    )


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
        for name in {sorted(modules)!r}:
            importlib.import_module(name)
        """,
        TRITON_INTERPRET="1",
    )
