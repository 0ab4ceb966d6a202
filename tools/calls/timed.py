"""Calls whose time `compare_speed.py` compares."""

from dataclasses import dataclass, replace

from .call import Call, Norm
from .sample import PER_PAIR, TABLE

HEADLINE = {"s": 2048, "b": 16, "h": 8, "d": 256}
LLAMA = {"s": 4096, "b": 2, "h": 32, "k": 8, "d": 128}
TINY = {"s": 64, "b": 1, "h": 16, "k": 4, "d": 64}  # for the host's time, the GPU being idle
COS_SIN = {"freqs": "cos, sin", "freqs_dtype": "bfloat16"}


@dataclass(frozen=True)
class Timed:
    """A call, what is timed of it, and by which clock."""

    call: Call
    part: str  # "forward", without gradients; "recorded", with them; "backward"; "both"
    clock: str  # "device" or "host"

    @property
    def shrunk(self) -> "Timed":
        """The same for the interpreter."""
        call = replace(self.call, s=4, b=1, h=2, k=1, d=16, rotary_dim=0, id_range=4)
        if self.call.rotary_dim < self.call.d:
            call.rotary_dim = 8
        if call.cu_seqlens:
            call.cu_seqlens = [0, 2, 4]
        return replace(self, call=call)


def timed_calls() -> dict[str, Timed]:
    """All of them by name."""
    device = {name: Timed(*x, "device") for name, x in (_rotations() | _pairs()).items()}
    host = {f"host: {name}": Timed(*x, "host") for name, x in _on_the_host().items()}
    norms = {}
    for name, call in _norms(LLAMA, _packed(8192, 8)):
        for kind, freqs in (("on the fly", {}), ("table", PER_PAIR)):
            for part in ("forward", "backward"):
                norms[f"{name}, {kind}, {part}"] = Timed(replace(call, **freqs), part, "device")
    for name, call in _norms(TINY, _packed(64, 4)):
        host[f"host: {name}"] = Timed(call, "forward", "host")
        host[f"host: {name}, forward and backward"] = Timed(call, "both", "host")
    return device | norms | host


def _packed(tokens: int, sequences: int) -> dict:
    cuts = [i * tokens // sequences for i in range(sequences + 1)]
    return {"tensor_format": "thd", "s": tokens, "b": 1, "cu_seqlens": cuts}


def _with_ids(tokens: int) -> dict:
    return {"tensor_format": "bshd", "positions": "ids", "id_range": tokens} | TABLE


def _rotations() -> dict[str, tuple[Call, str]]:
    forms = {
        "headline bf16": HEADLINE | TABLE,
        "headline bf16, on the fly": HEADLINE,
        "headline bf16, cos and sin": HEADLINE | COS_SIN,
        "headline fp32": HEADLINE | TABLE | {"dtype": "float32"},
        "headline fp32, on the fly": HEADLINE | {"dtype": "float32"},
        "llama": LLAMA | TABLE,
        "llama, on the fly": LLAMA,
        "llama, bhsd": LLAMA | TABLE | {"tensor_format": "bhsd"},
        "llama, half rotary": LLAMA | TABLE | {"rotary_dim": 64},
        "llama, in place": LLAMA | TABLE | {"inplace": True},
        "llama, interleaved": LLAMA | TABLE | {"interleaved": True},
        "llama, position ids": LLAMA | _with_ids(4096),
        "llama, d 80": LLAMA | TABLE | {"d": 80},
        "long, on the fly": LLAMA | {"s": 131072, "b": 1, "h": 8},
        "packed": LLAMA | TABLE | _packed(65536, 50),
    }
    directions = {"forward": "apply_rotary_pos_emb", "backward": "rope_bw"}
    return {
        f"{name}, {direction}": (Call(function, **form), "forward")
        for name, form in forms.items()
        for direction, function in directions.items()
    }


def _pairs() -> dict[str, tuple[Call, str]]:
    heads_first = {"tensor_format": "bhsd"}
    forms = {
        "q and k, bhsd": LLAMA | TABLE | heads_first,
        "q and k, bhsd, in place": LLAMA | TABLE | heads_first | {"inplace": True},
        "q and k, on the fly": LLAMA,
    }
    found = {f"{name}, forward": (Call("rope_qk", **x), "forward") for name, x in forms.items()}
    return found | {"q and k, backward": (Call("rope_qk", **LLAMA, **TABLE), "backward")}


def _on_the_host() -> dict[str, tuple[Call, str]]:
    one, two = "apply_rotary_pos_emb", "rope_qk"
    forms = {
        "table": (one, TABLE, "forward"),
        "module": (one, {}, "forward"),
        "cos and sin": (one, COS_SIN, "forward"),
        "in place": (one, TABLE | {"inplace": True}, "forward"),
        "thd, cu_seqlens": (one, TABLE | _packed(64, 4), "forward"),
        "position ids": (one, _with_ids(64), "forward"),
        "rope_bw": ("rope_bw", TABLE, "forward"),
        "rope_qk, table": (two, TABLE, "forward"),
        "rope_qk, module": (two, {}, "forward"),
        "rope_qk, in place": (two, {"inplace": True}, "forward"),
        "requires grad, table": (one, TABLE, "recorded"),
        "requires grad, module": (one, {}, "recorded"),
        "forward and backward, table": (one, TABLE, "both"),
        "forward and backward, module": (one, {}, "both"),
        "rope_qk, forward and backward": (two, {}, "both"),
    }
    return {
        name: (Call(function, **TINY | form), part)
        for name, (function, form, part) in forms.items()
    }


def _norms(sizes: dict, packed: dict) -> list[tuple[str, Call]]:
    """`norm_rope` and `qk_norm_rope`, each in three formats."""
    formats = {
        "sbhd": sizes,
        "bhsd": sizes | {"tensor_format": "bhsd"},
        "thd": sizes | packed,
    }
    return [
        (f"{function}, {name}", Call(function, norm=Norm(), **form))
        for function in ("norm_rope", "qk_norm_rope")
        for name, form in formats.items()
    ]
