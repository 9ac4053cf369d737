"""What LLVM IR for CPUs has around its functions: library ABI 0.6, imports, bindings."""
