"""Read the frequencies of a layer from a model's configuration, as Hugging Face writes them.

By attributes or keys alone: transformers is not imported. Every error names the key, what came and
what is accepted.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .arguments import is_number
from .axes import mrope_axes
from .frequencies import Dynamic, Geometric, Linear, Llama3, LongRope, Proportional, Yarn

# The rule of `mrope_section`, by how a configuration's `model_type` begins. Others have their own.
_CONTIGUOUS = ("qwen2", "glm", "paddleocr")
_IN_TURNS = ("qwen3", "qwen4", "cosmos3")


@dataclass(frozen=True)
class Layer:
    """How the heads of a layer turn."""

    frequencies: Geometric
    attention_factor: float  # multiplies cos and sin
    axes: list[int] | None = None  # by which axis each pair turns; None: there is one axis


class Keys:
    """The keys of a dict, or the attributes of a configuration: present if they are not None."""

    def __init__(self, held: object, name: str = "") -> None:
        self.held, self.name = held, name

    def get(self, key: str) -> object | None:
        if isinstance(self.held, Mapping):
            return self.held.get(key)
        return getattr(self.held, key, None)

    def called(self, key: str) -> str:
        """The key as a message names it."""
        return f"{self.name}[{key!r}]" if self.name else key

    def number(self, key: str, least: float = 0.0, above: bool = True, default=None):
        """A finite number above `least`, or from `least` on; as it came."""
        value, accepted = self.get(key), f"a number {'above' if above else 'from'} {least:g}"
        if value is None and default is not None:
            return default
        if value is None:
            raise ValueError(f"{self.called(key)} is missing; accepted: {accepted}")
        fits = is_number(value) and (value > least or (value == least and not above))
        if not fits:
            raise ValueError(f"{self.called(key)} is {value!r}; accepted: {accepted}")
        return value

    def integer(self, key: str) -> int:
        """A positive integer."""
        value = self.number(key)
        if int(value) != value:
            raise ValueError(f"{self.called(key)} is {value!r}; accepted: a positive integer")
        return int(value)


def read_layer(config: object, layer_type: str | None) -> Layer | None:
    """How the layers of this type turn; None if they don't.

    Raises:
        ValueError, TypeError: as in `RotaryPositionEmbedding.from_config`.
    """
    if not (layer_type is None or isinstance(layer_type, str)):
        raise TypeError(f"layer_type is {layer_type!r}; accepted: None, or a str")
    whole = Keys(_of_layer_type(config, layer_type))
    if whole.get("text_config") is not None and whole.get("head_dim") is None:
        came = "config has a text_config, and no head_dim of its own"
        raise ValueError(f"{came}; accepted: config.text_config")
    rope = _rope_of(whole, layer_type)
    if rope is None:
        return None
    rope_type = rope.get("rope_type") or rope.get("type") or "default"
    if rope_type == "mrope" and rope.get("mrope_section") is not None:  # before transformers 5
        rope_type = "default"
    read = _TYPES.get(rope_type) if isinstance(rope_type, str) else None
    if read is None:
        key = "rope_type" if rope.get("rope_type") else "type"
        accepted = ", ".join(map(repr, _TYPES))
        raise ValueError(f"{rope.called(key)} is {rope_type!r}; accepted: {accepted}")
    layer = read(whole, rope)
    return replace(layer, axes=_axes_of(whole, rope, layer.frequencies.rotary_dim // 2))


def _axes_of(whole: Keys, rope: Keys, pairs: int) -> list[int] | None:
    """The axis of each pair, by `mrope_section`; None without this key."""
    if (sections := rope.get("xdrope_section")) is not None:
        came = f"{rope.called('xdrope_section')} is {sections!r}, which makes no rotation"
        raise ValueError(f"{came}; accepted: the model's own (cos, sin) as freqs, without a module")
    if (sections := rope.get("mrope_section")) is None:
        return None
    model, came = whole.get("model_type"), f"{rope.called('mrope_section')} is {sections!r}"
    if isinstance(model, str) and not model.startswith(_CONTIGUOUS + _IN_TURNS):
        came += f" for model_type {model!r}, whose rule is its own"
        raise ValueError(f"{came}; accepted: Qwen, GLM, PaddleOCR-VL; or the argument axes=")
    in_turns = bool(rope.get("mrope_interleaved"))
    in_turns = in_turns or (isinstance(model, str) and model.startswith(_IN_TURNS))
    try:
        axes = mrope_axes(sections, interleaved=in_turns)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{came}; accepted: {str(error).partition('accepted: ')[2]}") from error
    if len(axes) != pairs:
        raise ValueError(f"{came}, {len(axes)} pairs; accepted: numbers that add up to {pairs}")
    return axes


def _of_layer_type(config: object, layer_type: str | None) -> object:
    """The configuration of this type of layer, where each has its own (Gemma 4's `head_dim`)."""
    try:
        return config if layer_type is None else config.per_layer_config[layer_type]
    except (AttributeError, KeyError, TypeError, ValueError):
        return config


def _rope_of(whole: Keys, layer_type: str | None) -> Keys | None:
    """The keys of this type of layer, with those that stand beside them; None: no rotation."""
    name, given = "rope_parameters", whole.get("rope_parameters")
    if not given and whole.get("rope_scaling"):
        name, given = "rope_scaling", whole.get("rope_scaling")
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} is {given!r}; accepted: a dict")
    types = [key for key, value in given.items() if isinstance(value, Mapping)]
    nested = bool(types) or (layer_type is not None and layer_type in given)
    if not nested and given and all(value is None for value in given.values()):
        nested = "rope_type" not in given and "type" not in given
    known = list(given) if nested else whole.get("layer_types")
    if layer_type is not None and known and layer_type not in known:
        accepted = ", ".join(map(repr, dict.fromkeys(known)))
        raise ValueError(f"layer_type is {layer_type!r}; accepted: {accepted}")
    local = None if nested else whole.get("rope_local_base_freq")
    if layer_type is None and (nested or local is not None):
        accepted = ", ".join(map(repr, given)) if nested else "'sliding_attention', or another one"
        came = f"{name} has" if nested else "config has a rope_local_base_freq:"
        raise ValueError(f"layer_type is None, and {came} several types; accepted: {accepted}")
    if nested:
        given, name = given[layer_type], f"{name}[{layer_type!r}]"
        if given is None:
            return None
    elif local is not None and layer_type == "sliding_attention":  # Gemma 3, as first published
        given = {"rope_theta": local}
    return Keys(_with_those_beside(given, whole, nested), name)


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
            return whole.integer(key)
    for key in ("hidden_size", "num_attention_heads"):
        if whole.get(key) is None:
            accepted = "head_dim, or hidden_size and num_attention_heads"
            raise ValueError(f"head_dim is missing, and so is {key}; accepted: {accepted}")
    return whole.integer("hidden_size") // whole.integer("num_attention_heads")


def _rotary_dim(whole: Keys, rope: Keys) -> int:
    """d2."""
    share, head_dim = _share(rope), _head_dim(whole)
    rotary_dim = int(head_dim * share)
    if rotary_dim < 2 or rotary_dim % 2:
        came = f"head_dim = {head_dim} and partial_rotary_factor = {share} give {rotary_dim}"
        raise ValueError(f"{came} rotary dimensions; accepted: an even number, at least 2")
    return rotary_dim


def _share(rope: Keys) -> float:
    share = rope.number("partial_rotary_factor", default=1.0)
    if share > 1:
        came = f"{rope.called('partial_rotary_factor')} is {share!r}"
        raise ValueError(f"{came}; accepted: a number above 0, up to 1")
    return share


def _geometric(whole: Keys, rope: Keys) -> dict:
    return {"rotary_dim": _rotary_dim(whole, rope), "base": rope.number("rope_theta")}


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
    factor, length = rope.number("factor", 1, False), whole.integer("max_position_embeddings")
    return Layer(Dynamic(**given, factor=factor, max_position_embeddings=length), 1.0)


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
        base=rope.number("rope_theta"),
        factor=rope.number("factor", default=1.0),
        partial_rotary_factor=_share(rope),
    )
    return Layer(frequencies, 1.0)


def _yarn(whole: Keys, rope: Keys) -> Layer:
    original, factor = _lengths(whole, rope)
    fast, slow = rope.get("beta_fast") or 32, rope.get("beta_slow") or 1  # 0 is none, as there
    betas = Keys({"beta_fast": fast, "beta_slow": slow}, rope.name)
    fast, slow = betas.number("beta_fast"), betas.number("beta_slow")
    if fast < slow:
        came = f"{rope.called('beta_fast')} is {fast!r}"
        raise ValueError(f"{came}; accepted: a number from beta_slow = {slow!r} on")
    truncate = True if rope.get("truncate") is None else rope.get("truncate")
    if not isinstance(truncate, bool):
        raise TypeError(f"{rope.called('truncate')} is {truncate!r}; accepted: False, True")
    given = _geometric(whole, rope)
    if given["base"] == 1:
        raise ValueError(f"{rope.called('rope_theta')} is 1; accepted with 'yarn': above 1")
    frequencies = Yarn(
        **given,
        factor=factor,
        beta_fast=fast,
        beta_slow=slow,
        original_max_position_embeddings=original,
        truncate=truncate,
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
    if not isinstance(value, list | tuple) or not all(is_number(x) and x > 0 for x in value):
        raise ValueError(f"{rope.called(key)} is {value!r}; accepted: {accepted}")
    if len(value) != count:
        raise ValueError(f"{rope.called(key)} has {len(value)} numbers; accepted: {accepted}")
    return tuple(value)


def _attention_factor(rope: Keys, default: Callable[[], float]) -> float:
    if rope.get("attention_factor") is None:
        return default()
    return float(rope.number("attention_factor"))


def _of_yarn(rope: Keys, factor: float) -> float:
    scale, scale_all = rope.get("mscale"), rope.get("mscale_all_dim")
    if not (scale and scale_all):  # 0 is none, as there
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
