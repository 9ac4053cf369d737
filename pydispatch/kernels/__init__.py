"""Kernels written in Python: the source of a function → one dispatch for every target. Nothing here compiles.

source.py reads the function and its parameters; expressions.py, calls.py, statements.py and loops.py write typed
operations; phases.py divides the work at barriers, by what variables.py finds out; module.py is the program around it.
"""
