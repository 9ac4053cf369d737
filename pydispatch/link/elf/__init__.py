"""Relocatable objects → one embedded ELF file."""
