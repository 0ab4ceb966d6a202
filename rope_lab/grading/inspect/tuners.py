"""Autotuned kernels without a clock: they run the configuration that was asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

from triton.runtime.autotuner import Autotuner


@contextmanager
def one_configuration(number: int) -> Iterator[dict[str, str]]:
    """Every tuner takes this one of its configurations, or its last if it has fewer.

    Yields:
        Kernel -> what was taken: 'configuration 0 of 6: BLOCK: 128, num_warps: 4, ...'.
    """
    taken = {}

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = self.configs if self.perf_model else self.prune_configs(kwargs)
        place = min(number, len(configs) - 1)
        config = configs[place]
        words = f"configuration {place} of {len(configs)}: {config}"
        taken[self.base_fn.__name__] = words
        options = config.all_kwargs()
        if config.pre_hook is not None:
            config.pre_hook(self.nargs | kwargs | options)
        return self.fn.run(*args, **kwargs, **options)

    original, Autotuner.run = Autotuner.run, run
    try:
        yield taken
    finally:
        Autotuner.run = original
