"""Other systems that can run the same program, one file each, found by name."""
