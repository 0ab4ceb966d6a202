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

from ..machine.modes import is_traced
from .digest import REPLACES, UnknownCode, original_of
from .known import Known, function_of, is_known, known_by_code

ROTATES = re.compile(r"apply_\w*(rotary|rope)|rotate_queries_or_keys")  # by a function's name
FAMILY = "transformers.models.{0}.modeling_{0}"
METHOD = "a method; only functions of a module are replaced"


@dataclass(frozen=True)
class Replaced:
    """A function that rotates by our kernel now."""

    module: str
    function: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function}"


@dataclass(frozen=True)
class Left:
    """A function that rotates, or may do so by its name, and was left as it is."""

    module: str
    function: str
    reason: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function}: {self.reason}"


@dataclass(frozen=True)
class _Global:
    """A name in a module: the object that it had, and the function that it has now."""

    module: ModuleType
    name: str
    original: object
    ours: Callable

    @property
    def is_ours(self) -> bool:
        return vars(self.module).get(self.name) is self.ours

    def put_back(self) -> None:
        """The same object again, unless another one has replaced ours since."""
        if self.is_ours:
            setattr(self.module, self.name, self.original)


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
    _new: tuple[_Global, ...] = field(default=(), repr=False)

    def __enter__(self) -> "Patched":
        for one in self._new:
            if not one.is_ours:
                came = f"{one.module.__name__}.{one.name} was put back or replaced since"
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


# By module, not by its name, which another module may have too, and by the function's name.
_patched: dict[tuple[ModuleType, str], _Global] = {}


def patch(target: nn.Module | ModuleType | str) -> Patched:
    """Let the models of Hugging Face rotate by our kernel, with the bits of their own functions.

    A model calls a function of its modeling module, mostly `apply_rotary_pos_emb(q, k, cos, sin)`.
    `patch` replaces this global of the module. So it acts on all models of the module in this
    process, on those that exist and on later ones. Values and gradients have the same bits and
    dtypes as before: in one launch instead of some twenty, in training and in `generate`.

    A function is known by its own code, and by that of the helpers it calls. Neither a model's name
    nor the values of tables count. So copies in code that came with a model are replaced too, and a
    function with other code is left. docs/kernels.md lists the families.

    Where torch.compile, torch.export, make_fx or torch.jit.trace records a model, it is the model as
    it was: compilers fuse the function's own operators with those around them. Other calls that the
    kernel can't take go to the function that was replaced, too: with fp64, with a table in bf16
    beside fp16 or the reverse, with a table that requires a gradient, with tensors on several
    devices, and with shapes that PyTorch would broadcast in other ways than a table (s, d2) or
    (b, s, d2) over heads.

    Args:
        target: a model, whose classes say which modules; a modeling module; or the name of a
            module, or of a family: "llama" is "transformers.models.llama.modeling_llama".

    Returns:
        What was replaced and what was left, and why. `with patch(model):` undoes it afterwards.
        Patching twice is harmless.

    Raises:
        TypeError: `target` is none of these.
        ValueError: no module of that name can be imported.
    """
    replaced, left, new = [], [], []
    for module in _modules_of(target):
        for name, value in _rotations_in(module):
            names = module.__name__, name
            if isinstance(value, str):
                left.append(Left(*names, value))
                continue
            try:
                ours = _ours_for(value)
            except UnknownCode as reason:
                left.append(Left(*names, str(reason)))
                continue
            replaced.append(Replaced(*names))
            known = _patched.get((module, name))
            if known is None or not known.is_ours:
                one = _Global(module, name, original_of(value), ours)
                setattr(module, name, ours)
                _patched[module, name] = one
                new.append(one)
    return Patched(tuple(replaced), tuple(left), tuple(new))


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
        if modules is None or one.module in modules:
            _put_back(one)


def _put_back(one: _Global) -> None:
    one.put_back()
    if _patched.get((one.module, one.name)) is one:
        del _patched[one.module, one.name]


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
            accepted = "the name of a module, or of a family of transformers, as 'llama'"
            came = f"target is {target!r}, and {name} cannot be imported ({error})"
            raise ValueError(f"{came}; accepted: {accepted}") from error
    if not isinstance(target, nn.Module):
        accepted = "a torch.nn.Module, a module of Python, or the name of one"
        raise TypeError(f"target is of type {type(target).__name__}; accepted: {accepted}")
    classes = {cls for part in target.modules() for cls in type(part).__mro__}
    names = {cls.__module__ for cls in classes}
    own = sorted(name for name in names if name.partition(".")[0] not in ("torch", "builtins"))
    return [sys.modules[name] for name in own if name in sys.modules]


def _rotations_in(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The names in a module that may rotate, with their objects, or with the reason to leave them.

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
    yield from ((name, value) for name, value in found.items() if name not in helpers)
    for cls in list(vars(module).values()):
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            for name, method in vars(cls).items():
                if ROTATES.search(name) and isinstance(method, FunctionType):
                    yield f"{cls.__name__}.{name}", METHOD


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
    by_kernel = known.form(known.rule, value)

    @functools.wraps(function_of(value))
    def ours(*args, **kwargs):
        # a compiler fuses the function's own operators with those around them
        return (value if is_traced() else by_kernel)(*args, **kwargs)

    setattr(ours, REPLACES, (ours, value))
    return ours
