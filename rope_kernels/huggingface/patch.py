"""`patch` and `unpatch`: which functions are replaced, and how they come back."""

import functools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from types import FunctionType, ModuleType, TracebackType
from typing import Any

from torch import nn

from ..checks import check_flag
from ..modes import is_traced
from .attention import normed_forward
from .digest import REPLACES, UnknownCode, original_of
from .known import Known, function_of, is_known, known_by_code, watch

ROTATES = re.compile(r"apply_\w*(rotary|rope)|rotate_queries_or_keys")  # by a function's name
FAMILY = "transformers.models.{0}.modeling_{0}"
METHOD = "a method; only functions of a module are replaced"


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


@dataclass(frozen=True)
class _Place:
    """A name in a module or in one of its classes."""

    module: ModuleType
    owner: ModuleType | type
    name: str

    @property
    def value(self) -> Any:
        return vars(self.owner).get(self.name)

    @property
    def words(self) -> tuple[str, str]:
        """The module, and the name within it."""
        within = "" if self.owner is self.module else f"{self.owner.__qualname__}."
        return self.module.__name__, within + self.name


@dataclass(frozen=True)
class _Change:
    """What was in a place, and the function that is there now."""

    place: _Place
    original: object
    ours: Callable

    @property
    def is_ours(self) -> bool:
        return self.place.value is self.ours

    def put_back(self) -> None:
        """The same object again, unless another one has replaced ours since."""
        if self.is_ours:
            setattr(self.place.owner, self.place.name, self.original)


@dataclass(frozen=True)
class Patched:
    """What `patch` did. As a context manager it undoes that at the end, after an error too.

    Attributes:
        replaced: the functions that rotate by our kernel now, also those that an earlier call of
            `patch` has replaced, which the context manager leaves so.
        left: the others, each with the reason.
    """

    replaced: tuple[Replaced, ...]
    left: tuple[Left, ...]
    _new: tuple[_Change, ...] = field(default=(), repr=False)

    def __enter__(self) -> "Patched":
        for one in self._new:
            if not one.is_ours:
                came = f"{'.'.join(one.place.words)} was put back or replaced since"
                raise ValueError(f"{came}; accepted: a new call of patch for each with block")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for one in self._new:
            _put_back(one)

    def __str__(self) -> str:
        lines = [f"replaced {one}" for one in self.replaced]
        lines += [f"left     {one}" for one in self.left]
        return "\n".join(lines) or "no function that rotates was found"


# A module, not its name, which another module may have too.
_patched: dict[_Place, _Change] = {}


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

    Where torch.compile, torch.export, make_fx or torch.jit.trace records a model, it is the model
    as it was: compilers fuse the function's own operators with those around them. Other calls that
    the kernel can't take go to the function that was replaced, too: with fp64, with a table in bf16
    beside fp16 or the reverse, with a table that requires a gradient, with tensors on several
    devices, and with shapes that PyTorch would broadcast in other ways than a table (s, d2) or
    (b, s, d2) over heads.

    With `norms` an attention that normalizes queries and keys beside their rotation does both in
    one launch, forward and backward. Its class gets a forward that is compiled from its own code,
    with the norms and the rotation as one call. The bits of a row may differ in the last place,
    because squares are added in another order: `norm_rope` says how often. Where a norm has a hook,
    a `forward` of its own, another class or a weight that is a shard, the forward runs as it was.
    In autocast with weights in fp32 the results are in fp32, as before, but have the values that
    autocast rounds them to before the attention; so do the keys in a cache.

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
        ValueError: no module of that name can be imported; with `strict`, nothing was replaced. The
            message says whether nothing was found, or nothing that is known. Nothing is changed.
    """
    check_flag("norms", norms)
    check_flag("strict", strict)
    modules, replaced, left, new = _modules_of(target), [], [], []
    for module in modules:
        for place, ours in (*_rotations_in(module), *(_forwards_in(module) if norms else ())):
            if isinstance(ours, str):
                left.append(Left(*place.words, ours))
                continue
            replaced.append(Replaced(*place.words))
            known = _patched.get(place)
            if known is None or not known.is_ours:
                one = _Change(place, original_of(place.value), ours)
                setattr(place.owner, place.name, ours)
                _patched[place] = one
                new.append(one)
    patched = Patched(tuple(replaced), tuple(left), tuple(new))
    if strict and (missing := _missing(patched, norms)):
        with patched:
            is_model = isinstance(target, nn.Module)
            came = type(target).__name__ if is_model else modules[0].__name__
        raise ValueError(f"target is {came}, where {missing}")
    return patched


def _missing(patched: Patched, norms: bool) -> str:
    """What `strict` asks for, and was not replaced; "": nothing."""
    forwards, advice = [x for x in patched.replaced if x.is_forward], ""
    if len(forwards) == len(patched.replaced):
        found, what = [x for x in patched.left if not x.is_forward], "function that rotates"
    elif norms and not forwards:
        found, what = [x for x in patched.left if x.is_forward], "forward that normalizes q and k"
        advice = "; norms=False patches the rotation alone"
    else:
        return ""
    if not found:
        return f"no {what} was found{advice}"
    return f"no {what} is known, but found: {'; '.join(map(str, found))}{advice}"


def unpatch(target: nn.Module | ModuleType | str | None = None) -> None:
    """Put back the very objects that `patch` replaced.

    A function that something else has replaced since stays.

    Args:
        target: as in `patch`; None: everything that is patched.

    Raises:
        TypeError, ValueError: as in `patch`.
    """
    modules = None if target is None else _modules_of(target)
    for one in list(_patched.values()):
        if modules is None or one.place.module in modules:
            _put_back(one)


def _put_back(one: _Change) -> None:
    one.put_back()
    if _patched.get(one.place) is one:
        del _patched[one.place]


def _modules_of(target: object) -> list[ModuleType]:
    """The modules of Python in which a model's classes and their bases are."""
    if isinstance(target, ModuleType):
        return [target]
    if isinstance(target, str):
        name = target if "." in target else FAMILY.format(target)
        try:
            if name.startswith("."):
                raise ImportError("a relative name")
            return [import_module(name)]
        except ImportError as error:
            accepted = "a model, or the name of a module, or of a family, as 'llama'"
            came = f"target is {target!r}, and {name} cannot be imported ({error})"
            raise ValueError(f"{came}; accepted: {accepted}") from error
    if not isinstance(target, nn.Module):
        accepted = "a torch.nn.Module, a module of Python, or the name of one"
        raise TypeError(f"target is of type {type(target).__name__}; accepted: {accepted}")
    classes = {cls for part in target.modules() for cls in type(part).__mro__}
    names = {cls.__module__ for cls in classes}
    own = sorted(name for name in names if name.partition(".")[0] not in ("torch", "builtins"))
    return [sys.modules[name] for name in own if name in sys.modules]


def _rotations_in(module: ModuleType) -> Iterator[tuple[_Place, Callable | str]]:
    """The places in a module that may rotate, with what replaces it, or the reason to leave it.

    Helpers of a function that is known are part of it, and not listed.
    """
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, (FunctionType, nn.Module)) and _rotates(name, value)
    }
    helpers = set()
    for value in found.values():
        function = function_of(original_of(value))
        if is_known(function):
            helpers |= {*function.__code__.co_names}
    for name, value in found.items():
        if name not in helpers:
            yield _Place(module, module, name), _ours_or_why(_ours_for, value)
    for cls in _classes_in(module):
        for name, method in vars(cls).items():
            if ROTATES.search(name) and isinstance(method, FunctionType):
                yield _Place(module, cls, name), METHOD


def _forwards_in(module: ModuleType) -> Iterator[tuple[_Place, Callable | str]]:
    """The same for forwards that normalize what they rotate."""
    for cls in _classes_in(module):
        ours = _ours_or_why(normed_forward, cls)
        if ours is not None:
            yield _Place(module, cls, "forward"), ours


def _classes_in(module: ModuleType) -> list[type]:
    own = [x for x in vars(module).values() if isinstance(x, type)]
    return [*dict.fromkeys(x for x in own if x.__module__ == module.__name__)]


def _ours_or_why(make: Callable[[Any], Callable | None], value: Any) -> Callable | str | None:
    try:
        return make(value)
    except UnknownCode as reason:
        return str(reason)


def _rotates(name: str, value: FunctionType | nn.Module) -> bool:
    """Whether a global may rotate, by its name, or by that which its function had elsewhere."""
    own_name = getattr(function_of(value), "__name__", "")
    return any(ROTATES.search(x) is not None for x in (name, own_name))


def _ours_for(value: Any) -> Callable:
    """The function that replaces a global; itself, if it is one of ours.

    Raises:
        UnknownCode: its code is not known.
    """
    if original_of(value) is not value:
        return value
    return _made_for(value, known_by_code(function_of(value)))


@functools.cache  # patched again, a compiled model finds the function that it was compiled with
def _made_for(value: Any, known: Known) -> Callable:
    by_kernel, is_as_known = known.form(known.rule, value), watch(value)

    @functools.wraps(function_of(value))
    def ours(*args, **kwargs):
        # a compiler fuses the function's own operators with those around them
        return (value if is_traced() or not is_as_known() else by_kernel)(*args, **kwargs)

    setattr(ours, REPLACES, (ours, value))
    return ours
