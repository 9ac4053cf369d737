"""PTX text → a module as data, and what its kernels expect."""
