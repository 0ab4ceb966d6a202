"""Everybody who is measured, in the order of the tables. A file beside this one is a project."""

from importlib import import_module

from benchmarks.provider import FromSources, Provider
from benchmarks.providers import limits, norm

_FILES = (
    *("limits", "ours", "pytorch", "hugging_face"),
    *("flash_attention", "flashinfer", "liger", "transformer_engine", "unsloth", "vllm"),
)
_OF_ROWS = "rows", "rows_vllm", "rows_sglang", "rows_flashinfer"


def _providers_of(files: tuple[str, ...]) -> list[Provider]:
    return [p for file in files for p in import_module(f"{__name__}.{file}").PROVIDERS]


_EVERYBODY = _providers_of(_FILES)
# who rotates
PROVIDERS = {provider.name: provider for provider in _EVERYBODY}
# who normalizes and rotates
NORMS = {p.name: p for p in (limits.PROVIDERS[0], *norm.OURS, *norm.OTHERS)}
# who makes the calls of rows that have a limit of their own
ROW_PROVIDERS = {provider.name: provider for provider in _providers_of(_OF_ROWS)}
SOURCES = {
    p.source.name: p.source
    for p in (*_EVERYBODY, *ROW_PROVIDERS.values())
    if isinstance(p, FromSources)
}
