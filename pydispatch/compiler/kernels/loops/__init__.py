"""Lowering of elementwise operations, copies, reductions, recurrences and scatters to loop nests of kernel IR."""
