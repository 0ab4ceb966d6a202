"""Find what a configuration says where nobody reads it, and what it leaves to its class.

A key in a place, or by a name, that nobody reads would leave the frequencies unscaled. A name close
to a key, and a key in the wrong place, are refused. Any other unknown key of a rotation raises a
warning.

A `config.json` read as a dict lacks the defaults of its class, some of which change how heads turn.
Tables say where, for transformers 5.17 to 5.23, which is not imported; tests compare every type
with its class. A type that isn't there may add anything, and is refused.
"""

import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .configuration import Keys

# keys that ask for a scaling; they are read within `rope_parameters` alone
SCALES = ("factor", "short_factor", "long_factor", "low_freq_factor", "high_freq_factor", "alpha")
SCALES += ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate")
SECTION = {*SCALES, "rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section"}
SECTION |= {"original_max_position_embeddings", "mrope_interleaved"}
# of one model each, which turns by a rule of its own
OF_ONE_MODEL = ("xdrope_section", "short_mscale", "long_mscale")
# known to leave frequencies alone
_HARMLESS = {"finetuned", "llama_4_scaling_beta", "max_position_embeddings"}

# what is read beside the dict, and has a name that no other key comes close to
_BESIDE = {"rope_theta", "partial_rotary_factor", "original_max_position_embeddings", "head_dim"}
_BESIDE |= {"rope_parameters", "rope_scaling", "rope_local_base_freq"}
_MISPLACED = {*SCALES, "rope_type", "mrope_section", "mrope_interleaved"} - {"alpha", "truncate"}
# older names of the share of a head that turns: a class translates them
_SHARES = ("rotary_dim", "rotary_pct", "rotary_percent", "rope_pct", "attn_rotary_emb")
_THEIR_CLASS = "the configuration that the model's class makes of it, not a dict"


# by what a class adds, the model types whose class adds just that; a value where one is known
_ADDED = {
    (): """
        arcee bitnet cohere cohere2 diffllama doge dots1 ernie4_5_moe ernie4_5_vl_moe_text exaone4
        exaone_moe falcon falcon_h1 flex_olmo glm4v_text glm_ocr_text granite granitemoe
        granitemoeshared hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text jais2 lfm2 lfm2_moe llama
        ministral mistral mixtral mllama_text_model nanochat olmo olmo2 olmo_hybrid olmoe phimoe
        qwen2 qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl qwen2_vl_text qwen3_moe
        qwen3_vl_moe_text smollm3 starcoder2
        """,
    ("head_dim=128",): """
        afmoe ernie4_5 helium hy_v3 llama4_text minimax_m2 paddleocr_vl_text qwen3 qwen3_vl_text
        seed_oss solar_open
        """,
    ("head_dim=256",): "gemma gemma2 vaultgemma",
    ("qk_rope_head_dim",): "deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite youtu",
    ("partial_rotary_factor",): "nemotron persimmon phi recurrent_gemma stablelm",
    ("head_dim", "partial_rotary_factor"): "glm glm4 qwen3_5_moe_text qwen3_5_text qwen3_next",
    ("head_dim", "rope_parameters"): "cwm gpt_oss ministral3",
    ("head_dim", "rope_local_base_freq"): "gemma3_text",
    ("rope_parameters",): "apertus",
    ("original_max_position_embeddings",): "phi3 phi4_multimodal",
}
ADDED = {model: keys for keys, models in _ADDED.items() for model in models.split()}
_CLASS = "transformers.AutoConfig.for_model(**config), not the dict"


def is_file(config: object) -> bool:
    """Whether these are the contents of a file, without what the model's class would add."""
    return isinstance(config, Mapping | SimpleNamespace)


def check_section(name: str, keys: Iterable[str]) -> None:
    """Raise or warn where a key of `rope_parameters` has no meaning."""
    for key in keys:
        if key in SECTION or key in OF_ONE_MODEL or key in _HARMLESS:
            continue
        _refuse_if_close(f"{name}[{key!r}]", key, SECTION, cutoff=0.8)
        accepted = ", ".join(map(repr, sorted(SECTION)))
        message = f"{name}[{key!r}] is ignored: no frequency depends on it here; read: {accepted}"
        warnings.warn(message, UserWarning, stacklevel=5)


def check_beside(config: object, rope: Mapping) -> None:
    """Raise where a key beside `rope_parameters` should be in it, or has almost its name."""
    held = config if isinstance(config, Mapping) else getattr(config, "__dict__", {})
    given = {
        k: v for k, v in held.items() if isinstance(k, str) and v is not None and v is not False
    }
    for key, value in given.items():
        if key in _MISPLACED and rope.get(key) is None:
            accepted = f"{key} within rope_parameters"
            raise ValueError(f"{key} came beside rope_parameters; accepted: {accepted}")
        if isinstance(value, Mapping):
            _refuse_a_section(key, value)
        if key not in _BESIDE:
            _refuse_if_close(key, key, _BESIDE, cutoff=0.9)
    if is_file(config):
        _refuse_older_names(given, rope)


def _refuse_a_section(key: str, value: Mapping) -> None:
    """A dict that scales, by another name; not the whole configuration of a part of the model."""
    of_a_part = key.endswith("_config") or "hidden_size" in value or "model_type" in value
    if key in _BESIDE or of_a_part:
        return
    scales = [k for k in ("rope_type", *SCALES) if value.get(k) is not None]
    if scales:
        came = f"{key} is a dict with {scales[0]}, and it isn't read"
        raise ValueError(f"{came}; accepted: rope_parameters, or rope_scaling")


def _refuse_older_names(given: Mapping, rope: Mapping) -> None:
    for key in _SHARES if rope.get("partial_rotary_factor") is None else ():
        if key in given:
            came = f"{key} is {given[key]!r}, without partial_rotary_factor"
            raise ValueError(f"{came}; accepted: partial_rotary_factor, or {_THEIR_CLASS}")
    of_layers = given.get("per_layer_config")
    of_layers = of_layers.values() if isinstance(of_layers, Mapping) else ()
    others = {
        "global_head_dim": "global_head_dim" in given,
        "per_layer_config": any("head_dim" in x for x in of_layers if isinstance(x, Mapping)),
        "attention_head_dim": "attention_head_dim" in given and "head_dim" not in given,
        "kv_channels": "kv_channels" in given and "head_dim" not in given,
    }
    for key in (key for key, is_there in others.items() if is_there):
        raise ValueError(f"{key} came, a head_dim of its own; accepted: {_THEIR_CLASS}")


def _refuse_if_close(came: str, key: str, known: Iterable[str], cutoff: float) -> None:
    close = get_close_matches(key, known, 1, cutoff)
    if close:
        raise ValueError(f"{came} is no key, and close to one; accepted: {close[0]!r}")


def check_class_defaults(config: object, whole: "Keys", rope: "Keys", head_dim: int) -> None:
    """Raise where the class of this dict's `model_type` would add what changes frequencies."""
    model = whole.get("model_type")
    if not is_file(config) or model is None:
        return
    came = f"config is a dict of model_type {model!r}"
    if not isinstance(model, str) or model not in ADDED:
        keys = "head_dim, partial_rotary_factor and rope_parameters"
        came = f"{came}, whose class may add {keys} of its own"
        raise ValueError(f"{came}; accepted: {_CLASS}, or a dict with all keys and no model_type")
    said = {
        "partial_rotary_factor": rope.get("partial_rotary_factor") is not None,
        "rope_parameters": any(rope.get(key) is not None for key in ("rope_type", "type")),
        "rope_local_base_freq": rope.nested or whole.get("rope_local_base_freq") is not None,
    }
    needed = ADDED[model]
    if whole.get("qk_rope_head_dim") is not None and "qk_rope_head_dim" not in needed:
        needed = (*needed, "head_dim")  # such a class doesn't read the other key
    for key in needed:
        key, _, default = key.partition("=")
        if default and str(head_dim) == default:
            continue
        if not said.get(key, whole.get(key) is not None):
            came = f"{came} without {key}, which its class adds"
            raise ValueError(f"{came}; accepted: {_CLASS}, or a dict with {key}")
