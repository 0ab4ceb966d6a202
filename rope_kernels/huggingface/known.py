"""The rotation functions that are known, each by the digest of its own code.

A row is a rule: the form that takes its calls, the digests of all code that rotates by it, and the
models of transformers that have such code, in 5.17, in 5.23 or in both. Copies in other files have
the same digest. A test holds the table against the installed transformers, digest by digest and
bit by bit.
"""

from dataclasses import dataclass

from .calls import Rule
from .forms import (
    Form,
    by_matrices,
    latest_queries,
    one_tensor,
    patches,
    q_alone_or_with_k,
    q_and_k,
    q_with_k_or_none,
    sine_first,
    values_too,
    vision,
    vision_of_a_batch,
    vision_of_rows,
    with_unused_ids,
)


@dataclass(frozen=True)
class Known:
    """One way to rotate, and the functions that do."""

    digests: str  # of their code, with spaces between them
    form: Form
    rule: Rule
    families: str  # names of models, with spaces between them
    name: str = "apply_rotary_pos_emb"  # that the models give it


KNOWN = (
    Known(
        "8c71808ee031",
        q_and_k,
        Rule(),
        families=(
            "afmoe apertus arcee aria axk1 axk2 bitnet chameleon cohere_compass cosmos3_edge csm "
            "cwm dbrx deepseek_ocr2 deepseek_v3 deepseek_v32 dia diffllama doge dots1 "
            "embedding_gemma2 emu3 esmc esmfold2 eurobert exaone4 exaone4_5 exaone_moe falcon "
            "falcon_h1 flint gemma gemma2 gemma3 glm4_moe_lite gpt_neox_japanese "
            "gradium_phonon_tts granite granite4_vision granite_docling granite_swa granitemoe "
            "granitemoe_swa granitemoehybrid granitemoeshared gte higgs_audio_v2 hrm_text "
            "hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4 hyperclovax idefics jais2 jamba jetmoe "
            "jina_embeddings_v3 kolibri1 kyutai_speech_to_text lasr lfm2 lfm2_moe llama mellum "
            "mimi minicpm3 minimax ministral ministral3 mistral mistral4 mixtral mllama molmo2 "
            "moshi muse_glimmer muse_spark nemotron_asr_streaming nemotron_h neucodec nomic_bert "
            "olmoe paddleocr_vl parakeet persimmon phi phimoe pixtral pocket_tts "
            "pocket_tts_audio_tokenizer qwen2 qwen2_5_omni qwen2_5_vl qwen2_moe qwen2_vl qwen3 "
            "qwen3_moe qwen3_omni_moe qwen3_vl qwen3_vl_moe seed_oss smollm3 solar_open stablelm "
            "starcoder2 t5gemma t5gemma2 timesfm2_5 ultrabert unlimited_ocr vaultgemma "
            "voxtral_realtime xcodec2 youtu zamba2"
        ),
    ),
    Known(
        "1c8a7766a526 479bb0df2eba 99e5222df95c",
        q_and_k,
        Rule(rest="after"),
        families=(
            "bamba dots3_note glm4_moe glm4v_moe glm_image gpt_neox laguna mimo_v2_flash "
            "minimax_m2 minimax_m3_vl nemotron neomme phi3 phi4_multimodal qwen3_5 qwen3_5_moe "
            "qwen3_next recurrent_gemma step3p7 zaya"
        ),
    ),
    Known(
        "5ff7e4fb9d01",
        with_unused_ids,
        Rule(rest="after"),
        families="glmasr nemotron3_5_transcribe nemotron3_diarization",
    ),
    Known(
        "02db01a4243e",
        q_alone_or_with_k,
        Rule(rest="after"),
        families="qwen4_exp",
    ),
    Known(
        "63d99ecb9425",
        latest_queries,
        Rule(),
        families="muse_glimmer_assistant",
    ),
    Known(
        "d57bb522badf",
        values_too,
        Rule(),
        families="clvp",
    ),
    Known(
        "bc3d64b5f9c6",
        patches,
        Rule(concatenates=True),
        families="dinov3_vit eomt_dinov3 sapiens2",
    ),
    Known(
        "41a27000e109",
        one_tensor,
        Rule(),
        families="diffusion_gemma gemma3n gemma4 gemma4_unified",
    ),
    Known(
        "6cbca44a9d41",  # of 5.17
        vision_of_a_batch,
        Rule(rest="after"),
        families="minimax_m3_vl",
        name="apply_rotary_pos_emb_vision",
    ),
    Known(
        "bf64e19b7517",  # of 5.23
        vision_of_rows,
        Rule(rest="after"),
        families="minimax_m3_vl",
        name="apply_rotary_pos_emb_vision",
    ),
    Known(
        "eaad334444e1",
        q_and_k,
        Rule(inverse=True),
        families="nanochat",
    ),
    Known(
        "d12ce5d7de06",
        q_and_k,
        Rule(columns="of pairs", concatenates=True),
        families="gpt_oss",
    ),
    Known(
        "fbe164d52ccc",
        q_and_k,
        Rule(interleaved=True, columns="of pairs", concatenates=True),
        families="openai_privacy_filter",
    ),
    Known(
        "62c9a8db8dcc",
        q_and_k,
        Rule(interleaved=True, columns="first half", rest="after"),
        families="glm glm4 moonshine moonshine_streaming",
    ),
    Known(
        "345ebc8886cd",
        q_and_k,
        Rule(interleaved=True, columns="first half"),
        families="helium",
    ),
    Known(
        "ffdbd18c499a",
        by_matrices,
        Rule(interleaved=True, columns="first half", promoted="upcast", concatenates=True),
        families="pe_audio pe_audio_video pe_video",
    ),
    Known(
        "e4922a9fd6c6",
        q_and_k,
        Rule(interleaved=True, rest="after"),
        families="glm4v glm_ocr",
    ),
    Known(
        "02259b7bce0d",
        q_and_k,
        Rule(interleaved=True),
        families="blt",
    ),
    Known(
        "4fe4dfdf79e8",
        sine_first,
        Rule(interleaved=True, columns="of pairs"),
        families="codegen gptj",
    ),
    Known(
        "4ff01c7a46b3",
        with_unused_ids,
        Rule(interleaved=True, columns="first half", output_pairing="half", concatenates=True),
        families=(
            "axk1 axk2 bailing_hybrid deepseek_v3 deepseek_v32 dots3_note glm4_moe_lite "
            "glm_moe_dsa longcat_flash mistral4 youtu"
        ),
        name="apply_rotary_pos_emb_interleave",
    ),
    Known(
        "6d7c974d9e1b",
        q_with_k_or_none,
        Rule(interleaved=True, columns="first half", output_pairing="half", concatenates=True),
        families="mistral_large4",
        name="apply_rotary_pos_emb_interleave",
    ),
    Known(
        "ae16e5df6d08",
        q_and_k,
        Rule(interleaved=True, rounding="upcast", casts_back=True),
        families="cohere cohere2 cohere2_moe efficientloftr lightglue",
    ),
    Known(
        "ff37b5792fec",
        q_and_k,
        Rule(rounding="upcast", casts_back=True),
        families="hunyuan_vl",
    ),
    Known(
        "28f2cda89150",
        vision,
        Rule(rounding="upcast", casts_back=True),
        families=(
            "cohere_compass dots3_note ernie4_5_vl_moe exaone4_5 glm4v glm4v_moe glm5_next "
            "glm_ocr kimi_k25 lfm3_vl mlcd muse_glimmer muse_spark paddleocr_vl qwen2_5_omni "
            "qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe qwen3_omni_moe qwen3_vl qwen3_vl_moe "
            "qwen4_exp step3p7 video_llama_3"
        ),
        name="apply_rotary_pos_emb_vision",
    ),
    Known(
        "5c8174b80ffe",
        vision,
        Rule(interleaved=True, rounding="upcast", casts_back=True),
        families="inkling2",
        name="apply_rotary_pos_emb_vision",
    ),
    Known(
        "1f9a944aabab",
        q_and_k,
        Rule(casts_back=True),
        families="beam flex_olmo lfm3 olmo olmo2 olmo3 olmo_hybrid",
    ),
    Known(
        "3456fade8393",
        q_and_k,
        Rule(rounding="promoted", casts_back=True),
        families="esm evolla modernbert modernbert_decoder",
    ),
    Known(
        "abdfdc664448",
        q_and_k,
        Rule(interleaved=True, columns="first half", rounding="promoted", casts_back=True),
        families="ernie4_5 ernie4_5_moe",
    ),
    Known(
        "155f6a1f03f4",
        q_and_k,
        Rule(interleaved=True, rounding="promoted", casts_back=True),
        families="ernie4_5_vl_moe",
    ),
    Known(
        "87d7b1c992fe",
        one_tensor,
        Rule(
            interleaved=True,
            columns="of pairs",
            rest="before",
            rounding="promoted",
            casts_back=True,
        ),
        families="deepseek_v4",
    ),
)
# Llama's function as transformers 4 had it: in code that came with models, not in transformers 5.
OLDER = (Known("92f7f2b80019", with_unused_ids, Rule(), families=""),)
BY_DIGEST = {digest: known for known in (*KNOWN, *OLDER) for digest in known.digests.split()}
