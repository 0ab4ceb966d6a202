"""The `rope_kernels` of two checkouts in one process, for the tools that compare them."""

import argparse
import importlib
import shutil
import sys
from pathlib import Path
from types import ModuleType

import torch

ROOT = Path(__file__).resolve().parents[1]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BEFORE, AFTER = "rope_kernels_before", "rope_kernels_after"


def parser_of(about: str) -> argparse.ArgumentParser:
    """The arguments of a tool that compares calls by name."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, formatter_class=layout)
    parser.add_argument("before", type=Path, help="a folder that contains rope_kernels")
    parser.add_argument("after", type=Path)
    only = "only calls whose name contains each of these words"
    parser.add_argument("--only", default="", metavar="WORDS", help=only)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results to FILE")
    return parser


def copy_packages(before: Path, after: Path, folder: Path) -> None:
    """Copy both packages to `folder`, under different names.

    PyTorch registers operators under the package's name, and Triton reads the source files of
    kernels.
    """
    for name, checkout in ((BEFORE, before), (AFTER, after)):
        package = checkout / "rope_kernels"
        if not (package / "__init__.py").is_file():
            raise SystemExit(f"{package} is not a package; accepted: the folder of a checkout")
        shutil.copytree(package, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


def load_packages(folder: Path) -> tuple[ModuleType, ModuleType]:
    """Import the packages that `copy_packages` has copied: before and after."""
    sys.path.insert(0, str(folder))
    return importlib.import_module(BEFORE), importlib.import_module(AFTER)
