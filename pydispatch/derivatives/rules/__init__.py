"""Derivatives of the operations of the graph, one file for each kind."""
