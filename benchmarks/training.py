"""Patched models of transformers: bits, launches a layer, time of a step (needs a GPU).

A training step, forward and backward, of four layers in the shape of Llama 3 8B with random
weights, one sequence of 4096 tokens: as it is, with its rotation patched, and with the norms of
queries and keys, too. One step of each takes its turn, and the unpatched model takes two, which
shows the noise. Then a compiled small model, tokens that are generated one by one, and losses of
small models.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median

import torch
import transformers
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu import GPU
from rope_kernels.huggingface import patch
from rope_lab.profiling.model_runs import in_turns

LAYERS = 4
SHAPE = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": LAYERS,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SMALL = SHAPE | {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 1024,
}
DEEPSEEK = {"num_key_value_heads": 32, "first_k_dense_replace": LAYERS, "head_dim": 64}
GLM4_MOE = {"first_k_dense_replace": LAYERS, "use_qk_norm": True}  # no layer has experts
MODELS = {  # the name in README -> classes of transformers, options
    "Llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "GLM4": ("Glm4Config", "Glm4ForCausalLM", {"num_key_value_heads": 2}),
    "GLM4-MoE, dense": ("Glm4MoeConfig", "Glm4MoeForCausalLM", GLM4_MOE),
    "Gemma 3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {}),
    "DeepSeek V3, dense": ("DeepseekV3Config", "DeepseekV3ForCausalLM", DEEPSEEK),
}
WITH_NORMS = "Qwen3", "GLM4-MoE, dense", "Gemma 3"
MORE = {
    "HunYuan": ("HunYuanDenseV1Config", "HunYuanDenseV1ForCausalLM", {}),
    "Exaone 4": ("Exaone4Config", "Exaone4ForCausalLM", {"sliding_window": 64}),
}
LEARNING = *WITH_NORMS, *MORE  # whose losses are drawn
CASES = [*((name, False) for name in MODELS), ("Llama", True), ("Qwen3", True)]
OURS = re.compile("rope_kernel|whole_rows_kernel|norm_rope")


def model_of(name: str, dtype: torch.dtype, shape: dict = SHAPE) -> nn.Module:
    config, model, options = (MODELS | MORE)[name]
    torch.manual_seed(1)
    asked = getattr(transformers, config)(**shape | options)
    with torch.device("cuda"):
        made = getattr(transformers, model)._from_config(asked, attn_implementation="sdpa")
    return made.to(dtype)


def ways_of(name: str, model: nn.Module) -> dict[str, Callable[[], AbstractContextManager]]:
    """How a model may run; each is entered for one step."""
    ways = {"unpatched": nullcontext, "again": nullcontext, "patched": lambda: patch(model)}
    if name in WITH_NORMS:
        ways["norms"] = lambda: patch(model, norms=True, strict=True)
    return ways


def train(model: nn.Module, tokens: Tensor, autocast: bool) -> Tensor:
    """One step without an optimizer: the logits, and gradients of all parameters."""
    model.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        logits = model(tokens, use_cache=False).logits
        loss = nn.functional.cross_entropy(logits[0, :-1].float(), tokens[0, 1:])
    loss.backward()
    return logits.detach()


@contextmanager
def deterministic() -> Iterator[None]:
    """Equal bits in equal runs: attention's backward adds in a fixed order, which costs time."""
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = False  # no launches of its own
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = fills


def results_of(model: nn.Module, tokens: Tensor, autocast: bool) -> list[Tensor]:
    """Logits and gradients, added in a fixed order: the fast attention's backward has none."""
    with deterministic(), sdpa_kernel(SDPBackend.MATH):
        logits = train(model, tokens, autocast)
    found = [logits, *(p.grad for p in model.parameters() if p.grad is not None)]
    model.zero_grad(set_to_none=True)
    return found


def count_different(one: list[Tensor], other: list[Tensor]) -> int:
    """How many of the tensors differ in a bit."""
    return sum(not torch.equal(x, y) for x, y in zip(one, other, strict=True))


def launches(model: nn.Module, tokens: Tensor, autocast: bool) -> tuple[int, int]:
    """Kernels of a step: all, and ours."""
    train(model, tokens, autocast)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        train(model, tokens, autocast)
        torch.cuda.synchronize()
    on_gpu = [e.name for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    kernels = [name for name in on_gpu if not re.match("Mem(cpy|set)", name)]
    return len(kernels), sum(bool(OURS.search(name)) for name in kernels)


def row_of(name: str, autocast: bool, length: int, turns: int) -> dict:
    """A row of README's table."""
    model = model_of(name, torch.float32 if autocast else torch.bfloat16)
    tokens = torch.randint(3, SHAPE["vocab_size"], (1, length), device="cuda")
    call, ways = (model, tokens, autocast), ways_of(name, model)
    wanted, again = results_of(*call), results_of(*call)
    row = {
        "model": name,
        "precision": "autocast" if autocast else "bf16",
        "tensors": len(wanted),
        "differ when run twice": count_different(wanted, again),
        "launches": {},
    }
    del again
    unpatched, _ = launches(*call)
    for way, entered in ways.items():
        with entered():
            if way == "patched":
                row["differ"] = count_different(wanted, results_of(*call))
            if way == "norms":
                row["off with norms"] = max(map(off, results_of(*call), wanted))
            if way in ("patched", "norms"):
                every, ours = launches(*call)
                replaced = unpatched - every + ours
                row["launches"][way] = {"before": replaced / LAYERS, "after": ours / LAYERS}
    del wanted
    turns = turns if "norms" in ways else min(turns, 8)
    return row | {"ms": in_turns(ways, lambda: train(*call), turns)}


def off(got: Tensor, wanted: Tensor) -> float:
    """The norm of a difference, beside that which is wanted."""
    return float((got.float() - wanted.float()).norm() / wanted.float().norm().clamp(min=1e-30))


def small_model(length: int, turns: int) -> dict:
    """A small one, and compiled: patched it is the code that it was."""
    model = model_of("Qwen3", torch.bfloat16, SMALL)
    tokens = torch.randint(3, SMALL["vocab_size"], (1, length), device="cuda")
    ways = ways_of("Qwen3", model)
    eager = in_turns(ways, lambda: train(model, tokens, False), turns)
    model.compile()
    compiled = in_turns(ways, lambda: train(model, tokens, False), turns, calls_before=2)
    return {"eager": eager, "compiled": compiled}


def generated(shape: dict, new: int = 64) -> dict:
    """Tokens that come one by one, with a cache."""
    model = model_of("Qwen3", torch.bfloat16, shape).eval()
    tokens = torch.randint(3, shape["vocab_size"], (1, 32), device="cuda")
    options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False}
    return in_turns(ways_of("Qwen3", model), lambda: model.generate(tokens, **options), 5)


def losses(name: str, steps: int = 50) -> dict[str, list[float]]:
    """Of a small model that learns to count, from the same weights each time."""
    generator = torch.Generator("cuda").manual_seed(2)
    starts = torch.randint(3, 500, (steps, 8, 1), device="cuda", generator=generator)
    batches = (starts + 3 * torch.arange(129, device="cuda")) % SMALL["vocab_size"]
    found = {}
    for way in ("unpatched", "norms"):
        model = model_of(name, torch.bfloat16, SMALL)
        descent = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with patch(model, norms=True, strict=True) if way == "norms" else nullcontext():
            found[way] = []
            for batch in batches:
                logits = model(batch[:, :-1], use_cache=False).logits.flatten(0, 1).float()
                loss = nn.functional.cross_entropy(logits, batch[:, 1:].flatten())
                loss.backward()
                descent.step()
                descent.zero_grad()
                found[way].append(round(loss.item(), 5))
    return found


def measured(gpu: GPU, found: dict, length: int) -> Iterator[str]:
    """Put everything into a record, part by part; says after each what there is."""
    found["what"] = "Milliseconds of a step, ways in turns"
    found["versions"] = gpu.circumstances()["versions"] | {"transformers": transformers.__version__}
    turns = 4 * gpu.rounds
    for name, autocast in CASES:
        found["rows"].append(row_of(name, autocast, length, turns))
        yield said(name, found["rows"][-1]["ms"])
    found["losses"] = {}
    for name in LEARNING:
        found["losses"][name] = losses(name)
        yield said(name, found["losses"][name])
    found["small"] = small_model(length, turns)
    found["generate"] = {}
    for name, shape in {"small": SMALL, "8B": SHAPE}.items():
        found["generate"][name] = generated(shape)
        yield said(f"generate, {name}", found["generate"][name])


def said(what: str, ways: dict[str, list[float]]) -> str:
    return f"{what} { {way: median(values) for way, values in ways.items()} }"
