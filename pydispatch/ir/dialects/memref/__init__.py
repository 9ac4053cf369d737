"""The `memref` and `gpu` dialects, with what the library lacks."""
