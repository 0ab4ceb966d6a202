"""Where the time goes: bytes, the roofline, Nsight Compute."""
