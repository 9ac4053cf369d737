"""Functions over tensors, in the manner of NumPy: each adds operations to a program and gives the result."""
