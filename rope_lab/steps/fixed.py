"""A kernel once more, with a line or two changed; only what changed is shown."""

import difflib
import inspect
import linecache

from IPython.display import display

from ..source import ChangedLines


def fixed(kernel, *changes: tuple[str, str]):
    """Copy a kernel, replace text in its source, and show the lines that differ.

    Args:
        kernel: made by `triton.jit`, in a notebook or a module.
        changes: (old, new); each old text is in the source exactly once.

    Raises:
        ValueError: an old text is missing, or is not unique.
    """
    before, after = _texts(kernel, changes)
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    display(ChangedLines([line for line in lines if line[0] in "+-"]))
    return changed(kernel, kernel.fn.__name__.replace("_kernel", "_fixed_kernel"), *changes)


def changed(kernel, name: str, *changes: tuple[str, str]):
    """The same without showing anything: the copy by another name."""
    _, after = _texts(kernel, changes)
    function = kernel.fn
    return _made_of(after.replace(f"def {function.__name__}(", f"def {name}("), name, function)


def _texts(kernel, changes: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """The source of a kernel before and after the changes."""
    function = kernel.fn
    before = after = inspect.getsource(function)
    for old, new in changes:
        if after.count(old) != 1:
            raise ValueError(
                f"{old!r} is in {function.__name__} {after.count(old)} times, not once: "
                "if you have changed the kernel in its cell, undo that first"
            )
        after = after.replace(old, new)
    return before, after


def _made_of(source: str, name: str, like):
    """Run the source among the names that `like` sees; Triton finds it where Python looks."""
    path = f"<{name}>"
    # None for the time: such an entry is never checked against a file
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    names = dict(like.__globals__)
    exec(compile(source, path, "exec"), names)
    return names[name]
