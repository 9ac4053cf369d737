"""Benchmarks of programs: calls that are timed in turns, other systems beside them, tables of dispatches."""
