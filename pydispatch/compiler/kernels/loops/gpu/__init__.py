"""Lowering of loop nests for GPUs: elements and reductions are distributed over invocations."""
