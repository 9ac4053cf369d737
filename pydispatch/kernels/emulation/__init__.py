"""Kernels that run under plain Python, invocation by invocation, for a debugger: `kernel.python`.

views.py has views and tiles over arrays of NumPy, tile_functions.py the functions of tiles, invocations.py those of one
invocation, and workgroups.py runs the invocations of a workgroup in turns.
"""
