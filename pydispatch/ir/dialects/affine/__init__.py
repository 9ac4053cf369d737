"""The `affine` dialect, with what the library lacks."""
