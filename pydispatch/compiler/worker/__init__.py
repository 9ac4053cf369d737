"""LLVM in a process of its own: what it asserts ends that process and is an error of one compilation here."""
