"""Products of dequantized numbers, computed as products of the stored integers."""
