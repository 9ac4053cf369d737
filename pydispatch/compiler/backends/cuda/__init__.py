"""Variants for NVIDIA's GPUs → PTX or machine code."""
