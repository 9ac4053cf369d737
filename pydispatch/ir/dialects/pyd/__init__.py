"""Extensions of pydispatch to the dialects of programs and of kernels."""
