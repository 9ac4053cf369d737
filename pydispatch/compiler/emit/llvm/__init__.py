"""Kernel IR → LLVM IR text."""
