"""Compiles custom dispatch programs with your own kernels into one hermetic file and runs it."""
