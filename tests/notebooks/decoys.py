"""What a reader's other cells leave behind: globals with the names of everything in an answer."""

import ast

import torch

from rope_lab.shipment import globals_in

ALWAYS = (
    *("load", "store", "sum", "shape", "cos", "sin", "program_id", "arange", "where", "zeros"),
    *("x", "t", "out", "freqs", "size"),
)


def decoys_for(source: str) -> dict[str, object]:
    """Lists and tensors named like each attribute and each local name of a module's source.

    None has a name that the module makes or takes from outside: there a reader's own code would
    stop as well.
    """
    names = {*ALWAYS}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute | ast.Name | ast.arg):
            names |= {getattr(node, field, None) for field in ("attr", "id", "arg")}
    names -= {None, *globals_in(source)}
    lists, tensors = sorted(names)[::2], sorted(names)[1::2]
    return {name: [1, 2] for name in lists} | {name: torch.ones(3) for name in tensors}
