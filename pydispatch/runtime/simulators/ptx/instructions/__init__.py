"""Instructions of PTX → NumPy closures, a file for each group."""
