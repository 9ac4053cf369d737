"""Expansion of affine operations and memref views into arith, scf, plain accesses and `memref.reinterpret_cast`."""
