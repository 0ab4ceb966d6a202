"""Read the frequencies of a layer from a model's configuration, as Hugging Face writes them.

By attributes or keys alone: transformers is not imported. Every error names the key, what came and
what is accepted.
"""

import math
import os
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from .arguments import as_number, is_number
from .config_checks import (
    OF_ONE_MODEL,
    SCALES,
    SECTION,
    check_beside,
    check_class_defaults,
    check_section,
)
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
# Beyond this, fp32 loses the 1 in `factor * s / M - (factor - 1)`, and the base may be negative.
_MOST_OF_DYNAMIC = 1e6
_NO_CONFIGURATION = (str, os.PathLike, int, float, list, tuple, type, nn.Module)


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

    def number(
        self, key: str, least: float = 0.0, above: bool = True, default=None, accepted: str = ""
    ):
        """A number above `least`, or from `least` on, that fp32 has room for; as it came."""
        value = self.get(key)
        accepted = accepted or f"a number {'above' if above else 'from'} {least:g}"
        if value is None and default is not None:
            return default
        if value is None:
            raise ValueError(f"{self.called(key)} is missing; accepted: {accepted}")
        fits = is_number(value) and (value > least or (value == least and not above))
        if not fits:
            raise ValueError(f"{self.called(key)} is {value!r}; accepted: {accepted}")
        if not _LEAST <= value <= _MOST:
            accepted = f"{accepted}, and from {_LEAST:g} to {_MOST:g}"
            raise ValueError(f"{self.called(key)} is {value!r}; accepted: {accepted}")
        return as_number(value)

    def integer(self, key: str) -> int:
        """A positive integer."""
        accepted = "a positive integer"
        value = self.number(key, accepted=accepted)
        if int(value) != value:
            raise ValueError(f"{self.called(key)} is {value!r}; accepted: {accepted}")
        return int(value)

    def unless_zero(self, key: str) -> object | None:
        """As it came; None for a 0, which counts as missing in transformers."""
        value = self.get(key)
        return None if is_number(value) and value == 0 else value

    def flag(self, key: str, default: bool) -> bool:
        """A bool."""
        value = default if self.get(key) is None else self.get(key)
        if not isinstance(value, bool):
            raise TypeError(f"{self.called(key)} is {value!r}; accepted: False, True")
        return value


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
    whole = Keys(_of_layer_type(config, layer_type))
    if whole.get("text_config") is not None and whole.get("head_dim") is None:
        came = "config has a text_config, and no head_dim of its own"
        raise ValueError(f"{came}; accepted: config.text_config")
    rope = _rope_of(whole, layer_type)
    if rope is None:
        return None
    check_beside(config, rope.held)
    layer = _reader_of(rope)(whole, rope)
    check_class_defaults(config, whole, rope, _head_dim(whole))
    return layer


def _reader_of(rope: Keys) -> Callable[[Keys, Keys], Layer]:
    """What reads the keys of this type."""
    accepted = ", ".join(map(repr, _TYPES))
    key = "type" if rope.get("rope_type") is None else "rope_type"
    rope_type = rope.get(key)
    if rope_type is None:
        scales = [key for key in SCALES if rope.get(key) is not None]
        if scales:
            came = f"{rope.called('rope_type')} is missing, and {scales[0]} came"
            raise ValueError(f"{came}; accepted: {accepted}")
        rope_type = "default"
    known = isinstance(rope_type, str)
    if known and rope_type == "mrope" and rope.get("mrope_section") is not None:
        rope_type = "default"  # before transformers 5
    read = _TYPES.get(rope_type) if known else None
    if read is None:
        came = f"{rope.called(key)} is {rope_type!r}"
        if known and rope_type == "axial":
            came, accepted = f"{came}, each model's own rule", f"{_THEIR_TABLES}; or {accepted}"
        raise ValueError(f"{came}; accepted: {accepted}")
    for key in OF_ONE_MODEL:
        if rope.get(key) is not None:
            came = f"{rope.called(key)} is {rope.get(key)!r}, a model's own rule"
            raise ValueError(f"{came}; accepted: {_THEIR_TABLES}")
    if rope.get("alpha") is not None and rope_type != "dynamic":
        came = f"{rope.called('alpha')} is {rope.get('alpha')!r} with type {rope_type!r}"
        raise ValueError(f"{came}; accepted with 'dynamic'")
    return read


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
    name = "rope_parameters"
    if given and old and given != old:
        raise ValueError("rope_scaling came with rope_parameters; accepted: one of the two")
    if not given and old:
        name, given = "rope_scaling", old
    given = {} if given is None else given
    types = [key for key in given if key not in _KEYS]
    nested = any(isinstance(given[key], Mapping) for key in types) or layer_type in types
    nested = nested or (bool(given) and all(value is None for value in given.values()))
    nested = nested and bool(types)
    known = types if nested else whole.get("layer_types")
    if not (known is None or isinstance(known, list | tuple)):
        raise TypeError(f"layer_types is {known!r}; accepted: a list")
    if layer_type is not None and known and layer_type not in known:
        accepted = ", ".join(map(repr, dict.fromkeys(known)))
        raise ValueError(f"layer_type is {layer_type!r}; accepted: {accepted}")
    local = None if nested else whole.get("rope_local_base_freq")
    if layer_type is None and (nested or local is not None):
        accepted = ", ".join(map(repr, types)) if nested else "'sliding_attention', or another one"
        came = f"{name} has" if nested else "config has a rope_local_base_freq:"
        raise ValueError(f"layer_type is None, and {came} several types; accepted: {accepted}")
    stray = [key for key in types if not isinstance(given[key], Mapping | None)]
    check_section(name, [key for key in stray if not (nested and key == layer_type)])
    if nested:
        given, name = given[layer_type], f"{name}[{layer_type!r}]"
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} is {given!r}; accepted: a dict, or None")
        check_section(name, [key for key, value in given.items() if value is not None])
    elif local is not None and layer_type == "sliding_attention":  # Gemma 3, as first published
        given = {"rope_theta": local}
    return Keys(_with_those_beside(given, whole, nested), name, nested)


def _with_those_beside(given: Mapping, whole: Keys, nested: bool) -> dict:
    """The keys of a dict, and those that a configuration may have outside of it."""
    found = {key: value for key, value in given.items() if value is not None}
    for key in ("rope_theta", "partial_rotary_factor"):
        if found.get(key) is None and whole.get(key) is not None:
            found[key] = whole.get(key)
    original = "original_max_position_embeddings"
    if not nested and whole.get(original) is not None:  # Phi 3: this one counts, not the dict's
        found[original] = whole.get(original)
    elif found.get(original) is None and whole.get("max_position_embeddings") is not None:
        found[original] = whole.get("max_position_embeddings")
    return found


def _head_dim(whole: Keys) -> int:
    """DeepSeek's files have the part of a head that turns instead of `head_dim`."""
    for key in ("head_dim", "qk_rope_head_dim"):
        if whole.get(key) is not None:
            return _narrow(whole.integer(key))
    for key in ("hidden_size", "num_attention_heads"):
        if whole.get(key) is None:
            accepted = "head_dim, or hidden_size and num_attention_heads"
            raise ValueError(f"head_dim is missing, and so is {key}; accepted: {accepted}")
    return _narrow(whole.integer("hidden_size") // whole.integer("num_attention_heads"))


def _narrow(head_dim: int) -> int:
    if head_dim > _WIDEST_HEAD:
        raise ValueError(f"head_dim is {head_dim}; accepted: up to {_WIDEST_HEAD}")
    return head_dim


def _rotary_dim(whole: Keys, rope: Keys) -> int:
    """d2."""
    share, head_dim = _share(rope), _head_dim(whole)
    rotary_dim = int(head_dim * share)
    if rotary_dim < 2 or rotary_dim % 2:
        computed = all(whole.get(key) is None for key in ("head_dim", "qk_rope_head_dim"))
        came = f"hidden_size // num_attention_heads = {head_dim}" if computed else head_dim
        came = f"head_dim = {came} and partial_rotary_factor = {share} give {rotary_dim}"
        raise ValueError(f"{came} rotary dimensions; accepted: an even number, at least 2")
    return rotary_dim


def _share(rope: Keys) -> float:
    share = rope.number("partial_rotary_factor", default=1.0)
    if share > 1:
        came = f"{rope.called('partial_rotary_factor')} is {share!r}"
        raise ValueError(f"{came}; accepted: a number above 0, up to 1")
    return share


def _geometric(whole: Keys, rope: Keys) -> dict:
    return {"rotary_dim": _rotary_dim(whole, rope), "base": _base(whole, rope)}


def _base(whole: Keys, rope: Keys) -> float:
    given = map(whole.get, ("rope_parameters", "rope_scaling", "rope_theta"))
    if rope.get("rope_theta") is None and not any(given):
        came = "rope_theta is missing, and so is rope_parameters"
        raise ValueError(f"{came}; accepted: the configuration of a model that has one of them")
    if whole.get("image_size") is not None and whole.get("patch_size") is not None:
        came = "config is of images (image_size, patch_size), each model's own rule"
        raise ValueError(f"{came}; accepted: {_THEIR_TABLES}")
    return rope.number("rope_theta")


def _default(whole: Keys, rope: Keys) -> Layer:
    return Layer(Geometric(**_geometric(whole, rope)), 1.0)


def _linear(whole: Keys, rope: Keys) -> Layer:
    factor = rope.number("factor", 1, above=False)
    return Layer(Linear(**_geometric(whole, rope), factor=factor), 1.0)


def _dynamic(whole: Keys, rope: Keys) -> Layer:
    given = _geometric(whole, rope)
    if given["rotary_dim"] < 4:
        came = f"{rope.called('rope_type')} is 'dynamic' with {given['rotary_dim']}"
        raise ValueError(f"{came} rotary dimensions; accepted: at least 4")
    if rope.unless_zero("alpha") is not None:
        return _stretched(whole, rope, given)
    factor, length = rope.number("factor", 1, False), whole.integer("max_position_embeddings")
    if factor > _MOST_OF_DYNAMIC:
        came = f"{rope.called('factor')} is {factor!r}"
        raise ValueError(f"{came}; accepted with 'dynamic': up to {_MOST_OF_DYNAMIC:g}")
    return Layer(Dynamic(**given, factor=factor, max_position_embeddings=length), 1.0)


def _stretched(whole: Keys, rope: Keys, given: dict) -> Layer:
    """HunYuan's `alpha`: such a model ignores `factor`, and others ignore `alpha`."""
    frequencies, model = Stretched(**given, alpha=rope.number("alpha")), whole.get("model_type")
    came = f"{rope.called('alpha')} is {frequencies.alpha!r}"
    if isinstance(model, str) and not model.startswith("hunyuan"):
        came = f"{came} for model_type {model!r}, which ignores it"
        raise ValueError(f"{came}; accepted: HunYuan's, or no alpha")
    if frequencies.stretched_base > _MOST:
        raise ValueError(f"{came}; accepted: a number with which the base stays below {_MOST:g}")
    return Layer(frequencies, 1.0)


def _llama3(whole: Keys, rope: Keys) -> Layer:
    low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
    if high <= low:
        came = f"{rope.called('high_freq_factor')} is {high!r}"
        raise ValueError(f"{came}; accepted: a number above low_freq_factor = {low!r}")
    frequencies = Llama3(
        **_geometric(whole, rope),
        factor=rope.number("factor", 1, above=False),
        low_freq_factor=low,
        high_freq_factor=high,
        original_max_position_embeddings=rope.integer("original_max_position_embeddings"),
    )
    return Layer(frequencies, 1.0)


def _proportional(whole: Keys, rope: Keys) -> Layer:
    head_dim = _head_dim(whole)
    if head_dim % 2:
        raise ValueError(f"head_dim is {head_dim}; accepted: an even number, at least 2")
    frequencies = Proportional(
        rotary_dim=head_dim,
        base=_base(whole, rope),
        factor=rope.number("factor", default=1.0),
        partial_rotary_factor=_share(rope),
    )
    return Layer(frequencies, 1.0)


def _yarn(whole: Keys, rope: Keys) -> Layer:
    if lists := [key for key in ("short_factor", "long_factor") if rope.get(key) is not None]:
        raise ValueError(f"{rope.called(lists[0])} came with 'yarn'; accepted with 'longrope'")
    original, factor = _lengths(whole, rope)
    if rope.get("factor") is None and factor == 1:
        raise ValueError(f"{rope.called('factor')} is missing; accepted: a number from 1")
    if factor < 1:
        came = f"{rope.called('original_max_position_embeddings')} is {original}"
        longest = whole.get("max_position_embeddings")
        accepted = f"up to max_position_embeddings = {longest}"
        raise ValueError(f"{came} without factor; accepted: {accepted}, or a factor from 1")
    fast, slow = (
        default if rope.unless_zero(key) is None else rope.number(key)
        for key, default in (("beta_fast", 32), ("beta_slow", 1))
    )
    if fast < slow:
        came = f"{rope.called('beta_fast')} is {fast!r}"
        raise ValueError(f"{came}; accepted: a number from beta_slow = {slow!r} on")
    given = _geometric(whole, rope)
    if given["base"] == 1:
        raise ValueError(f"{rope.called('rope_theta')} is 1; accepted with 'yarn': above 1")
    frequencies = Yarn(
        **given,
        factor=factor,
        beta_fast=fast,
        beta_slow=slow,
        original_max_position_embeddings=original,
        truncate=rope.flag("truncate", default=True),
    )
    return Layer(frequencies, _attention_factor(rope, lambda: _of_yarn(rope, factor)))


def _longrope(whole: Keys, rope: Keys) -> Layer:
    original, factor = _lengths(whole, rope)
    given = _geometric(whole, rope)
    pairs = given["rotary_dim"] // 2
    frequencies = LongRope(
        **given,
        short_factor=_list_of(rope, "short_factor", pairs),
        long_factor=_list_of(rope, "long_factor", pairs),
        original_max_position_embeddings=original,
    )

    def default() -> float:
        if factor > 1 and original == 1:
            came = f"{rope.called('original_max_position_embeddings')} is 1"
            raise ValueError(f"{came}; accepted with 'longrope': an integer from 2")
        return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0

    return Layer(frequencies, _attention_factor(rope, default))


def _lengths(whole: Keys, rope: Keys) -> tuple[int, float]:
    """The original length in positions, and by how much it grows: as given, or their ratio."""
    original = rope.integer("original_max_position_embeddings")
    if rope.get("factor") is not None:
        return original, rope.number("factor", 1, above=False)
    return original, whole.integer("max_position_embeddings") / original


def _list_of(rope: Keys, key: str, count: int) -> tuple[float, ...]:
    value, accepted = rope.get(key), f"{count} positive numbers, one for each pair"
    if value is None:
        raise ValueError(f"{rope.called(key)} is missing; accepted: {accepted}")
    if not isinstance(value, list | tuple):
        raise ValueError(f"{rope.called(key)} is {reprlib.repr(value)}; accepted: {accepted}")
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


_TYPES: dict[str, Callable[[Keys, Keys], Layer]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,  # its first name, in Phi 3's files
    "llama3": _llama3,
    "proportional": _proportional,
}
_THEIR_TABLES = "the model's own (cos, sin) as freqs, without a module"
# of a flat `rope_parameters`; other keys are types of layers, if they hold dicts or None
_KEYS = SECTION | set(OF_ONE_MODEL)
