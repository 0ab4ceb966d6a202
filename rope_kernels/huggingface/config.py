"""Read from a model's configuration how far pairs turn.

Keys are read by the names that Hugging Face gives them, as attributes or in a dict: transformers is
not imported. What is not read is refused by its name: every other key of the rotation's own dict,
and beside it every other name that speaks of a rotation. Every error names the key, what came and
what is accepted.
"""

import inspect
import math
import os
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from torch import Tensor, nn

from ..checks import bad, is_number
from ..embedding import default
from ..scaling import dynamic, linear, llama3, longrope, proportional, yarn

_ORIGINAL, _SHARE = "original_max_position_embeddings", "partial_rotary_factor"
_TYPES = {f.__name__: f for f in (default, linear, dynamic, yarn, longrope, llama3, proportional)}
_TYPES |= {"su": longrope, "mrope": default}  # Phi 3's first name; before transformers 5

# In the dict of a rotation, whatever its type: sections (M-RoPE) change no frequency, and the last
# three have no effect in published files.
_OF_ALL = "rope_type", "type", "rope_theta", _SHARE, "mrope_section", "mrope_interleaved"
_OF_ALL += "finetuned", "llama_4_scaling_beta", "max_position_embeddings"
# Beside it. The caller knows in which layers and in which pairing heads turn.
_WIDTHS = "rotary_dim", "qk_rope_head_dim", "head_dim"  # the first that is there counts
_BESIDE = *_WIDTHS, "hidden_size", "num_attention_heads", "max_position_embeddings"
_BESIDE += "rope_theta", _SHARE
_READ = *_BESIDE, "rope_parameters", "rope_scaling", "rope_interleave", "no_rope_layers"
_READ += "no_rope_layer_interval", "ignore_keys_at_rope_validation"
_OF_ROTATIONS = re.compile(r"rope(?!rt)|rotary|ntk|partial", re.IGNORECASE)  # not "property"
_ZERO_IS_MISSING = *_WIDTHS, "beta_fast", "beta_slow", "mscale", "mscale_all_dim"

_NO_CONFIGURATION = (str, os.PathLike, int, float, list, tuple, type, nn.Module, type(None))
_OWN_TABLES = "the model's own (cos, sin) as freqs, without a module"


def read_layer(
    config: object, layer_type: str | None, seq_len: float | None
) -> tuple[Tensor, float] | None:
    """Frequencies of layers of this type, and the factor of cos and sin; None: they don't turn."""
    _check_config(config)
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        config = config.per_layer_config[layer_type]  # of its own `head_dim`, in Gemma 4
    rope, is_nested = _rope_of(config, layer_type)
    if rope is None:
        return None
    formula = _formula_of(rope)
    keys = _all_keys(config, rope, is_nested)
    if formula in (yarn, longrope) and "factor" not in keys:
        growth = _read(keys, "max_position_embeddings", int) / _read(keys, _ORIGINAL, int)
        keys |= {"factor": growth} if growth > 1 else {}
    rotary_dim, base = _rotary_dim(keys, formula), _read(keys, "rope_theta", float)
    arguments = {
        key: _read(keys, key, x.annotation, x.default, rotary_dim // 2)
        for key, x in _keys_of(formula).items()
    }
    if formula in (dynamic, longrope):
        arguments["seq_len"] = seq_len
    try:
        found = formula(rotary_dim, base, **arguments)
    except ZeroDivisionError:  # a base or an original length of 1, or one pair
        came = f"{formula.__name__} divides by 0 with rope_theta = {base} and d2 = {rotary_dim}"
        raise bad(came, "other numbers, or an original length above 1") from None
    return found if isinstance(found, tuple) else (found, 1.0)


def _check_config(config: object) -> None:
    """Whether it is one, with all that its class adds, and nothing of a rotation is unread."""
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
    # of an object its own alone: classes have names for any model
    names = config if isinstance(config, Mapping) else getattr(config, "__dict__", ())
    said = {key: _get(config, key) for key in names if _OF_ROTATIONS.search(key)}
    _refuse_unread(said, _READ, "here")


def _get(config: object, key: str) -> object | None:
    return config.get(key) if isinstance(config, Mapping) else getattr(config, key, None)


def _rope_of(config: object, layer_type: str | None) -> tuple[Mapping | None, bool]:
    """The dict of this type of layer, None if such layers don't turn; and if each type has one."""
    name = "rope_parameters" if _get(config, "rope_parameters") else "rope_scaling"
    rope = _get(config, name) or {}
    if not isinstance(rope, Mapping):
        raise bad(f"{name} is {rope!r}", "a dict", TypeError)
    layers = _get(config, "layer_types") or ()
    accepted = [None, *layers] if layers else [layer_type]
    is_nested = any(isinstance(x, Mapping) or key in accepted for key, x in rope.items())
    if is_nested:
        accepted = [key for key, x in rope.items() if isinstance(x, Mapping | None)]
        _refuse_unread(rope, accepted, "beside the dicts of types of layers")
        rope = rope.get(layer_type)
    if layer_type not in accepted:
        raise bad(f"layer_type is {layer_type!r}", ", ".join(map(repr, dict.fromkeys(accepted))))
    return rope, is_nested


def _formula_of(rope: Mapping) -> Callable:
    """By its name. It reads every key of the dict."""
    name = rope.get("rope_type") or rope.get("type") or "default"
    if not (isinstance(name, str) and name in _TYPES):
        raise bad(f"rope_type is {name!r}", f"{', '.join(map(repr, _TYPES))}; or {_OWN_TABLES}")
    _refuse_unread(rope, [*_OF_ALL, *_keys_of(_TYPES[name])], f"by {name!r}")
    return _TYPES[name]


def _refuse_unread(said: Mapping, known: Collection[str], where: str) -> None:
    for key, value in said.items():
        if value is not None and key not in known:
            came = f"{key} is {reprlib.repr(value)}, which is not read {where}"
            how = f"Leave it out if no angle depends on it; otherwise pass {_OWN_TABLES}"
            raise bad(came, f"{', '.join(sorted({*known}))}. {how}")


def _keys_of(function: Callable) -> dict[str, inspect.Parameter]:
    arguments = inspect.signature(function).parameters
    return {key: x for key, x in arguments.items() if x.kind is x.KEYWORD_ONLY}


def _all_keys(config: object, rope: Mapping, is_nested: bool) -> dict[str, object]:
    """Those of the dict and those beside it, without any that is missing."""
    keys, original = {key: _get(config, key) for key in _BESIDE}, _get(config, _ORIGINAL)
    own = {key: x for key, x in rope.items() if x is not None and key != "max_position_embeddings"}
    keys |= {_ORIGINAL: keys["max_position_embeddings"]} | own
    if not is_nested and original is not None:
        keys[_ORIGINAL] = original  # Phi 3 has it in both places, and the one beside counts
    for key in _ZERO_IS_MISSING:  # in transformers, too
        keys[key] = keys.get(key) or None
    return {key: x for key, x in keys.items() if x is not None}


def _rotary_dim(keys: dict[str, object], formula: Callable) -> int:
    """d2: its own key, or a share of a head's width."""
    named = next((key for key in _WIDTHS if key in keys), "hidden_size")
    width = _read(keys, named, int)
    if named == "hidden_size":
        width //= _read(keys, "num_attention_heads", int)
    if named in ("hidden_size", "head_dim") and formula is not proportional:
        width = int(width * _read(keys, _SHARE, float, 1))
    if width < 2 or width % 2:
        raise bad(f"{width} elements of a head turn, by {named}", "an even number from 2")
    return width


def _read(
    keys: dict[str, object],
    key: str,
    kind: type,
    default: object = inspect.Parameter.empty,
    pairs: int = 0,
) -> object:
    """The value of a key, checked, or its default where it is missing."""
    if key not in keys and default is not inspect.Parameter.empty:
        return default
    value = keys.get(key)
    if kind is bool:
        fits, accepted = isinstance(value, bool), "False, True"
    elif kind is list:
        fits = isinstance(value, list | tuple) and len(value) == pairs
        fits = fits and all(is_number(x) and x > 0 for x in value)
        accepted = f"{pairs} positive numbers, one for each pair that turns"
    else:
        most = 1 if key == _SHARE else math.inf
        fits = is_number(value) and 0 < value <= most and kind(value) == value
        accepted = "a positive integer" if kind is int else "a positive number"
        accepted += ", at most 1" if key == _SHARE else ""
    if not fits:
        came = reprlib.repr(value) if key in keys else "missing"
        raise bad(f"{key} is {came}", accepted)
    return kind(value)
