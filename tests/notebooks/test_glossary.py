"""One voice: a term is introduced once, in bold; nowhere is it in bold or code before that."""

import re

import pytest

from notebook_form import Notebook, load, names_of_notebooks

# notebook -> terms that it introduces
GLOSSARY = {
    "00": "kernel, engine, program, block, mask, pointer, grid, verdict, bandwidth, bf16, fused",
    "01": "query, key, score, base, wavelength",
    "02": "tail, eager, arithmetic intensity, memory-bound, half-split, interleaved, stride, "
    "format, packed",
    "03": "thread block, just in time, streaming multiprocessors, SMs, "
    "warp, registers, L1, L2, caches, HBM, power of two, launcher, lane, sector, "
    "cache line, coalesced, gather, scatter, host time, device time, CUDA graph",
    "04": "rung, row, in place, race, barrier",
    "05": "tile, ledger, spills, Plan",
    "06": "loss, gradient, backward, transpose, mismatched halves, autograd, graph, "
    "custom operator, hook, expanded, out of bounds",
    "07": "TTIR, TTGIR, LLVM IR, PTX, SASS, ptxas, layout, layout conversion, shuffles, "
    "shared memory, specialization, predicate, operation, "
    "slow branch, fma, contracts, stack, local memory, resident, occupancy, "
    "latency hiding, Little's law",
    "08": "time law, knee, compute-bound, ridge, roofline, stall",
    "09": "bars",
    "10": "checkpointing",
    "11": "unit, atomic, partial sums, persistent, pipeline",
    "12": "grouped-query attention, autocast",
    "13": "context parallelism, rank, shard, DTensor, mesh, placement, tensor parallelism, "
    "collective, all-reduce",
}
FUNCTIONS_OF_TORCH = {"transpose", "stack"}  # in code they are these
TERMS = [(number, term) for number, terms in GLOSSARY.items() for term in terms.split(", ")]
NOTEBOOKS = [load(name) for name in names_of_notebooks()]


def places(term: str, notebooks: list[Notebook], marks: str) -> list[tuple[str, str]]:
    """Notebook and id of each text cell that has the term in such marks."""
    sign = re.compile(
        rf"(?<![*`]){re.escape(marks)}{re.escape(term)}{re.escape(marks)}(?![*`])", re.I
    )
    return [
        (notebook.number, cell.id)
        for notebook in notebooks
        for cell in notebook.markdown
        if sign.search(cell.source)
    ]


def complaints(number: str, term: str, notebooks: list[Notebook]) -> list[str]:
    bold = places(term, notebooks, "**")
    found = []
    if [place[0] for place in bold] != [number]:
        found.append(f"{term} is in bold in {bold}, to be introduced once, in {number}")
    order = {cell.id: i for notebook in notebooks for i, cell in enumerate(notebook.node.cells)}
    for place in () if term in FUNCTIONS_OF_TORCH else places(term, notebooks, "`"):
        if bold and (place[0], order[place[1]]) < (bold[0][0], order[bold[0][1]]):
            found.append(f"{term} is in code in {place}, before {bold[0]}")
    return found


@pytest.mark.parametrize("number, term", TERMS, ids=[term for _, term in TERMS])
def test_terms_are_introduced_once_and_before_they_are_used(number, term):
    assert complaints(number, term, NOTEBOOKS) == []


def test_no_term_is_listed_twice():
    terms = [term.lower() for _, term in TERMS]
    assert len(set(terms)) == len(terms) > 60


class Sample:
    """A notebook of text cells."""

    def __init__(self, number: str, *texts: str) -> None:
        self.number = number
        self.markdown = [Cell(f"{number}-{i}", text) for i, text in enumerate(texts)]
        self.node = self

    @property
    def cells(self):
        return self.markdown


class Cell:
    def __init__(self, id: str, source: str) -> None:
        self.id, self.source = id, source


@pytest.mark.parametrize(
    "samples, wrong",
    (
        ([Sample("01", "A **warp** is", "a `warp`"), Sample("02", "the warp")], 0),
        ([Sample("01", "the warp"), Sample("02", "A **warp**")], 1),  # in the wrong notebook
        ([Sample("01", "A **warp**", "a **Warp**")], 1),  # twice
        ([Sample("01", "a `warp`", "A **warp**")], 1),  # in code before
        ([Sample("01", "a warp")], 1),  # never
    ),
)
def test_what_breaks_the_rule_is_found(samples, wrong):
    assert len(complaints("01", "warp", samples)) == wrong
