"""Lowering from the code of a workgroup to the code of one GPU invocation (SIMT)."""
