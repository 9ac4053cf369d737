"""PTX text → a module as data, and the interface of its kernels."""
