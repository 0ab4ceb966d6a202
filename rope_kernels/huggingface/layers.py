"""A layer that the package `kernels` puts into transformers models, for training and inference.

transformers marks the rotation of 107 model files with the name `rotary_pos_emb`, and `kernels`
makes a module of each marked function. This layer's forward takes the place of that module's
forward. It recognizes the model's function as `patch` does, so it has its bits.
"""

import json
import shutil
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from torch import Tensor, nn

from ..checks import bad
from ..paths import is_traced
from .calls import log_own
from .digest import UnknownCode
from .patch import made_for
from .replacement import function_of, name_of
from .rules import rule_of

_PACKAGE = Path(__file__).parents[1]
_CARD = """---
library_name: kernels
license: mit
---

# rope_kernels

RoPE in Triton, forward and backward. `RotaryPosEmb` is a layer for `rotary_pos_emb` of transformers
models. Made by `rope_kernels.huggingface.layers.write_kernel`.
"""
_BUILD = """[general]
name = "rope-kernels"
version = 1
license = "MIT"
backends = ["cpu", "cuda"]

[torch-noarch]
"""


class RotaryPosEmb(nn.Module):
    """The rotation of a transformers model, by the kernel, with all gradients.

    What torch.compile records is the model's own function, and so are calls that the kernel doesn't
    support (docs/hugging_face.md lists them), and functions that `patch` doesn't know.
    """

    can_torch_compile = has_backward = True

    # `kernels` compares these arguments with the function's, and allows no other method. `self` is
    # the module that it made of the function.
    def forward(
        self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> object:
        """q and k (b, h, s, d), cos and sin (b, s, d): two tensors like q and k."""
        if is_traced():
            return type(self).forward(self, q, k, cos, sin, unsqueeze_dim)
        return _rotation_of(self)(q, k, cos, sin, unsqueeze_dim)


@cache
def _rotation_of(module: nn.Module) -> Callable[..., object]:
    """Ours for the function of which `kernels` has made a module; or that function."""
    function = function_of(module)
    try:
        return made_for(function, function.__code__, rule_of(function))
    except UnknownCode as reason:
        log_own(name_of(function), str(reason))
        return function


def write_kernel(folder: str | Path) -> Path:
    """Write the folder of this package that `kernels` loads, or that can be uploaded to the Hub.

    Raises:
        ValueError: the folder exists. Nothing is written.
    """
    folder = Path(folder).absolute()
    if folder.exists():
        raise bad(f"folder is {str(folder)!r}, which exists", "a path where nothing is")
    build = folder / "build" / "torch-universal"
    shutil.copytree(_PACKAGE, build, ignore=shutil.ignore_patterns("__pycache__"))
    main = build / "__init__.py"
    exported = "from .huggingface import layers  # where `kernels` looks for its layers\n"
    main.write_text(main.read_text(encoding="utf-8") + f"\n{exported}", encoding="utf-8")
    content = b"".join(path.read_bytes() for path in sorted(build.rglob("*.py")))
    about = {
        "name": "rope-kernels",
        "id": f"_rope_kernels_{sha256(content).hexdigest()[:12]}",  # the module's name
        "version": 1,
        "license": "MIT",
        "python-depends": [],
        "backend": {"type": "cpu"},
    }
    shutil.copytree(build, folder / "torch-ext" / "rope_kernels")
    for name, text in {
        "build/torch-universal/metadata.json": json.dumps(about, indent=2) + "\n",
        "build.toml": _BUILD,
        "README.md": _CARD,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
