"""Launchers for `launched_by`, which run a launch otherwise than the package asked for it."""

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch


def in_order(order: Callable) -> Callable:
    """A launcher for the interpreter: of `n` programs, those of `order(range(n))` run, in turn."""

    def launcher(launch):
        from triton.runtime.interpreter import interpreter_builder

        numbers = order(range(*launch.grid))
        go_to, set_size = interpreter_builder.set_grid_idx, interpreter_builder.set_grid_dim
        with patch.multiple(
            interpreter_builder,
            set_grid_idx=lambda x, y, z: go_to(numbers[x], y, z),
            set_grid_dim=lambda *_: set_size(*launch.grid, 1, 1),
        ):
            return replace(launch, grid=(len(numbers),)).run()

    return launcher
