"""Triton's interpreter without the work that has no effect. Measured with Triton 3.7.1, 2026-11-22.

- Before a kernel runs, it replaces the functions of `triton.language` by its own. It does so again
  at each call of a `@triton.jit` function, when nothing is left to replace, and finding that out
  takes longer than a short function.
- It computes every sum, difference and product of integers twice, with 64 bits for a check of
  overflow. The check asserts only if the option `debug` is on, which it never is here. Compiled
  kernels drop it as dead code: https://github.com/facebookexperimental/triton/pull/769

Together half to two thirds of the time of a test that runs kernels.
"""

from dataclasses import fields, is_dataclass, replace
from types import FunctionType

from rope_kernels.machine.engine import triton_is_installed


def speed_up() -> None:
    """Let this process interpret kernels faster, with the same results; harmless if called again.

    Loads Triton, if there is one. A Triton that is built differently is left as it is: 3.5 gets
    the second change alone. Launch from one thread at a time, as the interpreter demands anyway.
    """
    if not triton_is_installed():
        return
    from triton.runtime import interpreter

    _replace_functions_once_a_launch(interpreter)
    _skip_overflow_checks(interpreter)


def let_masks_be_numbers() -> None:
    """Let `mask=i < n` of two numbers run in an interpreted kernel, from now on, with any Triton.

    The interpreter gives the comparison the dtype of `i`, and makes integers of it when it spreads
    it over a block. Until Triton 3.8 a load takes them for a mask; that of 3.9 raises `ValueError:
    mask has unsupported dtype`. Compiled, such a mask runs.
    """
    from triton.runtime import interpreter

    spread = interpreter.InterpreterBuilder.create_splat
    if hasattr(spread, "keeps_bools"):
        return

    def create_splat(self, block_type, number):
        block = spread(self, block_type, number)
        if number.data.dtype == bool:
            block.data = block.data.astype(bool)
        return block

    create_splat.keeps_bools = True
    interpreter.InterpreterBuilder.create_splat = create_splat


def _replace_functions_once_a_launch(interpreter) -> None:
    from triton import language as tl

    original = getattr(interpreter, "_patch_lang", None)
    no_changes = getattr(interpreter, "_LangPatchScope", None)
    if original is None or no_changes is None or hasattr(original, "looks_first"):
        return

    def patch(fn: FunctionType) -> object:
        known = [value for value in fn.__globals__.values() if value is tl or value is tl.core]
        if known and not any(tl.core.is_builtin(module.load) for module in known):
            return no_changes()  # those of Triton are replaced
        return original(fn)

    patch.looks_first = True
    interpreter._patch_lang = patch


def _skip_overflow_checks(interpreter) -> None:
    builder = getattr(interpreter, "interpreter_builder", None)
    options = getattr(builder, "options", None)
    if not is_dataclass(options):
        return
    names = {field.name for field in fields(options)}
    if {"debug", "sanitize_overflow"} <= names and not options.debug:
        builder.options = replace(options, sanitize_overflow=False)
