"""Products of dequantized numbers → products of the stored integers."""
