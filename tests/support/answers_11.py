"""Notebook 11: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n11 import exercises

RMS_NORM_OF_A_ROW = Exercise(
    cell="11-ex1",
    judged_by=exercises.rms_norm_of_rows,
    wrong_answers=(
        WrongAnswer(
            "convert x to fp32 first",
            {
                "other=0.0).to(tl.float32)": "other=0.0)",
                "tl.sum(x * x)": "tl.sum((x * x).to(tl.float32))",
            },
            kind="too narrow",
            line="",
        ),
    ),
)


THE_FUSED_FORWARD = Exercise(
    cell="11-ex2",
    judged_by=exercises.rope_of_normalized_rows,
    wrong_answers=(
        WrongAnswer(
            "the wrong weight: no weights are applied",
            {"x1 * r * weight1, x2 * r * weight2": "x1 * r, x2 * r"},
            kind="formula",
            line="r = tl.rsqrt(mean + 1e-6)[:, None]",
        ),
        WrongAnswer(
            "no epsilon: a row of zeros is divided by zero",
            {"mean + 1e-6": "mean"},
            kind="not finite",
            line="r = tl.rsqrt(mean)[:, None]",
        ),
        WrongAnswer(
            "another epsilon: 1e-05, not 1e-06",
            {"1e-6": "1e-5"},
            kind="formula",
            line="r = tl.rsqrt(mean + 1e-5)[:, None]",
        ),
        WrongAnswer(
            "the epsilon is outside of the root: add it to the mean square",
            {"tl.rsqrt(mean + 1e-6)[:, None]": "(1 / (tl.sqrt(mean) + 1e-6))[:, None]"},
            kind="formula",
            line="r = (1 / (tl.sqrt(mean) + 1e-6))[:, None]",
        ),
        WrongAnswer(
            "the mean is subtracted, as LayerNorm does",
            {
                "    mean = ": (
                    "    middle = tl.sum(x1 + x2, 1)[:, None] / (2 * HALF)\n"
                    "    x1, x2 = x1 - middle, x2 - middle\n"
                    "    x1, x2 = tl.where(exists, x1, 0.0), tl.where(exists, x2, 0.0)\n"
                    "    mean = "
                )
            },
            kind="formula",
            line="r = tl.rsqrt(mean + 1e-6)[:, None]",
        ),
    ),
)


THREE_LINES_OF_THE_BACKWARD = Exercise(
    cell="11-ex3",
    judged_by=exercises.gradients_of_normalized_rows,
)
