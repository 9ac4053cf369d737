"""CPU part of the LLVM emitter, outside of functions: library ABI 0.6, imports, bindings."""
