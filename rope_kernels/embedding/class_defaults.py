"""Which keys a model's class adds to its `config.json`, so that a dict has to say them itself.

`from_config` doesn't import transformers. A file read as a dict lacks the defaults of its class,
some of which change how heads turn. These tables say where, for transformers 5.17 to 5.23; tests
compare every type with its class. A type that isn't here may add anything, and is refused.
"""

from typing import TYPE_CHECKING

from .near_keys import is_file

if TYPE_CHECKING:
    from .configuration import Keys

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
