"""Five ways to scale a small Llama's frequencies, as configurations have them: notebook 12."""

TRAINED, LONG, FACTOR = 256, 2048, 8.0  # positions, and their ratio
HEAD_DIM, BASE = 32, 10_000.0
_BY_FACTOR = {"rope_theta": BASE, "factor": FACTOR}
_BY_TURNS = _BY_FACTOR | {"original_max_position_embeddings": TRAINED}
SCALINGS = {  # `rope_parameters`
    "none": {"rope_type": "default", "rope_theta": BASE},
    "linear": _BY_FACTOR | {"rope_type": "linear"},
    "NTK": {"rope_type": "default", "rope_theta": BASE * FACTOR ** (HEAD_DIM / (HEAD_DIM - 2))},
    "yarn": _BY_TURNS | {"rope_type": "yarn"},
    "llama3": _BY_TURNS | {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0},
}


def configuration(scaling: str) -> dict:
    """The keys of a Hugging Face configuration that say how the model rotates."""
    parameters = SCALINGS[scaling]
    return {"head_dim": HEAD_DIM, "max_position_embeddings": LONG, "rope_parameters": parameters}
