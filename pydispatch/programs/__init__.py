"""Programs written in Python over arrays: a function in the manner of NumPy is run once on arrays that write it down.

array.py has these arrays, functions/ what NumPy's functions do to them, control.py branches and loops, state.py what
a loaded program keeps, launch.py calls of kernels, program.py the function with its parameters.
"""
