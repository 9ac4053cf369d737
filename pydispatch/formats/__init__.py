"""Files that the compiler writes and the runtime reads."""
