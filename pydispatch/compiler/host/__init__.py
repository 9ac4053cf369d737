"""Lowering of host functions to the host program of an artifact."""
