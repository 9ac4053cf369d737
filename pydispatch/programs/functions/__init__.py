"""Tables of NumPy functions on traced arrays, implemented with `operations`."""

from pydispatch.programs.functions import combined, elementwise, indexing, linalg, products, reductions, shapes

__all__ = ["combined", "elementwise", "indexing", "linalg", "products", "reductions", "shapes"]
