"""Elementwise chains, moves and reductions → loop nests of kernel IR."""
