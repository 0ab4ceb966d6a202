"""Patched models of transformers: bits, launches a layer, time of a step (needs a GPU).

A training step, forward and backward, of four layers in the shape of Llama 3 8B with random
weights, one sequence of 4096 tokens: as it is, with its rotation patched, and with the norms of
queries and keys, too. One step of each takes its turn, and the unpatched model takes two, which
shows the noise. Then a compiled small model, tokens that are generated one by one, and losses of
small models. Writes results/<gpu>-models.json, README's table and the picture of losses.
"""

import argparse
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median

import torch
import transformers
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu import GPU, can_measure
from benchmarks.results import NOTHING, RESULTS, ROOT, Table, file_name, save
from rope_kernels.huggingface import patch
from rope_lab.records import origin

LAYERS, TOKENS, TURNS = 4, 4096, 20
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
    "OLMo 2": ("Olmo2Config", "Olmo2ForCausalLM", {}),
    "DeepSeek V3, dense": ("DeepseekV3Config", "DeepseekV3ForCausalLM", DEEPSEEK),
}
WITH_NORMS = "Qwen3", "GLM4-MoE, dense", "Gemma 3", "OLMo 2"
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


def results_of(model: nn.Module, tokens: Tensor, autocast: bool) -> list[Tensor]:
    """Logits and gradients, added in a fixed order: the fast attention's backward has none."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    with sdpa_kernel(SDPBackend.MATH):
        logits = train(model, tokens, autocast)
    torch.use_deterministic_algorithms(False)
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


def in_turns(
    ways: dict, run: Callable[[], object], turns: int = TURNS, runs_before: int = 0
) -> dict[str, list[float]]:
    """Milliseconds of each way, one run after the other, because clocks drift.

    A class that was patched costs the first call of a compiled model a longer look at its guards:
    `runs_before` are not timed.
    """
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(-2, turns):
        for way, entered in ways.items():
            with entered():
                for _ in range(runs_before):
                    run()
                torch.cuda.synchronize()
                start = time.perf_counter()
                run()
                torch.cuda.synchronize()
            if turn >= 0:
                times[way].append(round((time.perf_counter() - start) * 1e3, 3))
    return times


def measure(name: str, autocast: bool) -> dict:
    """A row of README's table."""
    model = model_of(name, torch.float32 if autocast else torch.bfloat16)
    tokens = torch.randint(3, SHAPE["vocab_size"], (1, TOKENS), device="cuda")
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
    turns = TURNS if "norms" in ways else 8
    return row | {"ms": in_turns(ways, lambda: train(*call), turns)}


def off(got: Tensor, wanted: Tensor) -> float:
    """The norm of a difference, beside that which is wanted."""
    return float((got.float() - wanted.float()).norm() / wanted.float().norm().clamp(min=1e-30))


def measure_compiled() -> dict:
    """A small model, compiled: patched it is the code that it was."""
    model = model_of("Qwen3", torch.bfloat16, SMALL)
    tokens = torch.randint(3, SMALL["vocab_size"], (1, TOKENS), device="cuda")
    ways = ways_of("Qwen3", model)
    eager = in_turns(ways, lambda: train(model, tokens, False))
    model.compile()
    compiled = in_turns(ways, lambda: train(model, tokens, False), runs_before=2)
    return {"eager": eager, "compiled": compiled}


def measure_generate(shape: dict, new: int = 64) -> dict:
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


def draw_losses(losses: dict, path: Path) -> None:
    """The curves of each model lie on each other."""
    import matplotlib.pyplot as plt

    from benchmarks.pictures import STYLE

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 3, figsize=(8, 4), sharex=True, sharey=True)
        for ax, (name, ways) in zip(axes.flat, losses.items(), strict=True):
            ax.plot(ways["unpatched"], linewidth=4, alpha=0.35, label="unpatched")
            ax.plot(ways["norms"], linewidth=1, color="black", label="norms=True")
            ax.set_title(name)
        axes[0, 0].legend()
        figure.supxlabel("step")
        figure.supylabel("loss")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def table(record: dict) -> Table:
    """README's rows: medians of all turns."""
    titles = "", "differing tensors", "launches per layer", "tokens per second", "with norms"
    lines = [titles, ["---"] * len(titles)]
    for row in record["rows"]:
        rates = {way: f"{TOKENS / median(ms) * 1e3:,.0f}" for way, ms in row["ms"].items()}
        counts = {
            way: f"{found['before']:.0f}→{found['after']:.0f}"
            for way, found in row["launches"].items()
        }
        precision = "" if row["precision"] == "bf16" else f", {row['precision']}"
        norms = f"{counts['norms']}, {rates['norms']}" if "norms" in rates else NOTHING
        differing = f"{row['differ']}/{row['tensors']}"
        speed = f"{rates['unpatched']}→{rates['patched']}"
        lines.append([row["model"] + precision, differing, counts["patched"], speed, norms])
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    versions = {name: x for name, x in record["versions"].items() if name != "python"}
    source = origin(record["gpu"], versions, record["date"])
    return Table(ROOT / "README.md", "models", "\n".join([*rows, "", source]))


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser("python -m benchmarks models", description=__doc__)
    parser.parse_args(arguments)
    if not can_measure():
        return 1
    gpu = GPU()
    record = gpu.circumstances() | {"rows": [], "losses": {}, "small": {}, "generate": {}}
    record["versions"] |= {"transformers": transformers.__version__}
    path = RESULTS / f"{file_name(record['gpu'])}-models.json"

    def keep(what: str, ways: dict[str, list[float]]) -> None:
        print(what, {way: median(x) for way, x in ways.items()}, flush=True)
        save(path, record)
        gpu.free()

    for name, autocast in CASES:
        record["rows"].append(measure(name, autocast))
        keep(name, record["rows"][-1]["ms"])
    for name in LEARNING:
        record["losses"][name] = losses(name)
        keep(name, record["losses"][name])
    record["small"] = measure_compiled()
    for name, shape in {"small": SMALL, "8B": SHAPE}.items():
        record["generate"][name] = measure_generate(shape)
        keep(f"generate, {name}", record["generate"][name])
    draw_losses(record["losses"], ROOT / "docs" / "images" / "losses_with_norms.png")
    table(record).write()
    return 0
