"""The kernels on the way, from the first one to the last rung of the ladder."""
