"""WGSL: tokens, declarations, and what an entry point needs of a device and of the program that dispatches it."""
