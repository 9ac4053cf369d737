"""Outer-loop vectorization on CPUs: `vectorize.vectorize_outer_loops`."""
