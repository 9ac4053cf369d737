"""Emission of LLVM IR text from kernel IR."""
