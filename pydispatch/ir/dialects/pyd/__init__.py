"""What pydispatch adds to the dialects of programs and of kernels."""
