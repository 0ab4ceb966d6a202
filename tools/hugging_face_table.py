"""Write what `patch` replaces into docs/hugging_face.md: functions that rotate, and attentions.

The models that have each function are here: the package finds a function by its code alone.
tests/huggingface/test_hf_page.py compares.
"""

from pathlib import Path

import hugging_face_norms
import pages
from rope_kernels.huggingface.calls import Rule
from rope_kernels.huggingface.known import KNOWN

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/hugging_face.md"
FAMILIES = {  # by the first digest of a row: names of models, in 5.17, in 5.23 or in both
    "8c71808ee031": (
        "afmoe apertus arcee aria axk1 axk2 bitnet chameleon cohere_compass cosmos3_edge csm "
        "cwm dbrx deepseek_ocr2 deepseek_v3 deepseek_v32 dia diffllama doge dots1 "
        "embedding_gemma2 emu3 esmc esmfold2 eurobert exaone4 exaone4_5 exaone_moe falcon "
        "falcon_h1 flint gemma gemma2 gemma3 glm4_moe_lite gpt_neox_japanese gradium_phonon_tts "
        "granite granite4_vision granite_docling granite_swa granitemoe granitemoe_swa "
        "granitemoehybrid granitemoeshared gte higgs_audio_v2 hrm_text hunyuan_v1_dense "
        "hunyuan_v1_moe hy_v3 hy_v4 hyperclovax idefics jais2 jamba jetmoe jina_embeddings_v3 "
        "kolibri1 kyutai_speech_to_text lasr lfm2 lfm2_moe llama mellum mimi minicpm3 minimax "
        "ministral ministral3 mistral mistral4 mixtral mllama molmo2 moshi muse_glimmer "
        "muse_spark nemotron_asr_streaming nemotron_h neucodec nomic_bert olmoe paddleocr_vl "
        "parakeet persimmon phi phimoe pixtral pocket_tts pocket_tts_audio_tokenizer qwen2 "
        "qwen2_5_omni qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_moe qwen3_omni_moe qwen3_vl "
        "qwen3_vl_moe seed_oss smollm3 solar_open stablelm starcoder2 t5gemma t5gemma2 "
        "timesfm2_5 ultrabert unlimited_ocr vaultgemma voxtral_realtime xcodec2 youtu zamba2"
    ),
    "1c8a7766a526": (
        "bamba dots3_note glm4_moe glm4v_moe glm_image gpt_neox laguna mimo_v2_flash minimax_m2 "
        "minimax_m3_vl nemotron neomme phi3 phi4_multimodal qwen3_5 qwen3_5_moe qwen3_next "
        "recurrent_gemma step3p7 zaya"
    ),
    "5ff7e4fb9d01": "glmasr nemotron3_5_transcribe nemotron3_diarization",
    "02db01a4243e": "qwen4_exp",
    "41a27000e109": "diffusion_gemma gemma3n gemma4 gemma4_unified",
    "eaad334444e1": "nanochat",
    "d12ce5d7de06": "gpt_oss",
    "fbe164d52ccc": "openai_privacy_filter",
    "62c9a8db8dcc": "glm glm4 moonshine moonshine_streaming",
    "345ebc8886cd": "helium",
    "e4922a9fd6c6": "glm4v glm_ocr",
    "02259b7bce0d": "blt",
    "4ff01c7a46b3": (
        "axk1 axk2 bailing_hybrid deepseek_v3 deepseek_v32 dots3_note glm4_moe_lite glm_moe_dsa "
        "longcat_flash mistral4 youtu"
    ),
    "6d7c974d9e1b": "mistral_large4",
    "ae16e5df6d08": "cohere cohere2 cohere2_moe efficientloftr lightglue",
    "ff37b5792fec": "hunyuan_vl",
    "28f2cda89150": (
        "cohere_compass dots3_note ernie4_5_vl_moe exaone4_5 glm4v glm4v_moe glm5_next glm_ocr "
        "kimi_k25 lfm3_vl mlcd muse_glimmer muse_spark paddleocr_vl qwen2_5_omni qwen2_5_vl "
        "qwen2_vl qwen3_5 qwen3_5_moe qwen3_omni_moe qwen3_vl qwen3_vl_moe qwen4_exp step3p7 "
        "video_llama_3"
    ),
    "5c8174b80ffe": "inkling2",
    "1f9a944aabab": "beam flex_olmo lfm3 olmo olmo2 olmo3 olmo_hybrid",
    "3456fade8393": "esm evolla modernbert modernbert_decoder",
    "abdfdc664448": "ernie4_5 ernie4_5_moe",
    "155f6a1f03f4": "ernie4_5_vl_moe",
    "87d7b1c992fe": "deepseek_v4",
}
COLUMNS = {
    "of elements": "a column an element",
    "first half": "a column a pair, in the first half",
    "of pairs": "a column a pair",
}
TURNING = {"none": "all", "after": "the first", "before": "the last"}


def as_page(page: str) -> str:
    """The page with its tables between their marks."""
    page = pages.fill(page, "functions", f"\n{functions()}\n\n")
    return pages.fill(page, "norms", f"\n{hugging_face_norms.table()}\n\n")


def functions() -> str:
    """The table of functions that rotate; one with another name says so before its models."""
    families: dict[tuple[str, ...], set[str]] = {}
    for known in KNOWN:
        name = "" if known.name == "apply_rotary_pos_emb" else f"`{known.name}`: "
        how = pairs(known), TURNING[known.rest], COLUMNS[known.columns], rounding(known)
        families.setdefault((name, *how), set()).update(families_of(known))
    head = ["models", "how many", "pairs", "elements that turn", "the table has", "`rounding`"]
    rows = [
        [name + ", ".join(sorted(found)), len(found), *how]
        for (name, *how), found in families.items()
    ]
    return pages.table(head, rows)


def families_of(known: Rule) -> list[str]:
    """The models of transformers that have a row's code."""
    return FAMILIES[known.digests.split()[0]].split()


def pairs(known: Rule) -> str:
    found = "interleaved" if known.interleaved else "half-split"
    if known.output_pairing == "half":
        found += ", written half-split"
    return f"{found}, sine negated" if known.inverse else found


def rounding(known: Rule) -> str:
    found = f'`"{known.rounding}"`'
    return f"{found}, in the dtype of q" if known.casts_back else found


if __name__ == "__main__":
    hugging_face_norms.store()  # what is found in the transformers that is installed
    page = ROOT / PAGE
    page.write_text(as_page(page.read_text(encoding="utf-8")), encoding="utf-8")
