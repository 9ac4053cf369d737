"""Benchmarks of programs: calls that are timed in turns, comparisons with other systems, tables of dispatches."""
