"""The climb of notebooks 04 to 09: eight kernels, each one edit away from the one before."""
