"""Everybody who is measured. A file beside this one is a project, and lists its providers.

A new peer is a new file: it is found here, and takes part wherever the kernels of others do.
"""

from importlib import import_module
from pkgutil import iter_modules

from benchmarks.case import LIMITS
from benchmarks.provider import FromSources, Provider
from benchmarks.providers import norm

_FIRST = ("limits", "ours", "pytorch", "hugging_face")  # in the tables; the others by their names
_OTHERS = sorted({module.name for module in iter_modules(__path__)} - {*_FIRST, "norm"})


def _listed(*files: str) -> list[Provider]:
    modules = [import_module(f"{__name__}.{file}") for file in files]
    return [provider for module in modules for provider in module.PROVIDERS]


def _by_name(*providers: Provider) -> dict[str, Provider]:
    """Of several with one name the last."""
    return {provider.name: provider for provider in providers}


_KERNELS = _listed(*_OTHERS)
_EVERYBODY = [*_listed(*_FIRST), *_KERNELS]
COPY = _EVERYBODY[0]
TORCH = tuple(provider.name for provider in _listed("pytorch"))
HUGGING_FACE = tuple(provider.name for provider in _listed("hugging_face"))
# other projects' kernels, in every way that they can be called, and in one way each
EVERY_WAY = tuple(_by_name(*_KERNELS))
KERNELS = tuple(name for name in EVERY_WAY if ", " not in name)

# who rotates: of a project with both, its installed package ...
_INSTALLED = [p for p in _EVERYBODY if not isinstance(p, FromSources)]
PROVIDERS = _by_name(*_EVERYBODY, *_INSTALLED)
# ... or its sources; timed on the GPU, which needs one limit
FROM_SOURCES = _by_name(*(provider for provider in _EVERYBODY if provider.name != LIMITS[1]))
SOURCES = {p.source.name: p.source for p in _KERNELS if isinstance(p, FromSources)}
# who normalizes and rotates
NORMS = _by_name(COPY, *norm.OURS, *norm.OTHERS)
