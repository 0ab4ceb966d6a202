"""Triton's interpreter, spared what it does again in every function that a kernel calls.

Before a kernel runs, the interpreter replaces the functions of `triton.language` by its own. It
does so again at each call of a `@triton.jit` function, when nothing is left to replace. Finding
that out takes longer than a short function: two fifths of our tests' time (Triton 3.7.1,
2026-11-22, on two CPU cores).
"""

from types import FunctionType


def patch_language_once_a_launch() -> None:
    """Let this process look for functions to replace once a launch; harmless if called again.

    Loads Triton. Does nothing with a Triton whose interpreter is built in another way.
    """
    from triton import language as tl
    from triton.runtime import interpreter

    original = getattr(interpreter, "_patch_lang", None)
    no_changes = getattr(interpreter, "_LangPatchScope", None)
    if original is None or no_changes is None or hasattr(original, "looks_first"):
        return

    def patch(fn: FunctionType) -> object:
        names = [module for module in fn.__globals__.values() if module is tl or module is tl.core]
        functions = [module.load for module in names] + [tl.tensor.__add__]
        if names and not any(tl.core.is_builtin(function) for function in functions):
            return no_changes()  # those of Triton are replaced
        return original(fn)

    patch.looks_first = True
    interpreter._patch_lang = patch
