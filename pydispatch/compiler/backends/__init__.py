"""A variant of an executable → the binary of its target, the user's objects included."""
