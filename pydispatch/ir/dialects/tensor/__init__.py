"""The `tensor` dialect, with what the library lacks and does not check."""
