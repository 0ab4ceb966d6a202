"""Print the path of one call through `rope_kernels`: the functions that it enters, and their files.

    python tools/call_path.py
    python tools/call_path.py --depth 4
    python tools/call_path.py "norm_rope(q, weight, rope, inplace=False).sum().backward()"

CALL is a Python expression of the public functions, `torch`, and what `names` has below. A function
is printed where it is entered first, indented below the one that called it. The kernel runs in
Triton's interpreter, so its parts are functions too.
"""

import argparse
import inspect
import os
import sys
from pathlib import Path
from types import CodeType, FrameType

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is loaded
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

import rope_kernels  # noqa: E402

PACKAGE = ROOT / "rope_kernels"


def names() -> dict[str, object]:
    """What a call may name."""
    rope = rope_kernels.RotaryPositionEmbedding(16)
    tensors = {
        "q": torch.randn(4, 1, 2, 16, requires_grad=True),
        "k": torch.randn(4, 1, 1, 16),
        "weight": torch.ones(16),
        "table": rope(4),
    }
    public = {name: getattr(rope_kernels, name) for name in rope_kernels.__all__}
    return public | tensors | {"rope": rope, "torch": torch}


def path_of(call: str, depth: int) -> list[str]:
    """A line for each function down to this depth, in the order in which they are entered."""
    expression, known, entered = compile(call, "<call>", "eval"), names(), {}

    def enter(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and is_ours(code) and code not in entered:
            entered[code] = callers_of(frame)

    sys.setprofile(enter)
    try:
        eval(expression, known)
    finally:
        sys.setprofile(None)
    return [
        f"{'  ' * callers + code.co_qualname:60} {file_of(code)}"
        for code, callers in entered.items()
        if callers < depth
    ]


def is_ours(code: CodeType) -> bool:
    """Whether this is a function of the package with a name, not an expression, class or module."""
    is_function = code.co_flags & inspect.CO_NEWLOCALS and "<" not in code.co_name
    return bool(is_function) and code.co_filename.startswith(str(PACKAGE))


def callers_of(frame: FrameType) -> int:
    """How many functions of the package have led here."""
    count = 0
    while (frame := frame.f_back) is not None:
        count += is_ours(frame.f_code)
    return count


def file_of(code: CodeType) -> str:
    return Path(code.co_filename).relative_to(PACKAGE).as_posix()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("call", nargs="?", default="rope_qk(q, k, table)", metavar="CALL")
    parser.add_argument("--depth", type=int, default=99, help="leave out what is further down")
    options = parser.parse_args()
    print("\n".join(path_of(options.call, options.depth)))
