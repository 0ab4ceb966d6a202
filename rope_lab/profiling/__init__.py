"""Where the time goes: bytes, the roofline, Nsight Compute, a call on a timeline."""
