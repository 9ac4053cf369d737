"""Lowerings of kernel IR operations to LLVM instructions, one file for each dialect or group of operations."""
