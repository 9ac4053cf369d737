"""Tensor programs → facts: sizes, views, destinations, kinds of operations."""
