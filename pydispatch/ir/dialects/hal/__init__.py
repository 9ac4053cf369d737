"""The `hal` dialect: executables, what kernels see of them, and buffers at the boundary of a program."""
