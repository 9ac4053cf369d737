"""Compiler driver: the order of the phases from a source and options to an artifact, and plugins."""
