"""Building blocks of kernel generators: a builder of kernel IR, elements of tensors, scalar bodies, reductions."""
