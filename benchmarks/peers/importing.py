"""Import one file of a project without its package: what it imports of it is stood in for."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

_PREFIX = "_peers"  # of the modules' names, so that an installed package is never shadowed


def import_file(
    path: Path, name: str, stubs: Mapping[str, Mapping[str, object]] | None = None
) -> ModuleType:
    """The module of a file, under a name of our own.

    Args:
        path: the file.
        name: its dotted name in its project, such as 'unsloth.kernels.rope_embedding'. Its
            relative imports are resolved from there.
        stubs: modules that it imports by relative imports: dotted name in the project, and
            the attributes that the module needs.

    Raises:
        ValueError: there is no such file.
        ImportError: it imports something that is neither installed nor stood in for.
    """
    if not path.is_file():
        raise ValueError(f"path is {str(path)!r}; accepted: a file")
    names = {name, *(stubs or {})}
    for package in sorted({parent for one in names for parent in _parents(one)}):
        _put(package).__path__ = []
    for stub, attributes in (stubs or {}).items():
        vars(_put(stub)).update(attributes)
    spec = importlib.util.spec_from_file_location(f"{_PREFIX}.{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts))]  # '' is the prefix alone


def _put(name: str) -> ModuleType:
    full = f"{_PREFIX}.{name}" if name else _PREFIX
    return sys.modules.setdefault(full, ModuleType(full))
