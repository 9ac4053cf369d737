"""Kernel IR → the code of one target."""
