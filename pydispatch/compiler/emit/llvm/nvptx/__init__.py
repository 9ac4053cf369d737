"""What LLVM IR for NVIDIA's GPUs has of its own: kernels, invocations, tensor cores."""
