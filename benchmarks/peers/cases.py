"""The shapes on which all peers are measured, forward and backward."""

from benchmarks.case import Case

FORWARD_AND_BACKWARD = ("forward", "backward")

CASES = (
    Case(4096, 2, 32, 128),
    Case(2048, 16, 8, 256),  # the study's shape: ours against TransformerEngine's
    Case(2048, 16, 8, 256, dtype="float32"),
    Case(8192, 1, 64, 128),
    Case(131072, 1, 8, 128),
    Case(65536, 1, 32, 128, tensor_format="thd", sequences=50),
)
