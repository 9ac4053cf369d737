"""Kernels whose values are tiles: what a workgroup does with blocks of views, all of its invocations together.

style.py knows which kernels are of this kind; values.py has tiles as memory, or as what computes an element;
reductions.py, scans.py, slices.py, products.py and updates.py have what is done with them, table.py the functions;
tile_kernel.py writes variables and control flow, and lifetimes.py says where a variable ends.
"""
