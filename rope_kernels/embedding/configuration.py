"""Read the frequencies of a layer from a model's configuration, as Hugging Face writes them.

By attributes or keys alone: transformers is not imported. A key that would change angles and is not
read is refused, whoever holds it: every unread key of the rotation's own dict, and beside it every
unread name that speaks of a rotation. Every error names the key, what came and what is accepted.
"""

import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from .arguments import as_number, is_number
from .frequencies import (
    Dynamic,
    Geometric,
    Linear,
    Llama3,
    LongRope,
    Proportional,
    Stretched,
    Yarn,
)

# Beyond these, fp32 overflows somewhere between the keys and an angle.
_LEAST, _MOST = 1e-18, 1e18
_WIDEST_HEAD = 65536
_NO_CONFIGURATION = (str, os.PathLike, int, float, list, tuple, type, nn.Module)
_ORIGINAL = "original_max_position_embeddings"
_OWN_TABLES = "the model's own (cos, sin) as freqs, without a module"

# Keys of a rotation that every type has. Sections (M-RoPE) change no frequency.
_OF_ALL = "rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section"
_OF_ALL += ("mrope_interleaved",)
# Published files have these in the dict of a rotation, and no frequency depends on them.
_WITHOUT_EFFECT = "finetuned", "llama_4_scaling_beta", "max_position_embeddings"
# HunYuan's files have YaRN's keys beside `alpha`, and its models ignore them.
_BESIDE_ALPHA = "beta_fast", "beta_slow", "mscale", "mscale_all_dim"

# Names that speak of a rotation ("property" doesn't), those that are read, and those that say in
# which layers and which pairing heads turn, which are the caller's to know.
_OF_ROTATIONS = re.compile(r"rope(?!rt)|rotary|ntk|partial", re.IGNORECASE)
_READ = "partial_rotary_factor", "qk_rope_head_dim", "rope_local_base_freq", "rope_parameters"
_READ += "rope_scaling", "rope_theta", "rotary_dim"
_OF_LAYERS = "no_rope_layers", "no_rope_layer_interval", "rope_interleave"
_OF_TRANSFORMERS = ("ignore_keys_at_rope_validation",)


@dataclass(frozen=True)
class Layer:
    """How the heads of a layer turn."""

    frequencies: Geometric
    attention_factor: float  # multiplies cos and sin


class Keys:
    """The keys of a dict, or the attributes of a configuration: present if they are not None."""

    def __init__(self, held: object, name: str = "", nested: bool = False) -> None:
        self.held, self.name, self.nested = held, name, nested

    def get(self, key: str) -> object | None:
        if isinstance(self.held, Mapping):
            return self.held.get(key)
        return getattr(self.held, key, None)

    def called(self, key: str) -> str:
        """The key as a message names it."""
        return f"{self.name}[{key!r}]" if self.name else key

    def number(self, key: str, least: float = 0.0, default: float | None = None):
        """A number from `least` on, or above 0, that fp32 has room for; as it came."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        accepted = f"a number from {least:g}" if least else "a number above 0"
        if value is None:
            raise ValueError(f"{self.called(key)} is missing; accepted: {accepted}")
        if not (is_number(value) and value > 0 and value >= least):
            raise ValueError(f"{self.called(key)} is {value!r}; accepted: {accepted}")
        if not _LEAST <= value <= _MOST:
            accepted = f"{accepted}, and from {_LEAST:g} to {_MOST:g}"
            raise ValueError(f"{self.called(key)} is {value!r}; accepted: {accepted}")
        return as_number(value)

    def integer(self, key: str) -> int:
        """A positive integer."""
        value = self.get(key)
        if not (is_number(value) and 0 < value <= _MOST and int(value) == value):
            came = "missing" if value is None else repr(value)
            raise ValueError(f"{self.called(key)} is {came}; accepted: a positive integer")
        return int(value)

    def unless_zero(self, key: str) -> object | None:
        """As it came; None for a 0, which counts as missing in transformers."""
        value = self.get(key)
        return None if is_number(value) and value == 0 else value


def read_layer(config: object, layer_type: str | None) -> Layer | None:
    """How the layers of this type turn; None if they don't.

    Raises:
        ValueError, TypeError: as in `RotaryPositionEmbedding.from_config`.
    """
    if config is None or isinstance(config, _NO_CONFIGURATION):
        came = f"config is of type {type(config).__name__}"
        raise TypeError(f"{came}; accepted: a model's configuration, or a dict with its keys")
    if not (layer_type is None or isinstance(layer_type, str)):
        raise TypeError(f"layer_type is {layer_type!r}; accepted: None, or a str")
    _refuse_without_its_class(config)
    _refuse_unread_names(config)
    whole = Keys(_of_layer_type(config, layer_type))
    if whole.get("text_config") is not None and whole.get("head_dim") is None:
        came = "config has a text_config, and no head_dim of its own"
        raise ValueError(f"{came}; accepted: config.text_config")
    rope = _rope_of(whole, layer_type)
    if rope is None:
        return None
    read, keys = _TYPES[_type_of(rope)]
    _refuse_unread_keys(rope, keys)
    return read(whole, _with_those_beside(rope, whole))


# What is not read


def _is_of_transformers(config: object) -> bool:
    named = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(config).__mro__]
    return any(("transformers", name) in named for name in ("PreTrainedConfig", "PretrainedConfig"))


def _refuse_without_its_class(config: object) -> None:
    """A `model_type` promises the defaults of a class, which other holders lack."""
    model = Keys(config).get("model_type")
    own = _is_of_transformers(config) and getattr(type(config), "model_type", None) == model
    if model in (None, "") or own:
        return
    came = f"config is of type {type(config).__name__} with model_type {model!r}, and lacks what "
    came += "the configuration class of that model adds"
    accepted = "transformers.AutoConfig.for_model(**keys), or AutoConfig.from_pretrained; or all "
    accepted += "keys that the model reads, without model_type"
    raise ValueError(f"{came}; accepted: {accepted}")


def _refuse_unread_names(config: object) -> None:
    """What stands beside the dict of a rotation, speaks of one, and is not read."""
    if isinstance(config, Mapping):
        names = [name for name in config if isinstance(name, str)]
    elif _is_of_transformers(config):
        names = list(vars(config))  # its class has defaults for any model
    else:
        names = [name for name in dir(config) if not name.startswith("_")]
    for name in names:
        if name in (*_READ, *_OF_LAYERS, *_OF_TRANSFORMERS) or not _OF_ROTATIONS.search(name):
            continue
        value = Keys(config).get(name)
        if value is not None and not callable(value):
            raise _unread(f"{name} is {reprlib.repr(value)}, which is not read here", _READ)


def _refuse_unread_keys(rope: Keys, of_type: tuple[str, ...]) -> None:
    known = *_OF_ALL, *of_type
    beside = _BESIDE_ALPHA if rope.get("alpha") is not None else ()
    for key, value in rope.held.items():
        if value is not None and key not in (*known, *_WITHOUT_EFFECT, *beside):
            came = f"{rope.called(key)} is {reprlib.repr(value)}, which {_type_of(rope)!r} does not"
            raise _unread(f"{came} read", known)


def _unread(came: str, known: Iterable[str]) -> ValueError:
    how = f"Leave it out if no angle depends on it; otherwise pass {_OWN_TABLES}"
    return ValueError(f"{came}; accepted: {', '.join(sorted(known))}. {how}")


# The dict of a rotation


def _of_layer_type(config: object, layer_type: str | None) -> object:
    """The configuration of this type of layer, where each has its own (Gemma 4's `head_dim`)."""
    try:
        return config if layer_type is None else config.per_layer_config[layer_type]
    except (AttributeError, KeyError, TypeError, ValueError):
        return config


def _rope_of(whole: Keys, layer_type: str | None) -> Keys | None:
    """The keys of this type of layer, with those that stand beside them; None: no rotation."""
    given, old = whole.get("rope_parameters"), whole.get("rope_scaling")
    for name, came in (("rope_parameters", given), ("rope_scaling", old)):
        if not (came is None or isinstance(came, Mapping)):
            raise TypeError(f"{name} is {came!r}; accepted: a dict")
    if given and old and given != old:
        raise ValueError("rope_scaling came with rope_parameters; accepted: one of the two")
    name, given = ("rope_parameters", given) if given or not old else ("rope_scaling", old)
    given = given or {}
    named = [key for key in given if key not in _KEYS]
    nested = [key for key in named if isinstance(given[key], Mapping)]
    layers = whole.get("layer_types")
    layers = layers if isinstance(layers, list | tuple) else ()
    if nested or any(key == layer_type or key in layers for key in named):
        nested += [key for key in named if given[key] is None]
    known = nested or layers
    local = None if nested else whole.get("rope_local_base_freq")
    if layer_type is None and (nested or local is not None):
        accepted = ", ".join(map(repr, nested)) if nested else "'sliding_attention', or another one"
        came = f"{name} has" if nested else "config has a rope_local_base_freq:"
        raise ValueError(f"layer_type is None, and {came} several types; accepted: {accepted}")
    if nested:
        for key, value in given.items():
            if value is not None and key not in nested:
                came = f"{name}[{key!r}] is {reprlib.repr(value)}"
                raise _unread(f"{came}, beside dicts of types of layers", nested)
    if layer_type is not None and known and layer_type not in known:
        accepted = ", ".join(map(repr, dict.fromkeys(known)))
        raise ValueError(f"layer_type is {layer_type!r}; accepted: {accepted}")
    if nested:
        of_type = given[layer_type]
        return None if of_type is None else Keys(of_type, f"{name}[{layer_type!r}]", nested=True)
    if local is not None and layer_type == "sliding_attention":  # Gemma 3, as first published
        given = {"rope_theta": local}
    return Keys(given, name)


def _with_those_beside(rope: Keys, whole: Keys) -> Keys:
    """The keys of a dict, and those that a configuration may have outside of it."""
    found = {key: value for key, value in rope.held.items() if value is not None}
    share = "partial_rotary_factor"
    if None not in (rope.get(share), whole.get(share)) and rope.get(share) != whole.get(share):
        came = f"{share} is {whole.get(share)!r}, and {rope.called(share)} is {rope.get(share)!r}"
        raise ValueError(f"{came}; accepted: one of the two")
    for key in ("rope_theta", share):
        if found.get(key) is None and whole.get(key) is not None:
            found[key] = whole.get(key)
    # Phi 3 has it in both places, and the one beside counts.
    if not rope.nested and whole.get(_ORIGINAL) is not None:
        found[_ORIGINAL] = whole.get(_ORIGINAL)
    elif found.get(_ORIGINAL) is None and whole.get("max_position_embeddings") is not None:
        found[_ORIGINAL] = whole.get("max_position_embeddings")
    return Keys(found, rope.name)


def _type_of(rope: Keys) -> str:
    key = "type" if rope.get("rope_type") is None else "rope_type"
    rope_type = "default" if rope.get(key) is None else rope.get(key)
    if rope_type == "mrope" and rope.get("mrope_section") is not None:
        rope_type = "default"  # before transformers 5
    if not (isinstance(rope_type, str) and rope_type in _TYPES):
        accepted = f"{', '.join(map(repr, _TYPES))}; or {_OWN_TABLES}"
        raise ValueError(f"{rope.called(key)} is {rope_type!r}; accepted: {accepted}")
    return rope_type


# How many elements turn


def _head_dim(whole: Keys) -> int:
    """DeepSeek's files have the part of a head that turns instead of `head_dim`."""
    for key in ("head_dim", "qk_rope_head_dim"):
        if whole.unless_zero(key) is not None:
            return whole.integer(key)
    for key in ("hidden_size", "num_attention_heads"):
        if whole.get(key) is None:
            accepted = "head_dim, or hidden_size and num_attention_heads"
            raise ValueError(f"head_dim is missing, and so is {key}; accepted: {accepted}")
    return whole.integer("hidden_size") // whole.integer("num_attention_heads")


def _even(said: str, width: int) -> int:
    if width < 2 or width % 2 or width > _WIDEST_HEAD:
        came = f"{said} says that {width} elements of a head turn"
        raise ValueError(f"{came}; accepted: an even number from 2 to {_WIDEST_HEAD}")
    return width


def _rotary_dim(whole: Keys, rope: Keys) -> int:
    """d2. What says how many elements of a head turn has to say the same."""
    said = {}
    for key in ("rotary_dim", "qk_rope_head_dim"):
        if whole.unless_zero(key) is not None:
            said[key] = whole.integer(key)
    if rope.get("partial_rotary_factor") is not None:
        head_dim, share = _head_dim(whole), _share(rope)
        said[f"partial_rotary_factor = {share} of head_dim = {head_dim}"] = int(head_dim * share)
    elif "rotary_dim" not in said and (whole.get("head_dim") is not None or not said):
        computed = whole.get("head_dim") is None
        said["hidden_size // num_attention_heads" if computed else "head_dim"] = _head_dim(whole)
    (first, rotary_dim), *others = said.items()
    for other, width in others:
        if width != rotary_dim:
            came = f"{first} says that {rotary_dim} elements of a head turn, and {other} that"
            accepted = "keys that agree, or rotary_dim beside head_dim"
            raise ValueError(f"{came} {width} do; accepted: {accepted}")
    if whole.get("head_dim") is not None and rotary_dim > whole.integer("head_dim"):
        came = f"{first} is {rotary_dim} with head_dim = {whole.get('head_dim')!r}"
        raise ValueError(f"{came}; accepted: up to head_dim")
    return _even(first, rotary_dim)


def _share(rope: Keys) -> float:
    share = rope.number("partial_rotary_factor", default=1.0)
    if share > 1:
        came = f"{rope.called('partial_rotary_factor')} is {share!r}"
        raise ValueError(f"{came}; accepted: a number above 0, up to 1")
    return share


# Each type


def _geometric(whole: Keys, rope: Keys) -> dict:
    return {"rotary_dim": _rotary_dim(whole, rope), "base": _base(whole, rope)}


def _base(whole: Keys, rope: Keys) -> float:
    given = map(whole.get, ("rope_parameters", "rope_scaling", "rope_theta"))
    if rope.get("rope_theta") is None and not any(given):
        came = "rope_theta is missing, and so is rope_parameters"
        raise ValueError(f"{came}; accepted: the configuration of a model that has one of them")
    if whole.get("image_size") is not None and whole.get("patch_size") is not None:
        came = "config is of images (image_size, patch_size), each model's own rule"
        raise ValueError(f"{came}; accepted: {_OWN_TABLES}")
    return rope.number("rope_theta")


def _default(whole: Keys, rope: Keys) -> Layer:
    return Layer(Geometric(**_geometric(whole, rope)), 1.0)


def _linear(whole: Keys, rope: Keys) -> Layer:
    return Layer(Linear(**_geometric(whole, rope), factor=rope.number("factor", 1)), 1.0)


def _dynamic(whole: Keys, rope: Keys) -> Layer:
    given = _geometric(whole, rope)
    if given["rotary_dim"] < 4:
        came = f"{rope.called('rope_type')} is 'dynamic' with {given['rotary_dim']}"
        raise ValueError(f"{came} rotary dimensions; accepted: at least 4")
    if rope.unless_zero("alpha") is not None:  # HunYuan's, which ignores `factor`
        return Layer(Stretched(**given, alpha=rope.number("alpha")), 1.0)
    factor, length = rope.number("factor", 1), whole.integer("max_position_embeddings")
    return Layer(Dynamic(**given, factor=factor, max_position_embeddings=length), 1.0)


def _llama3(whole: Keys, rope: Keys) -> Layer:
    low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
    if high <= low:
        came = f"{rope.called('high_freq_factor')} is {high!r}"
        raise ValueError(f"{came}; accepted: a number above low_freq_factor = {low!r}")
    frequencies = Llama3(
        **_geometric(whole, rope),
        factor=rope.number("factor", 1),
        low_freq_factor=low,
        high_freq_factor=high,
        original_max_position_embeddings=rope.integer(_ORIGINAL),
    )
    return Layer(frequencies, 1.0)


def _proportional(whole: Keys, rope: Keys) -> Layer:
    for key in ("rotary_dim", "qk_rope_head_dim"):
        if whole.unless_zero(key) is not None:
            came = f"{key} came with 'proportional', where a share of head_dim's pairs turns"
            raise ValueError(f"{came}; accepted: partial_rotary_factor")
    frequencies = Proportional(
        rotary_dim=_even("head_dim", _head_dim(whole)),
        base=_base(whole, rope),
        factor=rope.number("factor", default=1.0),
        partial_rotary_factor=_share(rope),
    )
    return Layer(frequencies, 1.0)


def _yarn(whole: Keys, rope: Keys) -> Layer:
    original, factor = _lengths(whole, rope)
    if rope.get("factor") is None and factor <= 1:
        came = f"{rope.called('factor')} is missing, and {_ORIGINAL} = {original}"
        accepted = "a number from 1, or an original length below max_position_embeddings"
        raise ValueError(f"{came}; accepted: {accepted}")
    fast, slow = (
        default if rope.unless_zero(key) is None else rope.number(key)
        for key, default in (("beta_fast", 32), ("beta_slow", 1))
    )
    if fast < slow:
        came = f"{rope.called('beta_fast')} is {fast!r}"
        raise ValueError(f"{came}; accepted: a number from beta_slow = {slow!r} on")
    given, truncate = _geometric(whole, rope), rope.get("truncate")
    if given["base"] == 1:
        raise ValueError(f"{rope.called('rope_theta')} is 1; accepted with 'yarn': above 1")
    if not isinstance(truncate, bool | None):
        raise TypeError(f"{rope.called('truncate')} is {truncate!r}; accepted: False, True")
    frequencies = Yarn(
        **given,
        factor=factor,
        beta_fast=fast,
        beta_slow=slow,
        original_max_position_embeddings=original,
        truncate=truncate is not False,
    )
    return Layer(frequencies, _attention_factor(rope, lambda: _of_yarn(rope, factor)))


def _longrope(whole: Keys, rope: Keys) -> Layer:
    original, factor = _lengths(whole, rope)
    if original == 1:
        raise ValueError(f"{rope.called(_ORIGINAL)} is 1; accepted with 'longrope': from 2")
    given = _geometric(whole, rope)
    pairs = given["rotary_dim"] // 2
    frequencies = LongRope(
        **given,
        short_factor=_list_of(rope, "short_factor", pairs),
        long_factor=_list_of(rope, "long_factor", pairs),
        original_max_position_embeddings=original,
    )

    def default() -> float:
        return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0

    return Layer(frequencies, _attention_factor(rope, default))


def _lengths(whole: Keys, rope: Keys) -> tuple[int, float]:
    """The original length in positions, and by how much it grows: as given, or their ratio."""
    original = rope.integer(_ORIGINAL)
    if rope.get("factor") is not None:
        return original, rope.number("factor", 1)
    return original, whole.integer("max_position_embeddings") / original


def _list_of(rope: Keys, key: str, count: int) -> tuple[float, ...]:
    value, accepted = rope.get(key), f"{count} positive numbers, one for each pair"
    if not isinstance(value, list | tuple):
        came = "missing" if value is None else reprlib.repr(value)
        raise ValueError(f"{rope.called(key)} is {came}; accepted: {accepted}")
    if len(value) != count:
        raise ValueError(f"{rope.called(key)} has {len(value)} numbers; accepted: {accepted}")
    for i, x in enumerate(value):
        if not (is_number(x) and _LEAST <= x <= _MOST):
            raise ValueError(f"{rope.called(key)}[{i}] is {x!r}; accepted: {accepted}")
    return tuple(map(as_number, value))


def _attention_factor(rope: Keys, default: Callable[[], float]) -> float:
    if rope.get("attention_factor") is None:
        return default()
    return float(rope.number("attention_factor"))


def _of_yarn(rope: Keys, factor: float) -> float:
    if any(rope.unless_zero(key) is None for key in ("mscale", "mscale_all_dim")):
        return _magnitude(factor, 1)
    scale, scale_all = rope.number("mscale"), rope.number("mscale_all_dim")
    return float(_magnitude(factor, scale) / _magnitude(factor, scale_all))


def _magnitude(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


_OF_LONGROPE = "short_factor", "long_factor", "factor", _ORIGINAL, "attention_factor"
_OF_YARN = "factor", _ORIGINAL, "beta_fast", "beta_slow", "truncate"
_OF_YARN += "attention_factor", "mscale", "mscale_all_dim"
# what reads a type, and the keys that it reads beside those of all types
_TYPES: dict[str, tuple[Callable[[Keys, Keys], Layer], tuple[str, ...]]] = {
    "default": (_default, ()),
    "linear": (_linear, ("factor",)),
    "dynamic": (_dynamic, ("factor", "alpha")),
    "yarn": (_yarn, _OF_YARN),
    "longrope": (_longrope, _OF_LONGROPE),
    "su": (_longrope, _OF_LONGROPE),  # its first name, in Phi 3's files
    "llama3": (_llama3, ("factor", "low_freq_factor", "high_freq_factor", _ORIGINAL)),
    "proportional": (_proportional, ("factor",)),
}
_KEYS = {*_OF_ALL, *(key for _, keys in _TYPES.values() for key in keys)}
