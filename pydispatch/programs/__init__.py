"""Programs written in Python over arrays: a NumPy-style function is traced by running it once on arrays that record
it.

array.py has these arrays, functions/ their NumPy functions, control.py branches and loops, state.py persistent state,
launch.py calls of kernels, and program.py the function with its parameters.
"""
