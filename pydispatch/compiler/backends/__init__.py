"""Backends: compile a variant of an executable, with the user's objects, to a binary for its target."""
