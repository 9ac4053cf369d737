"""Checks of the functions of a SPIR-V module: their blocks, and the operands of their instructions."""
