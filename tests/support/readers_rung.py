"""A reader's rung: text in a file of its own, which no other process can import."""

from importlib.util import module_from_spec, spec_from_file_location

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


def my_rope_of(text, folder):
    """The launcher that this text defines."""
    path = folder / "answer.py"
    path.write_text(HEADER + text, encoding="utf-8")
    spec = spec_from_file_location("answer", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.my_rope
