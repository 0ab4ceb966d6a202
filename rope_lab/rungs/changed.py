"""A copy of a kernel with a few lines changed."""

import inspect
import itertools
import linecache

_NUMBERS = itertools.count()


def changed(kernel, name: str, *changes: tuple[str, str]):
    """Copy a kernel by another name, and replace text in its source.

    Args:
        kernel: made by `triton.jit`, in a notebook or a module.
        name: the copy's.
        changes: (old, new); each old text is in the source exactly once.

    Raises:
        ValueError: an old text is missing, or is not unique.
    """
    original = kernel.fn.__name__
    source = inspect.getsource(kernel.fn)
    for old, new in changes:
        if source.count(old) != 1:
            raise ValueError(
                f"{old!r} is in {original} {source.count(old)} times, not once: "
                "if you have changed the kernel in its cell, undo that first"
            )
        source = source.replace(old, new)
    source = source.replace(f"def {original}(", f"def {name}(")
    path = f"<{name} {next(_NUMBERS)}>"  # two copies may have one name
    # Triton reads the source from this cache. With None as time, it isn't checked against a file.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    names = dict(kernel.fn.__globals__)
    exec(compile(source, path, "exec"), names)
    return names[name]
