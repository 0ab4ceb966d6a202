"""Run an autotuned kernel in one configuration after the other, without timing any.

On a GPU, `@triton.autotune` runs every configuration several times and takes the fastest. Which one
that will be isn't known here, so the judge runs all cases in each of them (`configuration`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, wraps

from ..run import is_interpreted


class Tuning:
    """What tuners do in this process.

    Attributes:
        number: of the configuration that a tuner takes; a tuner with fewer begins again at 0.
        most: the most configurations of a tuner that has run since `configuration(0)`.
        tuner: the one whose kernel is interpreted; None for a kernel without.
        words: the configuration that a tuner took last; '' if it had no choice.
    """

    number, most, tuner, words = 0, 1, None, ""


def words_of(tuner, config) -> str:
    """'2 of 3: BLOCK=64, num_warps=4'; '' if there is no choice."""
    if len(tuner.configs) < 2:
        return ""
    values = {"num_warps": config.num_warps} | config.all_kwargs()
    others = [other.all_kwargs() for other in tuner.configs]
    shown = [
        f"{name}={value!r}"
        for name, value in (config.kwargs | values).items()
        if name in (*config.kwargs, "num_warps") or any(x.get(name) != value for x in others)
    ]
    return f"{tuner.configs.index(config) + 1} of {len(tuner.configs)}: {', '.join(shown)}"


def has_a_choice() -> bool:
    """Whether the kernel that runs was started by a tuner with several configurations."""
    return Tuning.tuner is not None and len(Tuning.tuner.configs) > 1


@contextmanager
def configuration(number: int) -> Iterator[None]:
    """In this context, tuners take their configuration of this number."""
    before = Tuning.number
    Tuning.number = number
    try:
        yield
    finally:
        Tuning.number = before


@cache
def let_tuners_run() -> None:
    """Let tuners on a CPU take the configuration of `Tuning.number`, from now on; loads Triton.

    A kernel's own timer (`do_bench=`) is still called, and decides. What a tuner has chosen on a
    GPU stays its choice there.
    """
    from triton.runtime.autotuner import Autotuner

    run, prune, bench = Autotuner.run, Autotuner.prune_configs, Autotuner._bench

    @wraps(run)
    def run_tuned(tuner, *arguments, **options):
        if not is_interpreted(tuner, arguments, options):
            return run(tuner, *arguments, **options)
        if vars(tuner).get("number_taken") != Tuning.number:
            tuner.taken, tuner.number_taken = {}, Tuning.number
        around, Tuning.tuner = Tuning.tuner, tuner
        on_a_gpu, tuner.cache = tuner.cache, tuner.taken
        try:
            return run(tuner, *arguments, **options)
        finally:
            tuner.cache = on_a_gpu
            Tuning.tuner = around
            Tuning.words = words_of(tuner, tuner.best_config)

    @wraps(prune)
    def chosen_first(tuner, options):
        configs = prune(tuner, options)
        Tuning.most = max(Tuning.most, len(configs))
        begin = Tuning.number % len(configs)
        return configs[begin:] + configs[:begin]

    @wraps(bench)
    def all_alike(tuner, *arguments, **options):
        """Equal times for all, so that the tuner takes the first."""
        own = tuner._do_bench
        module = getattr(getattr(own, "func", own), "__module__", "")
        if Tuning.tuner is tuner and (own is None or module.startswith("triton.")):
            return [0.0, 0.0, 0.0]
        return bench(tuner, *arguments, **options)

    Autotuner.run, Autotuner.prune_configs, Autotuner._bench = run_tuned, chosen_first, all_alike
