"""CPU backend: variants become embedded ELF files."""
