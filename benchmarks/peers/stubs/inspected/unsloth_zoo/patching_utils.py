"""Stands in for the module that Unsloth's layer norm imports."""

patch_layernorm = None
