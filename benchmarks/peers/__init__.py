"""The few files of other projects that hold their RoPE: unpacked, then compiled or imported."""
