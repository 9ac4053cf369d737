"""Emission of WGSL text from kernel IR."""
