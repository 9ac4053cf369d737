"""Arithmetic on dequantized numbers, computed on the stored integers."""
