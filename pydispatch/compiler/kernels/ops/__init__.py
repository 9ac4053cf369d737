"""Building blocks of generated kernels: a builder, elements of tensors, scalar code of bodies, reductions."""
