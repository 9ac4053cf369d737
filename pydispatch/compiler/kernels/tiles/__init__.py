"""Lowering of operations of a workgroup on whole tiles (`pyd.read_tile`, `pyd.matmul`) for each kind of target."""
