"""Lowerings of kernel IR operations to SPIR-V instructions, one file for each dialect or group of operations."""
