"""Emission of SPIR-V modules from kernel IR."""
