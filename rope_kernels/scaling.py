"""How far pairs turn where a context was scaled, read from a model's configuration.

First the formulas, one for each way of scaling. All give (d2 / 2,) radians a position, fp32,
computed on the CPU, so that they have the same bits whatever the device of the module is: those of
Hugging Face's `modeling_rope_utils.py` (transformers 5.17), which rounds in fp32 after every step.
Their arguments have the names of the keys in a configuration.

Then what reads the keys, as Hugging Face writes them, by attributes or keys alone: transformers is
not imported. A key that would change angles and is not read is refused, in a dict as in an object:
every unread key of the rotation's own dict, and beside it every unread name that speaks of a
rotation. Every error names the key, what came and what is accepted.
"""

import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral

import torch
from torch import Tensor, nn

from .embedding import Frequencies, default, is_number

# Formulas


def linear(rotary_dim: int, base: float, factor: float) -> Tensor:
    """All frequencies divided. Source: position interpolation, https://arxiv.org/abs/2306.15595."""
    return default(rotary_dim, base) / factor


def dynamic(
    rotary_dim: int,
    base: float,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    seq_len: int | None = None,
    alpha: float | None = None,
) -> Tensor:
    """A base that grows with the length of a sequence past the original one ("dynamic NTK").

    Source: `_compute_dynamic_ntk_parameters` of transformers. By `alpha` it grows whatever the
    length is: HunYuan's, whose files call that 'dynamic', too.
    """
    if alpha is None:
        seq_len = max(seq_len or 0, max_position_embeddings)
        alpha = (factor * seq_len / max_position_embeddings) - (factor - 1)
    return default(rotary_dim, base * alpha ** (rotary_dim / (rotary_dim - 2)))


def proportional(
    rotary_dim: int, base: float, factor: float, partial_rotary_factor: float
) -> Tensor:
    """The first pairs of a head turn, with the frequencies that they have if all turn.

    Unlike partial rotation: pairs span the whole head, and the last ones have frequency 0. Source:
    Gemma 4's full attention, `_compute_proportional_rope_parameters` of transformers.
    """
    turning = int(partial_rotary_factor * rotary_dim // 2)
    turned = 1.0 / powers(base, 2 * turning, rotary_dim)
    resting = torch.zeros(rotary_dim // 2 - turning, device="cpu")
    return torch.cat((turned, resting)) / factor


def llama3(
    rotary_dim: int,
    base: float,
    factor: float,
    low_freq_factor: float,  # pairs with fewer turns in the original length are divided
    high_freq_factor: float,  # pairs with more turns are kept
    original_max_position_embeddings: int,
) -> Tensor:
    """Slow pairs divided, fast ones kept, and a smooth transition between the two.

    Source: Llama 3.1, `_compute_llama3_parameters` of transformers.
    """
    own, original = default(rotary_dim, base), original_max_position_embeddings
    low, high = low_freq_factor, high_freq_factor
    length = 2 * math.pi / own  # of a turn, in positions
    share = (original / length - low) / (high - low)  # of the frequency that is kept
    between = (1 - share) * own / factor + share * own
    is_slow, is_fast = length > original / low, length < original / high
    kept_or_mixed = torch.where(is_fast, own, between)
    return torch.where(is_slow, own / factor, kept_or_mixed)


def yarn(
    rotary_dim: int,
    base: float,
    factor: float,
    beta_fast: float,  # turns in the original length from which on a pair is kept
    beta_slow: float,  # turns up to which it is divided
    original_max_position_embeddings: int,
    truncate: bool,  # the ramp begins and ends at whole pairs
) -> Tensor:
    """Slow pairs divided, fast ones kept, and a ramp over the pairs between.

    Source: YaRN, https://arxiv.org/abs/2309.00071; `_compute_yarn_parameters` of transformers.
    """

    def pair_with(turns: float) -> float:
        """Which pair, in fractions, makes so many turns in the original length."""
        length = original_max_position_embeddings / (turns * 2 * math.pi)
        return (rotary_dim * math.log(length)) / (2 * math.log(base))

    by_pair = powers(base, rotary_dim, rotary_dim)
    kept, divided = 1.0 / by_pair, 1.0 / (factor * by_pair)
    low, high = pair_with(beta_fast), pair_with(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    if low == high:
        high += 0.001
    pair = torch.arange(rotary_dim // 2, dtype=torch.float32, device="cpu")
    share = 1 - ((pair - low) / (high - low)).clamp(0, 1)  # of what is kept
    return divided * (1 - share) + kept * share


def longrope(
    rotary_dim: int,
    base: float,
    short_factor: tuple[float, ...],  # (d2 / 2,)
    long_factor: tuple[float, ...],  # for sequences longer than the original length
    original_max_position_embeddings: int,
    seq_len: int | None = None,
) -> Tensor:
    """Each frequency divided by a number of its own, from one of two lists.

    Source: LongRoPE, https://arxiv.org/abs/2402.13753; `_compute_longrope_parameters` of
    transformers.
    """
    is_long = (seq_len or 0) > original_max_position_embeddings
    factor = long_factor if is_long else short_factor
    factor = torch.tensor(factor, dtype=torch.float32, device="cpu")
    return 1.0 / (factor * powers(base, rotary_dim, rotary_dim))


def powers(base: float, columns: int, rotary_dim: int) -> Tensor:
    """The base to the power of 0, 2 / d2, 4 / d2, ... for `columns` elements, fp32."""
    element = torch.arange(0, columns, 2, dtype=torch.float32, device="cpu")
    return base ** (element / rotary_dim)


def as_number(value: object) -> int | float:
    """Without NumPy's types."""
    return int(value) if isinstance(value, Integral) else float(value)


# Keys

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

# Names that speak of a rotation ("property" doesn't), those that are read, and those that say in
# which layers and which pairing heads turn, which are the caller's to know.
_OF_ROTATIONS = re.compile(r"rope(?!rt)|rotary|ntk|partial", re.IGNORECASE)
_READ = "partial_rotary_factor", "qk_rope_head_dim", "rope_local_base_freq", "rope_parameters"
_READ += "rope_scaling", "rope_theta", "rotary_dim"
_OF_LAYERS = "no_rope_layers", "no_rope_layer_interval", "rope_interleave"
_OF_LAYERS += ("ignore_keys_at_rope_validation",)  # by which transformers checks its own classes


class Keys:
    """The keys of a dict, or the attributes of a configuration: present if they are not None."""

    def __init__(self, held: object, name: str = "", beside: "Keys | None" = None) -> None:
        self.held, self.name, self.beside = held, name, beside

    def get(self, key: str) -> object | None:
        if isinstance(self.held, Mapping):
            return self.held.get(key)
        return getattr(self.held, key, None)

    def unless_zero(self, key: str) -> object | None:
        """As it came; None for a 0, which counts as missing in transformers."""
        value = self.get(key)
        return None if is_number(value) and value == 0 else value

    def called(self, key: str) -> str:
        """The key as a message names it."""
        return f"{self.name}[{key!r}]" if self.name else key

    def refused(self, key: str, accepted: str) -> ValueError:
        value = self.get(key)
        came = "missing" if value is None else reprlib.repr(value)
        return ValueError(f"{self.called(key)} is {came}; accepted: {accepted}")

    def number(self, key: str, least: float = _LEAST) -> int | float:
        """A number that fp32 has room for, as it came."""
        value = self.get(key)
        if not (is_number(value) and least <= value <= _MOST):
            raise self.refused(key, f"a number from {least:g} to {_MOST:g}")
        return as_number(value)

    def integer(self, key: str) -> int:
        value = self.get(key)
        if not (is_number(value) and 0 < value <= _MOST and int(value) == value):
            raise self.refused(key, "a positive integer")
        return int(value)


def read_layer(
    config: object, layer_type: str | None, seq_len: int | None
) -> tuple[Frequencies, float] | None:
    """How the layers of this type turn, and what multiplies cos and sin; None if they don't turn.

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
    name = _type_of(rope)
    by_alpha = name == "dynamic" and rope.unless_zero("alpha") is not None
    rope_type = _BY_ALPHA if by_alpha else _TYPES[name]
    _refuse_unread_keys(rope, name, rope_type.keys)
    rope = _with_those_beside(rope, whole)
    rotary_dim, base = _rotary_dim(rope, whole, name), _base(rope, whole, name)
    keys = {key: read(rope, key) for key, read in rope_type.read.items()}
    for key in ("short_factor", "long_factor"):
        if key in keys and len(keys[key]) != rotary_dim // 2:
            came = f"{rope.called(key)} has {len(keys[key])} numbers"
            raise ValueError(f"{came}; accepted: {rotary_dim // 2}, one for each pair that turns")
    if rope_type.by_length:
        keys["seq_len"] = seq_len
    attention_factor = rope_type.attention_factor(rope)
    return Frequencies(rotary_dim, base, rope_type.formula, keys), attention_factor


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
    came = f"config is of type {type(config).__name__} with model_type {model!r}"
    accepted = "transformers.AutoConfig.for_model(**keys); or all its keys, without model_type"
    raise ValueError(f"{came}, and lacks what that class adds; accepted: {accepted}")


def _refuse_unread_names(config: object) -> None:
    """What stands beside the dict of a rotation, speaks of one, and is not read."""
    if isinstance(config, Mapping):
        names = [name for name in config if isinstance(name, str)]
    elif _is_of_transformers(config):
        names = list(vars(config))  # its class has defaults for any model
    else:
        names = [name for name in dir(config) if not name.startswith("_")]
    for name in names:
        if name in (*_READ, *_OF_LAYERS) or not _OF_ROTATIONS.search(name):
            continue
        value = Keys(config).get(name)
        if value is not None and not callable(value):
            raise _unread(f"{name} is {reprlib.repr(value)}, which is not read here", _READ)


def _refuse_unread_keys(rope: Keys, name: str, known: tuple[str, ...]) -> None:
    for key, value in rope.held.items():
        if value is not None and key not in (*known, *_WITHOUT_EFFECT):
            came = f"{rope.called(key)} is {reprlib.repr(value)}, which {name!r} does not read"
            raise _unread(came, known)


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
        return None if of_type is None else Keys(of_type, f"{name}[{layer_type!r}]")
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
    if not rope.name.endswith("]") and whole.get(_ORIGINAL) is not None:
        found[_ORIGINAL] = whole.get(_ORIGINAL)
    elif found.get(_ORIGINAL) is None and whole.get("max_position_embeddings") is not None:
        found[_ORIGINAL] = whole.get("max_position_embeddings")
    return Keys(found, rope.name, whole)


def _type_of(rope: Keys) -> str:
    key = "type" if rope.get("rope_type") is None else "rope_type"
    rope_type = "default" if rope.get(key) is None else rope.get(key)
    if rope_type == "mrope" and rope.get("mrope_section") is not None:
        rope_type = "default"  # before transformers 5
    if not (isinstance(rope_type, str) and rope_type in _TYPES):
        accepted = f"{', '.join(map(repr, _TYPES))}; or {_OWN_TABLES}"
        raise ValueError(f"{rope.called(key)} is {rope_type!r}; accepted: {accepted}")
    return rope_type


# How many elements turn, and by which base


def _head_dim(whole: Keys) -> int:
    """DeepSeek's files have the part of a head that turns instead of `head_dim`."""
    for key in ("head_dim", "qk_rope_head_dim"):
        if whole.unless_zero(key) is not None:
            return whole.integer(key)
    return whole.integer("hidden_size") // whole.integer("num_attention_heads")


def _rotary_dim(rope: Keys, whole: Keys, rope_type: str) -> int:
    """d2. What says how many elements of a head turn has to say the same."""
    said = {}
    for key in ("rotary_dim", "qk_rope_head_dim"):
        if whole.unless_zero(key) is not None:
            said[key] = whole.integer(key)
    share = rope.get("partial_rotary_factor")
    if rope_type == "proportional":
        for key in said:
            came = f"{key} came with 'proportional', where a share of head_dim's pairs turns"
            raise ValueError(f"{came}; accepted: partial_rotary_factor")
        said["head_dim"] = _head_dim(whole)
    elif share is not None:
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
    widest = _WIDEST_HEAD if whole.get("head_dim") is None else whole.integer("head_dim")
    least = 4 if rope_type == "dynamic" else 2  # which divides by d2 - 2
    if rotary_dim % 2 or not least <= rotary_dim <= min(widest, _WIDEST_HEAD):
        came = f"{first} says that {rotary_dim} elements of a head turn"
        accepted = f"an even number from {least} to {min(widest, _WIDEST_HEAD)}"
        raise ValueError(f"{came}; accepted: {accepted}")
    return rotary_dim


def _base(rope: Keys, whole: Keys, rope_type: str) -> float:
    given = map(whole.get, ("rope_parameters", "rope_scaling", "rope_theta"))
    if rope.get("rope_theta") is None and not any(given):
        came = "rope_theta is missing, and so is rope_parameters"
        raise ValueError(f"{came}; accepted: the configuration of a model that has one of them")
    if whole.get("image_size") is not None and whole.get("patch_size") is not None:
        came = "config is of images (image_size, patch_size), each model's own rule"
        raise ValueError(f"{came}; accepted: {_OWN_TABLES}")
    base = rope.number("rope_theta")
    if base == 1 and rope_type == "yarn":
        raise rope.refused("rope_theta", "a number above 1 with 'yarn'")
    return base


# What a key of each type may be


def _from_1(rope: Keys, key: str) -> float:
    return rope.number(key, 1)


def _or_1(rope: Keys, key: str) -> float:
    return 1.0 if rope.get(key) is None else rope.number(key)


def _share(rope: Keys, key: str = "partial_rotary_factor") -> float:
    if (share := _or_1(rope, key)) > 1:
        raise rope.refused(key, "a number above 0, up to 1")
    return share


def _growth(rope: Keys, key: str) -> float:
    """By how much the original length grows: as given, or the ratio of both lengths."""
    if rope.get(key) is not None:
        return rope.number(key, 1)
    return rope.beside.integer("max_position_embeddings") / rope.integer(_ORIGINAL)


def _growth_above_1(rope: Keys, key: str) -> float:
    factor = _growth(rope, key)
    if rope.get(key) is None and factor <= 1:
        raise rope.refused(key, f"a number from 1, or a smaller {_ORIGINAL}")
    return factor


def _above_low(rope: Keys, key: str) -> float:
    high, low = rope.number(key), rope.get("low_freq_factor")
    if high <= low:
        raise rope.refused(key, f"a number above low_freq_factor = {low!r}")
    return high


def _beta(default: int) -> Callable[[Keys, str], float]:
    return lambda rope, key: default if rope.unless_zero(key) is None else rope.number(key)


def _fast(rope: Keys, key: str) -> float:
    fast, slow = _beta(32)(rope, key), _beta(1)(rope, "beta_slow")
    if fast < slow:
        raise rope.refused(key, f"a number from beta_slow = {slow!r} on")
    return fast


def _flag(rope: Keys, key: str) -> bool:
    value = rope.get(key)
    if not isinstance(value, bool | None):
        raise TypeError(f"{rope.called(key)} is {value!r}; accepted: False, True")
    return value is not False


def _of_pairs(rope: Keys, key: str) -> tuple[float, ...]:
    value, accepted = rope.get(key), "positive numbers, one for each pair that turns"
    if not isinstance(value, list | tuple):
        raise rope.refused(key, accepted)
    for x in value:
        if not (is_number(x) and _LEAST <= x <= _MOST):
            raise ValueError(f"{rope.called(key)} has {x!r} in it; accepted: {accepted}")
    return tuple(map(as_number, value))


def _from_2(rope: Keys, key: str) -> int:
    if (length := rope.integer(key)) == 1:
        raise rope.refused(key, "an integer from 2")
    return length


def _beside(rope: Keys, key: str) -> int:
    return rope.beside.integer(key)


# What multiplies cos and sin, where the key is left out


def _one(rope: Keys) -> float:
    return 1.0


def _of_yarn(rope: Keys) -> float:
    factor = _growth(rope, "factor")
    if rope.get("attention_factor") is not None:
        return float(rope.number("attention_factor"))
    if any(rope.unless_zero(key) is None for key in ("mscale", "mscale_all_dim")):
        return _magnitude(factor, 1)
    scale, scale_all = rope.number("mscale"), rope.number("mscale_all_dim")
    return float(_magnitude(factor, scale) / _magnitude(factor, scale_all))


def _magnitude(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _of_longrope(rope: Keys) -> float:
    factor, original = _growth(rope, "factor"), rope.integer(_ORIGINAL)
    if rope.get("attention_factor") is not None:
        return float(rope.number("attention_factor"))
    return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0


@dataclass(frozen=True)
class _Type:
    formula: Callable[..., Tensor]
    read: dict[str, Callable[[Keys, str], object]] = field(default_factory=dict)  # its arguments
    attention_factor: Callable[[Keys], float] = _one
    also: tuple[str, ...] = ()  # keys that are no arguments
    by_length: bool = False  # `seq_len` is an argument, too

    @property
    def keys(self) -> tuple[str, ...]:
        return (*dict.fromkeys((*_OF_ALL, *self.read, *self.also)),)


_LONGROPE = _Type(
    longrope,
    {"short_factor": _of_pairs, "long_factor": _of_pairs, _ORIGINAL: _from_2},
    _of_longrope,
    ("attention_factor", "factor"),
    by_length=True,
)
# HunYuan's 'dynamic', whose files have other keys, too, that its models ignore.
_BY_ALPHA = _Type(
    dynamic,
    {"alpha": Keys.number},
    also=("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
)
_TYPES = {
    "default": _Type(default),
    "linear": _Type(linear, {"factor": _from_1}),
    "dynamic": _Type(
        dynamic,
        {"factor": _from_1, "max_position_embeddings": _beside},
        also=("alpha",),
        by_length=True,
    ),
    "yarn": _Type(
        yarn,
        {
            "factor": _growth_above_1,
            "beta_fast": _fast,
            "beta_slow": _beta(1),
            _ORIGINAL: Keys.integer,
            "truncate": _flag,
        },
        _of_yarn,
        ("attention_factor", "mscale", "mscale_all_dim"),
    ),
    "longrope": _LONGROPE,
    "su": _LONGROPE,  # its first name, in Phi 3's files
    "llama3": _Type(
        llama3,
        {
            "factor": _from_1,
            "low_freq_factor": Keys.number,
            "high_freq_factor": _above_low,
            _ORIGINAL: Keys.integer,
        },
    ),
    "proportional": _Type(proportional, {"factor": _or_1, "partial_rotary_factor": _share}),
}
_KEYS = {key for rope_type in _TYPES.values() for key in rope_type.keys}
