"""ELF files in all their forms (embedded libraries, FatELF, cubins) → facts about them."""
