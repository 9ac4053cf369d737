"""Calls and structured control flow of host functions → one body of blocks."""
