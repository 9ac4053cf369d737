"""Eigenvalues of symmetric matrices and singular values, by Jacobi rotations."""

from pydispatch.operations.jacobi.eigenvalues import eigh
from pydispatch.operations.jacobi.singular_values import svd

__all__ = ["eigh", "svd"]
