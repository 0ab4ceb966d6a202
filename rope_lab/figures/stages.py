"""The widget of notebook 07: a kernel's lines, and what the compiler made of each."""

import html

import ipywidgets as widgets

from ..compiler.compile import Compiled
from ..compiler.stages import STAGES, kernel_lines, operations


class StageExplorer(widgets.VBox):
    """Choose a stage and a line of the kernel, and see what the line became.

    Attributes:
        stage: which stage.
        line: which line of the kernel, by its number in `Compiled.program`; 0 for all.
        text: HTML; the operations.
    """

    def __init__(self, code: Compiled) -> None:
        self.code = code
        stages = [(stage.upper(), stage) for stage in STAGES]
        self.stage = widgets.Dropdown(options=stages, description="stage")
        used = {operation.line for stage in STAGES for operation in operations(code, stage)}
        lines = [(text.strip(), n) for n, text in kernel_lines(code).items() if n in used]
        lines = [("all lines", 0), *lines]
        self.line = widgets.Dropdown(options=lines, description="line", layout={"width": "90%"})
        self.text = widgets.HTML()
        super().__init__([self.stage, self.line, self.text])
        for choice in (self.stage, self.line):
            choice.observe(self._update, "value")
        self._update()

    def __repr__(self) -> str:
        stages = ", ".join(stage.upper() for stage in STAGES)
        return f"Stage explorer, in JupyterLab: choose one of {stages}, and a line of the kernel"

    def _update(self, _change=None) -> None:
        chosen = [
            html.escape(operation.text)
            for operation in operations(self.code, self.stage.value)
            if self.line.value in (0, operation.line)
        ]
        look, text = "max-height: 24em; overflow: auto; line-height: 1.3", "\n".join(chosen)
        self.text.value = f"{len(chosen)} operations<pre style='{look}'>{text}</pre>"
