"""All providers, in the order of the tables."""

from benchmarks.provider import FromSources
from benchmarks.providers import from_sources, installed, rows, rows_from_sources

# for cases
PROVIDERS = {p.name: p for p in (*installed.PROVIDERS, *from_sources.PROVIDERS)}
# for rows
ROW_PROVIDERS = {p.name: p for p in (*rows.PROVIDERS, *rows_from_sources.PROVIDERS)}
SOURCES = {
    p.source.name: p.source
    for p in (*PROVIDERS.values(), *ROW_PROVIDERS.values())
    if isinstance(p, FromSources)
}
