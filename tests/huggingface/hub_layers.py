"""The layer of integrations/hub as the package kernels loads it from a folder, and its calls."""

import importlib.metadata
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

LAYER = "apply_rotary_transformers"
NAME = "rotary_pos_emb"  # by which transformers asks for it
CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"


MISSING = "the package kernels is not installed: pip install -c constraints.txt -e '.[test]'"


def need_kernels():
    """Skip a test without the package kernels; where CI is set, that is a failure."""
    try:  # the room tests/kernels can be imported by this name, too
        importlib.metadata.version("kernels")
    except importlib.metadata.PackageNotFoundError:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)


def need_marks():
    """Skip a test of functions that transformers marks, where it refuses the installed kernels.

    With the pinned transformers that is a failure where CI is set.
    """
    need_kernels()
    import_utils = pytest.importorskip("transformers.utils.import_utils")
    if not import_utils.is_kernels_available():
        found, kernels = map(importlib.metadata.version, ("transformers", "kernels"))
        low, high = import_utils.KERNELS_MIN_VERSION, import_utils.KERNELS_MAX_VERSION
        is_pinned = f"transformers=={found}" in CONSTRAINTS.read_text(encoding="utf-8").split()
        reason = f"transformers {found} needs kernels >={low},<{high}, and {kernels} is installed"
        (pytest.fail if is_pinned and os.environ.get("CI") else pytest.skip)(reason)


@dataclass(frozen=True)
class Hub:
    """A build that was loaded."""

    layer: object  # kernels.LocalLayerRepository
    build: object  # the module

    def module(self, name):
        """A module of the copy of rope_kernels."""
        return sys.modules[f"{self.build.__name__}.rope_kernels.{name}"]

    @contextmanager
    def kernelized(self, model, mode, device):
        """The model with the layer, which all models of its modeling file have meanwhile."""
        from kernels import kernelize, use_kernel_mapping

        with use_kernel_mapping({NAME: {device: self.layer}}, inherit_mapping=False):
            try:
                yield kernelize(model, mode=mode, device=device)
            finally:
                for module in model.modules():
                    for function in getattr(module, "_kernel_funcs", {}).values():
                        vars(function).pop("forward", None)


class Caller(nn.Module):
    """A model that does nothing but rotate, by one function of a modeling file."""

    def __init__(self, function):
        super().__init__()
        vars(self)["_kernel_funcs"] = {NAME: function}  # as `use_kernelized_func` does
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, *args, **kwargs):
        return vars(self)["_kernel_funcs"][NAME](*args, **kwargs)


def calls_of(module, name, monkeypatch):
    """A list that grows with every call of a function in a module."""
    taken, function = [], getattr(module, name)

    def counting(*args, **kwargs):
        taken.append(1)
        return function(*args, **kwargs)

    monkeypatch.setattr(module, name, counting)
    return taken
