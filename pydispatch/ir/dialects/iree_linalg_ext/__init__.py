"""`iree_linalg_ext`: operations on tensors whose iterations depend on each other or on data."""
