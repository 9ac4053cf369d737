"""C, bitcode and LLVM IR → checked object files: clang, LLVM and the linker, and the cache of their results."""
