"""The source of a function, for a notebook to print."""

import inspect


def show_source(function) -> None:
    """Print a function from its decorator to its last line.

    Args:
        function: from a module or a notebook's cell. A `@triton.jit` function may be compiled or
            interpreted.

    Raises:
        TypeError: it has no source in Python, or is no function.
    """
    print(inspect.getsource(getattr(function, "fn", function)).rstrip())
