"""What kernels are written with: a builder, elements of tensors, scalar code of bodies, reductions."""
