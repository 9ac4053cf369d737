"""Kernel IR → a SPIR-V module."""
