"""Fusion: grouping of tensor operations into dispatches."""
