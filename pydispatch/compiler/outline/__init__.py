"""Groups and dispatch regions → executables with functions, and dispatches of them."""
