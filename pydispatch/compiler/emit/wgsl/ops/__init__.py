"""Lowerings of kernel IR operations to WGSL statements, one file for each dialect or group of operations."""
