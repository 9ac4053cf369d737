"""Kernels whose values are tiles: what a workgroup does with blocks of views, all of its invocations together.

slices.py finds the static size of a slice; values.py has tiles as memory or as what computes an element; tile_kernel.py
writes statements, control flow and stores; table.py has the functions.
"""
