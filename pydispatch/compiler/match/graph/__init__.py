"""A program → the nodes that patterns are compared with."""
