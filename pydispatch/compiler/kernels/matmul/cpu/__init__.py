"""Contractions for CPUs: packing, register blocks, cache blocks."""
