"""NumPy-like functions on tensors. Each emits operations and returns the resulting tensor."""
