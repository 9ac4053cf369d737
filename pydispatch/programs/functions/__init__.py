"""What NumPy's functions do to traced arrays: a row for each, over `frontends/ops`."""

from pydispatch.programs.functions import combined, elementwise, indexing, products, reductions, shapes

__all__ = ["combined", "elementwise", "indexing", "products", "reductions", "shapes"]
