"""Interpreter of PTX with exact results, vectorized over threads with NumPy."""
