"""The relocations of each architecture: what they compute, and where they put it."""
