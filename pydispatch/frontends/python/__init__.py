"""Frontend for kernels and programs written in Python."""
