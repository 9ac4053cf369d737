"""Reverse mode: gradients of traced programs, by one rule for each operation of the graph."""
