"""Kernel IR → WGSL text."""
