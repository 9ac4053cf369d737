"""The `transform` dialect, as far as match-and-replace specs use it."""
