"""Minutes are counted honestly: each kind of line counts as `reading_time` says it does."""

import pytest

import reading_time


def text(source):
    return {"cell_type": "markdown", "source": source}


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": list(outputs)}


def listing(kind, begin, lines=12):
    plain = "x = 1\n\n" * lines
    return {"output_type": "display_data", "data": {kind: [begin, plain], "text/plain": [plain]}}


WORDS = "word " * 148
STUB = code("x = 1\n" * 60)


@pytest.mark.parametrize(
    ("cells", "minutes"),
    [
        pytest.param([text(WORDS + WORDS)], 2, id="words"),
        pytest.param([code("x = 1\n\n" * 12)], 2, id="code"),
        pytest.param([code("", listing("text/markdown", "```python\n"))], 2, id="show_source"),
        pytest.param([code("", listing("text/html", "<pre>- x = 1"))], 2, id="diff"),
        pytest.param([code("", listing("text/html", "<table>"))], 0, id="table"),
        pytest.param([text("**Predict.** How many?")] * 4, 2, id="predict"),
        pytest.param(
            [
                code(
                    "import rope_lab as lab\n\nprint(lab.ENGINE)\n"
                    + "import torch\n" * 12
                    + "\nlab.draw.style()"
                )
            ],
            0,
            id="imports",
        ),
        pytest.param([code("import torch\n" + "x = 1\n" * 11)], 2, id="imports-and-code"),
        pytest.param([text("### Exercise 1: Copy (10 minutes)\n" + WORDS), STUB], 10, id="core"),
        pytest.param(
            [text("### Exercise 1: Copy (10 minutes)\n"), text(WORDS), STUB], 10, id="two-texts"
        ),
        pytest.param([text("### Exercise 1: Copy (10 minutes, optional)"), STUB], 0, id="optional"),
        pytest.param([text("## 2. Other\n" + WORDS), STUB], 0, id="outside-the-core"),
        pytest.param(
            [text("## Recap\n" + WORDS), text("## To think about (optional)\n" + WORDS)],
            1,
            id="recap",
        ),
        pytest.param([text("## References\n" + WORDS)], 0, id="references"),
    ],
)
def test_minutes(cells, minutes):
    counted = reading_time.core_minutes(
        [text("# 00 · A title"), text("## 1. Section"), *cells], (1,)
    )
    assert counted == minutes


def test_everything_has_what_is_optional():
    cells = [text("## 1. Section\n### Exercise 1: Copy (10 minutes, optional)"), STUB]
    assert reading_time.all_minutes(cells) == 10
