"""Frontend for MLIR text."""
