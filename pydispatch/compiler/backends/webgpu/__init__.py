"""Variants for WebGPU → WGSL."""
