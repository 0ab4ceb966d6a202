"""Everybody who is measured, in the order of the tables. A file beside this one is a project."""

from importlib import import_module

from benchmarks.provider import FromSources
from benchmarks.providers import limits, norm

_FILES = (
    *("limits", "ours", "pytorch", "hugging_face"),
    *("flash_attention", "flashinfer", "liger", "transformer_engine", "unsloth", "vllm"),
)
_EVERYBODY = [p for file in _FILES for p in import_module(f"{__name__}.{file}").PROVIDERS]
# who rotates
PROVIDERS = {provider.name: provider for provider in _EVERYBODY}
SOURCES = {p.source.name: p.source for p in _EVERYBODY if isinstance(p, FromSources)}
# who normalizes and rotates
NORMS = {p.name: p for p in (limits.PROVIDERS[0], *norm.OURS, *norm.OTHERS)}
