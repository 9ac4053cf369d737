"""Python patterns: matching and replacement."""
