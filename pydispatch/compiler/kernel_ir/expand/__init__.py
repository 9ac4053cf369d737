"""Kernel IR with affine operations and views of memrefs → arith, scf, plain accesses and one strided form."""
