"""Read from a model's configuration how far each pair turns.

Keys have the names that Hugging Face gives them, as attributes or in a dict; transformers is not
imported. Some are in the rotation's own dict (`rope_parameters`, formerly `rope_scaling`), others
are outside it. A key that we don't read might change every angle, so it is refused by its name: any
other key of the dict, and outside the dict any other name that speaks of a rotation. Every error
names the key, what came and what is accepted.
"""

import inspect
import math
import os
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from numbers import Integral, Real

from torch import Tensor, nn

from ..checks import bad, is_number
from ..embedding import default
from ..scaling import dynamic, linear, llama3, longrope, proportional, yarn

Formula = Callable[..., Tensor | tuple[Tensor, float]]
Keys = Mapping[str, object]

# By what a configuration calls them. "su" was Phi 3's first name of longrope, and transformers
# before 5 had a type "mrope", whose frequencies are the plain ones.
_FORMULAS: dict[str, Formula] = {
    "default": default,
    "linear": linear,
    "dynamic": dynamic,
    "yarn": yarn,
    "longrope": longrope,
    "llama3": llama3,
    "proportional": proportional,
    "su": longrope,
    "mrope": default,
}

_ORIGINAL_LENGTH = "original_max_position_embeddings"
_SHARE = "partial_rotary_factor"  # of the width of a head

# What the rotation's dict may have, whatever its type.
_KEYS_OF_ALL_TYPES = (
    "rope_type",
    "type",
    "rope_theta",
    _SHARE,
    "mrope_section",  # sections (M-RoPE) deal pairs out to several axes, and change no frequency
    "mrope_interleaved",
    "finetuned",  # this and the following have no effect in published files
    "llama_4_scaling_beta",
    "max_position_embeddings",
)

# How many elements of a head turn, or how wide it is: the first of these that is there counts.
_WIDTHS = ("rotary_dim", "qk_rope_head_dim", "head_dim")

# What is read outside the dict.
_OUTER_KEYS = (
    *_WIDTHS,
    "hidden_size",
    "num_attention_heads",
    "max_position_embeddings",
    "rope_theta",
    _SHARE,
)

# A name outside the dict that speaks of a rotation has to be one of `_OUTER_NAMES`. ("property"
# doesn't speak of one.) The last four change no frequency: which layers rotate, and in which
# pairing, is for the caller to know.
_SPEAKS_OF_A_ROTATION = re.compile(r"rope(?!rt)|rotary|ntk|partial", re.IGNORECASE)
_OUTER_NAMES = (
    *_OUTER_KEYS,
    "rope_parameters",
    "rope_scaling",
    "rope_interleave",
    "no_rope_layers",
    "no_rope_layer_interval",
    "ignore_keys_at_rope_validation",
)

# transformers takes a 0 of these for a key that was left out, and so do we.
_ZERO_IS_MISSING = (*_WIDTHS, "beta_fast", "beta_slow", "mscale", "mscale_all_dim")

# The families of transformers with a function that rotates neighbors, as their folders are named. A
# test holds them against the rules, and has the four without a rule.
ROTATE_NEIGHBORS = (
    "axk1",
    "axk2",
    "bailing_hybrid",
    "blt",
    "codegen",
    "cohere",
    "cohere2",
    "cohere2_moe",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "dots3_note",
    "efficientloftr",
    "ernie4_5",
    "ernie4_5_moe",
    "ernie4_5_vl_moe",
    "glm",
    "glm4",
    "glm4_moe_lite",
    "glm4v",
    "glm_moe_dsa",
    "glm_ocr",
    "gptj",
    "helium",
    "inkling2",
    "lightglue",
    "llama4",
    "longcat_flash",
    "mistral4",
    "mistral_large4",
    "moonshine",
    "moonshine_streaming",
    "openai_privacy_filter",
    "youtu",
)

_NO_CONFIGURATION = (str, os.PathLike, int, float, list, tuple, type, nn.Module, type(None))
_OWN_TABLES = "the model's own (cos, sin) as freqs, without a module"


def read_layer(
    config: object, layer_type: str | None, seq_len: float | None
) -> tuple[Tensor, float] | None:
    """Read how layers of one type rotate, by the arguments of `from_config`.

    Returns:
        Frequencies, (d2 / 2,) in radians a position, fp32 on the CPU; and the factor of cos and
        sin, which is 1 for most types. None if such layers don't rotate.

    Raises:
        ValueError, TypeError: as `from_config`.
    """
    _check_config(config)
    config = _config_of_layers(config, layer_type)
    rope, has_dict_per_type = _rotation_of(config, layer_type)
    if rope is None:
        return None
    formula = _formula_of(rope)
    keys = _all_keys(config, rope, has_dict_per_type)
    if formula in (yarn, longrope) and "factor" not in keys:
        growth = _integer(keys, "max_position_embeddings") / _integer(keys, _ORIGINAL_LENGTH)
        if growth > 1:
            keys["factor"] = growth
    rotary_dim, base = _rotary_dim(keys, formula), _number(keys, "rope_theta")
    arguments: dict[str, object] = {
        key: _value(keys, key, parameter.annotation, pairs=rotary_dim // 2)
        for key, parameter in _keys_of(formula).items()
        if key in keys or parameter.default is parameter.empty
    }
    if formula in (dynamic, longrope):
        arguments["seq_len"] = seq_len
    try:
        found = formula(rotary_dim, base, **arguments)
    except ZeroDivisionError:  # a base or an original length of 1, or one pair
        came = f"{formula.__name__} divides by 0 with rope_theta = {base} and d2 = {rotary_dim}"
        raise bad(came, "other numbers, or an original length above 1") from None
    return found if isinstance(found, tuple) else (found, 1.0)


# The configuration


def pairing_of(config: object, interleaved: bool | None) -> bool:
    """Whether pairs are neighbors: as the caller says, or else halves.

    Raises:
        TypeError: the caller doesn't say it, and models of this configuration rotate neighbors.
    """
    if interleaved is not None:
        return interleaved
    modules = [kind.__module__ for kind in type(config).__mro__]
    folders = [x.split(".")[2] for x in modules if x.startswith("transformers.models.")]
    if folders and folders[0] in ROTATE_NEIGHBORS:
        came = f"interleaved is missing, and models of {folders[0]} rotate neighbors"
        halves = "interleaved=False, if yours turns halves, by its weights or its configuration"
        raise bad(came, f"interleaved=True, or {halves}", TypeError)
    return False


def _check_config(config: object) -> None:
    """Check that it is a configuration, complete, and without an unread name of a rotation.

    A dict with a `model_type` is not complete: it lacks the defaults of that model's class, which
    transformers alone knows. So does an object of another class.
    """
    if isinstance(config, _NO_CONFIGURATION):
        accepted = "a model's configuration, or a dict with its keys"
        raise bad(f"config is of type {type(config).__name__}", accepted, TypeError)
    model = _get(config, "model_type")
    if model and getattr(type(config), "model_type", None) != model:
        came = f"config is of type {type(config).__name__} with model_type {model!r}"
        made = "transformers.AutoConfig.from_pretrained(folder), or .for_model(**config) of a dict"
        accepted = f"{made}; or its keys without model_type, if you know that none is missing"
        raise bad(f"{came}, and lacks what that model's class adds", accepted)
    if _get(config, "text_config") is not None and _get(config, "head_dim") is None:
        raise bad("config has a text_config, and no head_dim of its own", "config.text_config")
    if _get(config, "image_size") is not None and _get(config, "patch_size") is not None:
        raise bad("config is of images (image_size, patch_size): own rules", _OWN_TABLES)
    # Of an object only its own attributes: classes of transformers have names for any model.
    names = config if isinstance(config, Mapping) else getattr(config, "__dict__", ())
    found = {key: _get(config, key) for key in names if _SPEAKS_OF_A_ROTATION.search(key)}
    _refuse_unread(found, _OUTER_NAMES, "not read here")


def _get(config: object, key: str) -> object:
    """The value of a key, in a dict or as an attribute; None if there is none."""
    return config.get(key) if isinstance(config, Mapping) else getattr(config, key, None)


def _config_of_layers(config: object, layer_type: str | None) -> object:
    """The configuration for layers of this type alone; `config` itself if there is none.

    Gemma 4 has them in `per_layer_config`, each with a `head_dim` of its own. That is no dict: for
    a type that it doesn't have it raises one of several errors.
    """
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        by_type: Mapping[str | None, object] = getattr(config, "per_layer_config", {})
        return by_type[layer_type]
    return config


def _rotation_of(config: object, layer_type: str | None) -> tuple[Keys | None, bool]:
    """The rotation's dict for layers of this type, and whether each type has a dict of its own.

    None instead of a dict: such layers don't rotate.
    """
    name = "rope_parameters" if _get(config, "rope_parameters") else "rope_scaling"
    rope = _get(config, name) or {}
    if not isinstance(rope, Mapping):
        raise bad(f"{name} is {rope!r}", "a dict", TypeError)
    layer_types = _get(config, "layer_types") or ()
    if not isinstance(layer_types, Iterable):
        raise bad(f"layer_types is {layer_types!r}", "a list of names", TypeError)
    accepted = [None, *layer_types] if layer_types else [layer_type]
    has_dict_per_type = any(isinstance(x, Mapping) or key in accepted for key, x in rope.items())
    if has_dict_per_type:
        of_types = [key for key, x in rope.items() if isinstance(x, Mapping | None)]
        _refuse_unread(rope, of_types, "not read beside the dicts of types of layers")
        rope, accepted = rope.get(layer_type), of_types
    if layer_type not in accepted:
        raise bad(f"layer_type is {layer_type!r}", ", ".join(map(repr, dict.fromkeys(accepted))))
    return rope, has_dict_per_type


def _formula_of(rope: Keys) -> Formula:
    """The formula that the dict names. A key of the dict that it doesn't read is refused."""
    name = rope.get("rope_type") or rope.get("type") or "default"
    if not (isinstance(name, str) and name in _FORMULAS):
        raise bad(f"rope_type is {name!r}", f"{', '.join(map(repr, _FORMULAS))}; or {_OWN_TABLES}")
    formula = _FORMULAS[name]
    _refuse_unread(rope, [*_KEYS_OF_ALL_TYPES, *_keys_of(formula)], f"not read by {name!r}")
    return formula


def _keys_of(formula: Formula) -> dict[str, inspect.Parameter]:
    """The keys that a formula reads: its keyword-only parameters."""
    parameters = inspect.signature(formula).parameters
    return {key: x for key, x in parameters.items() if x.kind is x.KEYWORD_ONLY}


def _refuse_unread(keys: Keys, read: Collection[str], complaint: str) -> None:
    """Raise for the first key with a value that is not among those that are read."""
    for key, value in keys.items():
        if value is not None and key not in read:
            came = f"{key} is {reprlib.repr(value)}, which is {complaint}"
            how = f"Leave it out if no angle depends on it; otherwise pass {_OWN_TABLES}"
            raise bad(came, f"{', '.join(sorted(set(read)))}. {how}")


def _all_keys(config: object, rope: Keys, has_dict_per_type: bool) -> dict[str, object]:
    """The keys of the dict and those outside it, without any that is missing.

    A key in both places counts as it is in the dict, with two exceptions. In the dict
    `max_position_embeddings` is not read. The original length, which Phi 3 has in both places,
    counts as it is outside, unless each type of layer has a dict.
    """
    keys = {key: _get(config, key) for key in _OUTER_KEYS}
    keys[_ORIGINAL_LENGTH] = keys["max_position_embeddings"]
    inner = {key: x for key, x in rope.items() if x is not None}
    inner.pop("max_position_embeddings", None)
    keys |= inner
    outer_original = _get(config, _ORIGINAL_LENGTH)
    if not has_dict_per_type and outer_original is not None:
        keys[_ORIGINAL_LENGTH] = outer_original
    for key in _ZERO_IS_MISSING:
        keys[key] = keys.get(key) or None
    return {key: x for key, x in keys.items() if x is not None}


# Values


def _rotary_dim(keys: Keys, formula: Formula) -> int:
    """d2, the number of elements that turn: a key of its own, or a share of a head's width."""
    named = next((key for key in _WIDTHS if key in keys), "hidden_size")
    width = _integer(keys, named)
    if named == "hidden_size":
        width //= _integer(keys, "num_attention_heads")
    # `proportional` spreads pairs over the whole head, and applies the share by itself.
    takes_share = named in ("hidden_size", "head_dim") and formula is not proportional
    if takes_share and _SHARE in keys:
        width = int(width * _number(keys, _SHARE))
    if width < 2 or width % 2:
        raise bad(f"{width} elements of a head turn, by {named}", "an even number from 2")
    return width


def _value(keys: Keys, key: str, kind: object, pairs: int) -> object:
    """The value of a formula's key, checked to be what the formula's annotation says."""
    if kind is bool:
        return _flag(keys, key)
    if kind is int:
        return _integer(keys, key)
    if kind is float:
        return _number(keys, key)
    return _divisors(keys, key, pairs)


def _flag(keys: Keys, key: str) -> bool:
    value = keys.get(key)
    if not isinstance(value, bool):
        raise _refused(keys, key, "False, True")
    return value


def _integer(keys: Keys, key: str) -> int:
    """A positive integer; a float such as 4096.0 is one, too."""
    value = keys.get(key)
    if isinstance(value, Real) and is_number(value):
        number = int(value) if isinstance(value, Integral) else int(float(value))
        if number == value and number > 0:
            return number
    raise _refused(keys, key, "a positive integer")


def _number(keys: Keys, key: str) -> float:
    """A positive number; the share of a head's width is 1 at most."""
    value = keys.get(key)
    if isinstance(value, Real) and is_number(value):
        number = float(value)
        if number == value and 0 < number <= (1 if key == _SHARE else math.inf):
            return number
    raise _refused(keys, key, f"a positive number{', at most 1' if key == _SHARE else ''}")


def _divisors(keys: Keys, key: str, pairs: int) -> list[float]:
    """longrope's positive numbers, one for each pair."""
    value = keys.get(key)
    if (
        isinstance(value, list | tuple)
        and len(value) == pairs
        and all(is_number(x) and x > 0 for x in value)
    ):
        return list(value)
    raise _refused(keys, key, f"{pairs} positive numbers, one for each pair that turns")


def _refused(keys: Keys, key: str, accepted: str) -> Exception:
    """The error to raise for a value that doesn't fit, or is missing."""
    came = reprlib.repr(keys[key]) if key in keys else "missing"
    return bad(f"{key} is {came}", accepted)
