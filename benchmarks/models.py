"""Patched models of transformers: bits, launches a layer, tokens a second (needs a GPU).

    python -m benchmarks.models

A training step, forward and backward, of four layers in the shape of Llama 3 8B with random
weights, one sequence of 4096 tokens, eager. Writes results/models/<gpu>.json, and README's table.
"""

import gc
import json
import re
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from rope_kernels.huggingface import patch
from rope_lab.records import versions

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "models"
LAYERS, TOKENS = 4, 4096
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
DEEPSEEK = {"num_key_value_heads": 32, "first_k_dense_replace": LAYERS, "head_dim": 64}
MODELS = {  # the name in README -> classes of transformers, options
    "Llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "GLM4": ("Glm4Config", "Glm4ForCausalLM", {"num_key_value_heads": 2}),
    "Gemma 3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {}),
    "DeepSeek V3, dense": ("DeepseekV3Config", "DeepseekV3ForCausalLM", DEEPSEEK),
}
CASES = [(name, False) for name in MODELS] + [("Llama", True)]
OURS = re.compile("rope_kernel|whole_rows_kernel")


def model_of(name: str, dtype: torch.dtype) -> nn.Module:
    config, model, options = MODELS[name]
    torch.manual_seed(1)
    asked = getattr(transformers, config)(**SHAPE | options)
    with torch.device("cuda"):
        made = getattr(transformers, model)._from_config(asked, attn_implementation="sdpa")
    return made.to(dtype)


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
    """Of a step: all kernels, and ours."""
    train(model, tokens, autocast)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        train(model, tokens, autocast)
        torch.cuda.synchronize()
    on_gpu = [e.name for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    kernels = [name for name in on_gpu if not re.match("Mem(cpy|set)", name)]
    return len(kernels), sum(bool(OURS.search(name)) for name in kernels)


def seconds(run: Callable[[], object], count: int = 6) -> float:
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def measure(name: str, autocast: bool, rounds: int = 4) -> dict:
    """A row of README's table."""
    model = model_of(name, torch.float32 if autocast else torch.bfloat16)
    tokens = torch.randint(3, SHAPE["vocab_size"], (1, TOKENS), device="cuda")
    call = model, tokens, autocast
    wanted, again = results_of(*call), results_of(*call)
    differ_by_themselves = count_different(wanted, again)
    del again
    before, _ = launches(*call)
    with patch(model):
        differ = count_different(wanted, results_of(*call))
        after, ours = launches(*call)
    tensors = len(wanted)
    del wanted
    times: dict[str, list[float]] = {"before": [], "after": []}
    for _ in range(rounds):  # in turns, because clocks drift
        times["before"].append(seconds(lambda: train(*call)))
        with patch(model):
            times["after"].append(seconds(lambda: train(*call)))
    return {
        "model": name,
        "precision": "autocast" if autocast else "bf16",
        "tensors": tensors,
        "differ": differ,
        "differ when run twice": differ_by_themselves,
        "launches before": (before - after + ours) / LAYERS,
        "launches after": ours / LAYERS,
        "tokens per second before": [round(TOKENS / t) for t in times["before"]],
        "tokens per second after": [round(TOKENS / t) for t in times["after"]],
    }


def table(record: dict) -> str:
    """README's rows, best of the rounds."""
    lines = [
        "| | differing tensors | launches per layer | tokens per second |",
        "|---|---|---|---|",
    ]
    for row in record["rows"]:
        rates = [max(row[f"tokens per second {when}"]) for when in ("before", "after")]
        lines.append(
            f"| {name_of(row)} | {row['differ']}/{row['tensors']} | "
            f"{row['launches before']:.0f}→{row['launches after']:.0f} | "
            f"{rates[0]:,}→{rates[1]:,} |"
        )
    of = ", ".join(
        f"{name} {version}" for name, version in record["versions"].items() if name != "python"
    )
    return "\n".join([*lines, "", f"{record['gpu']}, {of}, {record['date']}."])


def name_of(row: dict) -> str:
    return row["model"] if row["precision"] == "bf16" else f"{row['model']}, {row['precision']}"


def into_readme(record: dict) -> None:
    """Write the table between README's marks."""
    path = ROOT / "README.md"
    begin, end = "<!-- models: begin -->\n", "\n<!-- models: end -->"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(begin)
    path.write_text(before + begin + table(record) + end + rest.split(end)[1], encoding="utf-8")


def main() -> None:
    rows = []
    for name, autocast in CASES:
        rows.append(measure(name, autocast))
        print(json.dumps(rows[-1]), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    gpu = torch.cuda.get_device_name()
    found = versions() | {"transformers": transformers.__version__}
    record = {"gpu": gpu, "versions": found, "date": str(date.today()), "rows": rows}
    name = f"{gpu.lower().replace(' ', '-')}.json"
    (RESULTS / name).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    into_readme(record)


if __name__ == "__main__":
    main()
