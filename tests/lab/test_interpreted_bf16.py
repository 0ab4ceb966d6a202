"""bf16 in the interpreter has the bits of a GPU, which are stored beside this file.

python tests/lab/test_interpreted_bf16.py      # on a GPU: store them
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

triton = pytest.importorskip("triton", reason="needs Triton")
import triton.language as tl  # noqa: E402

from rope_lab.interpreter.bf16 import rounded_to_bf16  # noqa: E402

STORED = Path(__file__).with_suffix(".json")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N = 1024
EXACT = "fp32", "fp64", "fp16", "int32", "sum", "difference", "product", "quotient", "larger"
NEARLY = "exp", "sin", "row_sum"  # of fp32, then rounded: another last bit may be another unit


@triton.jit
def casts_kernel(fp32_ptr, fp64_ptr, fp16_ptr, int32_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(fp32_ptr + i).to(tl.bfloat16))
    tl.store(out_ptr + N + i, tl.load(fp64_ptr + i).to(tl.bfloat16))
    tl.store(out_ptr + 2 * N + i, tl.load(fp16_ptr + i).to(tl.bfloat16))
    tl.store(out_ptr + 3 * N + i, tl.load(int32_ptr + i).to(tl.bfloat16))


@triton.jit
def arithmetic_kernel(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(out_ptr + i, x + y)
    tl.store(out_ptr + N + i, x - y)
    tl.store(out_ptr + 2 * N + i, x * y)
    tl.store(out_ptr + 3 * N + i, x / y)
    tl.store(out_ptr + 4 * N + i, tl.where(x > y, x, y))


@triton.jit
def functions_kernel(x_ptr, out_ptr, N: tl.constexpr, ROW: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i).to(tl.float32)
    tl.store(out_ptr + i, tl.exp(x))
    tl.store(out_ptr + N + i, tl.sin(x))
    row_sum = tl.sum(tl.reshape(x, (N // ROW, ROW)), 1)
    tl.store(out_ptr + 2 * N + tl.arange(0, N // ROW), row_sum)


def patterns():
    """Random bits of fp32, and those that rounding may get wrong."""
    rng = np.random.default_rng(20261125)
    bits = rng.integers(0, 2**32, N, dtype=np.uint64).astype(np.uint32)
    special = [  # ties up and down, a carry into the exponent and to infinity, subnormals, inf, NaN
        *(0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x3FFF8000, 0x7F7F8000, 0x7F7FFFFF),
        *(0x00000001, 0x00008000, 0x00018000, 0x007FFFFF, 0x80000001, 0x7F800000, 0x7F800001),
        *(0x7FC00000, 0x00000000, 0x80000000, 0x33800000, 0x47800080),
    ]
    bits[: len(special)] = special
    bits[len(special) : 2 * len(special)] = np.array(special, np.uint32) ^ 0x80000000
    return torch.from_numpy(bits.view(np.float32).copy())


def bits():
    """Case -> bits of what the kernels store, as this process runs them; NaN is one pattern."""
    wide, generator = patterns(), torch.Generator().manual_seed(0)
    x, y = torch.randn(2, N, generator=generator).bfloat16().to(DEVICE)
    # halfway between two bf16 in fp64, and a little more than fp32 can tell
    fp64 = torch.where(torch.arange(N) % 2 == 0, wide.double() * (1 + 2.0**-40), wide.double())
    integers = torch.randint(-(2**31), 2**31, (N,), generator=generator).to(torch.int32)
    inputs = wide, fp64, wide.clamp(-1e5, 1e5).half(), integers
    out = torch.zeros(12, N, dtype=torch.bfloat16, device=DEVICE)
    casts_kernel[(1,)](*(one.to(DEVICE) for one in inputs), out, N=N)
    arithmetic_kernel[(1,)](x, y, out[4], N=N)
    functions_kernel[(1,)](x, out[9], N=N, ROW=64)
    out = torch.where(out.isnan(), torch.nan, out).view(torch.int16).cpu().numpy()
    return dict(zip((*EXACT, *NEARLY), out, strict=True))


def stored():
    record = json.loads(STORED.read_text(encoding="utf-8"))
    return {
        name: np.frombuffer(base64.b64decode(text), np.int16)
        for name, text in record["bits"].items()
    }


def test_rounding_is_torchs():
    random = np.random.default_rng(0).integers(0, 2**32, 2**18, dtype=np.uint64).astype(np.uint32)
    x = torch.cat((patterns(), torch.from_numpy(random.view(np.float32))))
    got, want = torch.from_numpy(rounded_to_bf16(x.numpy()).view(np.int16)), x.bfloat16()
    assert torch.equal(got[~want.isnan()], want.view(torch.int16)[~want.isnan()])
    assert got.view(torch.bfloat16)[want.isnan()].isnan().all()


@pytest.fixture(scope="module")
def both():
    return bits(), stored()


@pytest.mark.parametrize("name", EXACT)
def test_the_bits_are_those_of_a_gpu(name, both):
    ours, a_gpus = (found[name] for found in both)
    assert np.array_equal(ours, a_gpus), np.flatnonzero(ours != a_gpus)[:5]


@pytest.mark.parametrize("name", NEARLY)
def test_a_function_rounded_to_bf16_is_at_most_one_unit_off(name, both):
    ours, a_gpus = (found[name].astype(np.int32) for found in both)
    differ = np.abs(ours - a_gpus)
    assert differ.max() <= 1 and (differ > 0).mean() <= 1e-3, (differ.max(), (differ > 0).mean())


if __name__ == "__main__":
    found = {name: base64.b64encode(one.tobytes()).decode() for name, one in bits().items()}
    about = (
        torch.cuda.get_device_name(),
        f"torch {torch.__version__}",
        f"triton {triton.__version__}",
    )
    text = json.dumps({"where": ", ".join(about), "bits": found}, indent=1) + "\n"
    (Path(sys.argv[1]) if len(sys.argv) > 1 else STORED).write_text(text, encoding="utf-8")
