"""Dispatches over tensors → kernel IR for one target."""
