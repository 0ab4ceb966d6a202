"""The source files of other projects' RoPE: downloaded, then compiled or imported."""
