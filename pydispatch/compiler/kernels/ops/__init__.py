"""One element of any tensor operation → kernel IR, a rule for each operation."""
