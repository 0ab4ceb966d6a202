"""`patch` and `unpatch`: which functions are replaced, and how they come back."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from torch import nn

from ..checks import check_flag
from .calls import Rule
from .digest import UnknownCode, original_of
from .known import function_of, known_by_code, replacement
from .norms import normed_forward

ROTATES = re.compile(r"apply_\w*(rotary|rope)|rotate_queries_or_keys")  # by a function's name
FAMILY = "transformers.models.{0}.modeling_{0}"


@dataclass(frozen=True)
class Replaced:
    """A function that rotates by our kernel now, or a forward that normalizes by it, too."""

    module: str
    function: str

    @property
    def is_forward(self) -> bool:
        """Whether it is the forward of an attention, which normalizes, too."""
        return self.function.endswith(".forward")

    def __str__(self) -> str:
        return f"{self.module}.{self.function}"


@dataclass(frozen=True)
class Left(Replaced):
    """A function that rotates, or may do so by its name, and was left as it is."""

    reason: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function}: {self.reason}"


# A module (not its name, which another one may have too), it or one of its classes, and a name.
_Place = tuple[ModuleType, ModuleType | type, str]
_patched: set[_Place] = set()


@dataclass(frozen=True)
class Patched(AbstractContextManager["Patched"]):
    """What `patch` did. As a context manager it undoes that at the end, after an error too.

    Attributes:
        replaced: the functions that rotate by our kernel now, also those that an earlier call of
            `patch` has replaced, which the context manager leaves so.
        left: the others, each with the reason.
    """

    replaced: tuple[Replaced, ...]
    left: tuple[Left, ...]
    _new: tuple[_Place, ...] = field(default=(), repr=False)

    def __exit__(self, *error: object) -> None:
        _put_back(self._new)

    def __str__(self) -> str:
        lines = [f"replaced {x}" for x in self.replaced] + [f"left     {x}" for x in self.left]
        return "\n".join(lines) or "no function that rotates was found"


def patch(
    target: nn.Module | ModuleType | str, *, norms: bool = False, strict: bool = False
) -> Patched:
    """Let the models of Hugging Face rotate by our kernel, with the bits of their own functions.

    A model calls a function of its modeling module, mostly `apply_rotary_pos_emb(q, k, cos, sin)`.
    `patch` replaces this global of the module. So it acts on all models of the module in this
    process, on those that exist and on later ones. Values and gradients have the same bits and
    dtypes as before: in one launch instead of some twenty, in training and in `generate`.

    A function is known by its own code, and by that of the helpers it calls. Neither a model's name
    nor the values of tables count. So copies in code that came with a model are replaced too, and a
    function with other code is left. docs/hugging_face.md lists the families.

    What torch.compile, torch.export, make_fx or torch.jit.trace records is the model as it was.
    Other calls that the kernel can't take go to the function that was replaced; the page has them.

    With `norms` an attention that normalizes queries and keys beside their rotation does both in
    one launch, forward and backward. Its class gets a forward that is compiled from its own code,
    with the norms and the rotation as one call. The bits of a row may differ in the last place,
    because squares are added in another order. The page tells when the forward runs as it was.

    Args:
        target: a model, whose classes say which modules; a modeling module; or the name of a
            module, or of a family: "llama" is "transformers.models.llama.modeling_llama".
        norms: normalize queries and keys, too.
        strict: raise if no function was replaced, or with `norms` no forward.

    Returns:
        What was replaced and what was left, and why. `with patch(model):` undoes it afterwards.
        Patching twice is harmless.

    Raises:
        TypeError: `target` is none of these, or a flag is no bool.
        ValueError: no module of that name can be imported; with `strict`, nothing was replaced, and
            the message says why. Nothing is changed.
    """
    check_flag("norms", norms)
    check_flag("strict", strict)
    modules, replaced, left, new = _modules_of(target), [], [], []
    for place, ours in [x for module in modules for x in _found_in(module, norms)]:
        if isinstance(ours, str):
            left.append(Left(*_words_of(place), ours))
            continue
        replaced.append(Replaced(*_words_of(place)))
        if not _is_patched(place):
            setattr(place[1], place[2], ours)
            _patched.add(place)
            new.append(place)
    patched = Patched(tuple(replaced), tuple(left), tuple(new))
    if strict and (missing := _missing(patched, norms)):
        with patched:
            is_model = isinstance(target, nn.Module)
            came = type(target).__name__ if is_model else modules[0].__name__
        raise ValueError(f"target is {came}, where {missing}")
    return patched


def _missing(patched: Patched, norms: bool) -> str:
    """What `strict` asks for, and was not replaced; "": nothing."""
    advice = "; norms=False patches the rotation alone"
    asked = (False, "function that rotates", ""), (True, "forward that normalizes q and k", advice)
    for is_forward, what, advice in asked:
        if (norms or not is_forward) and is_forward not in [x.is_forward for x in patched.replaced]:
            found = "; ".join([str(x) for x in patched.left if x.is_forward == is_forward])
            told = f"is known, but found: {found}" if found else "was found"
            return f"no {what} {told}{advice}"
    return ""


def unpatch(target: nn.Module | ModuleType | str | None = None) -> None:
    """Put back the very objects that `patch` replaced.

    A function that something else has replaced since stays.

    Args:
        target: as in `patch`; None: everything that is patched.

    Raises:
        TypeError, ValueError: as in `patch`.
    """
    modules = None if target is None else _modules_of(target)
    _put_back([x for x in list(_patched) if modules is None or x[0] in modules])


def _put_back(places: Iterable[_Place]) -> None:
    """The same objects again, but where something else has replaced ours since."""
    for place in places:
        if _is_patched(place):
            _, owner, name = place
            setattr(owner, name, original_of(vars(owner)[name]))
        _patched.discard(place)


def _is_patched(place: _Place) -> bool:
    _, owner, name = place
    value = vars(owner).get(name)
    return place in _patched and original_of(value) is not value


def _words_of(place: _Place) -> tuple[str, str]:
    """The module, and the name within it."""
    module, owner, name = place
    return module.__name__, name if owner is module else f"{owner.__qualname__}.{name}"


def _modules_of(target: object) -> list[ModuleType]:
    """The modules of Python in which a model's classes and their bases are."""
    if isinstance(target, ModuleType):
        return [target]
    if isinstance(target, str):
        name = target if "." in target else FAMILY.format(target)
        try:
            return [import_module(name)]
        except (ImportError, TypeError, ValueError) as error:  # no such, a relative, an empty name
            accepted = "a model, or the name of a module, or of a family, as 'llama'"
            came = f"target is {target!r}, and {name} cannot be imported ({error})"
            raise ValueError(f"{came}; accepted: {accepted}") from error
    if not isinstance(target, nn.Module):
        accepted = "a torch.nn.Module, a module of Python, or the name of one"
        raise TypeError(f"target is of type {type(target).__name__}; accepted: {accepted}")
    classes = {cls for part in target.modules() for cls in type(part).__mro__}
    names = sorted({cls.__module__ for cls in classes} & sys.modules.keys())
    return [sys.modules[x] for x in names if x.partition(".")[0] not in ("torch", "builtins")]


def _found_in(module: ModuleType, norms: bool) -> Iterator[tuple[_Place, Callable | str]]:
    """The places in a module that may rotate, with what replaces it, or the reason to leave it.

    With `norms` also forwards that normalize what they rotate. Helpers of a function that is known
    are part of it, and not listed.
    """
    found, helpers = {}, set()
    for name, value in vars(module).items():
        if isinstance(value, (FunctionType, nn.Module)):
            names = name, getattr(function_of(value), "__name__", "")  # here, and elsewhere
            if any(map(ROTATES.search, names)):
                found[name] = _ours_or_why(value)
                if not isinstance(found[name], str):
                    helpers |= {*function_of(original_of(value)).__code__.co_names}
    yield from (((module, module, x), ours) for x, ours in found.items() if x not in helpers)
    own = [x for x in vars(module).values() if isinstance(x, type)]
    classes = dict.fromkeys(x for x in own if x.__module__ == module.__name__)
    for cls in classes if norms else ():
        ours = _ours_or_why(cls)
        if ours is not None:
            yield (module, cls, "forward"), ours


def _ours_or_why(value: Any) -> Callable | str | None:
    """What replaces a function or the forward of a class, or why it is left; None: no forward."""
    try:
        if isinstance(value, type):
            return normed_forward(value)
        is_ours = original_of(value) is not value
        return value if is_ours else _made_for(value, known_by_code(function_of(value)))
    except UnknownCode as reason:
        return str(reason)


@cache  # patched again, a compiled model finds the function that it was compiled with
def _made_for(value: Any, known: Rule) -> Callable:
    return replacement(value, partial(known.form, known, value), value)
