"""A copy of a kernel with a few lines changed; only the changes are shown."""

import difflib
import html
import inspect
import itertools
import linecache

from IPython.display import display

# backgrounds of a diff's lines; the text keeps its contrast on light and dark pages
COLORS = {"-": "rgba(213, 94, 0, 0.22)", "+": "rgba(0, 158, 115, 0.22)"}
_NUMBERS = itertools.count()


def fixed(kernel, *changes: tuple[str, str]):
    """Copy a kernel, replace text in its source, and show the lines that differ; as `changed`."""
    name = kernel.fn.__name__
    copy = changed(kernel, name.replace("_kernel", "_fixed_kernel"), *changes)
    before, after = inspect.getsource(kernel.fn), inspect.getsource(copy.fn)
    after = after.replace(f"def {copy.fn.__name__}(", f"def {name}(")
    diff = difflib.ndiff(before.splitlines(), after.splitlines())
    lines = [line for line in diff if line[0] in COLORS]
    # Not Markdown's diff block, which JupyterLab shows without colors.
    colored = [
        f'<span style="background: {COLORS[line[0]]}">{html.escape(line)}</span>' for line in lines
    ]
    page = "<pre>" + "\n".join(colored) + "</pre>"
    display({"text/plain": "\n".join(lines), "text/html": page}, raw=True)
    return copy


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
