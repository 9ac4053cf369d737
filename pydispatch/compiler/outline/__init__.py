"""Outlining: groups of operations and dispatch regions become executables with functions, and dispatches of them."""
