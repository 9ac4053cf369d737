"""Kernels and programs written in Python → programs."""
