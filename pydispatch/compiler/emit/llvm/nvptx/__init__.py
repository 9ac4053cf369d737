"""NVIDIA GPU part of the LLVM emitter: kernels, invocations, tensor cores."""
