"""The few files of other projects that hold their RoPE: found, compiled, imported.

`sources.py` unpacks them. `compiling.py` compiles a launcher of ours around them, `importing.py`
imports one without its package. Who calls them is in `benchmarks/providers`.
"""
