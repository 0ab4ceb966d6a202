"""Mistakes in answers to notebook 13."""

from . import Wrong

ANSWERS = [
    # kernels of your own
    Wrong(
        *(1, "the sigmoid of up"),
        {"tl.sigmoid(gate) * up": "tl.sigmoid(up) * gate"},
        "shape (3, 11008), bfloat16; first at index (0, 0): got",
    ),
    Wrong(
        *(1, "the input for the output"),
        {"out, n = torch.empty_like(gate)": "out, n = gate"},
        "an input is overwritten: gate",
    ),
    Wrong(
        *(2, "the gradients exchanged"),
        {"return d_gate, d_up": "return d_up, d_gate"},
        "result 0: 32",
    ),
    Wrong(
        *(2, "the sigmoid for its product"),
        {"d_out * silu": "d_out * sigmoid"},
        "result 1: 32",
    ),
    Wrong(
        *(3, "the sum not stored"),
        {"    tl.store(residual_ptr + offset, total, mask=exists)\n": ""},
        "WRONG at size 3: residual: ",  # how many values: what the memory held before
    ),
    Wrong(
        *(3, "the block for the row"),
        {"/ D + 1e-6": "/ BLOCK + 1e-6"},
        "shape (3, 5120), bfloat16; first at index (0, 0): got",
    ),
    Wrong(
        *(4, "positions of the batch"),
        {"token - tl.max(tl.where(starts <= token, starts, 0))": "token"},
        "result 0: 28",
    ),
    Wrong(
        *(4, "a sequence begins one late"),
        {"starts <= token": "starts < token"},
        "first at index (1, 0, 0): got",
    ),
]
