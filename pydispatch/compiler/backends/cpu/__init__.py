"""Variants for CPUs → embedded ELF files."""
