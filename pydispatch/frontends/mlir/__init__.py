"""MLIR text → a program."""
