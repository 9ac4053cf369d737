"""Conversions of PyTorch operators, one table per subject."""

from __future__ import annotations

from pydispatch.frontends.torch.nodes import complex_numbers, parts, prims, shapes, strided
from pydispatch.frontends.torch.nodes.activations import ACTIVATIONS
from pydispatch.frontends.torch.nodes.adaptive_pooling import ADAPTIVE_POOLING
from pydispatch.frontends.torch.nodes.arrangements import ARRANGEMENTS
from pydispatch.frontends.torch.nodes.attention import ATTENTION
from pydispatch.frontends.torch.nodes.columns import COLUMNS
from pydispatch.frontends.torch.nodes.complex_numbers import COMPLEX_NUMBERS
from pydispatch.frontends.torch.nodes.control import CONTROL
from pydispatch.frontends.torch.nodes.convolution_gradients import CONVOLUTION_GRADIENTS
from pydispatch.frontends.torch.nodes.counting import COUNTING
from pydispatch.frontends.torch.nodes.creation import CREATION
from pydispatch.frontends.torch.nodes.distance_gradients import DISTANCE_GRADIENTS
from pydispatch.frontends.torch.nodes.divisors import DIVISORS
from pydispatch.frontends.torch.nodes.embedding_bags import EMBEDDING_BAGS
from pydispatch.frontends.torch.nodes.float_parts import FLOAT_PARTS
from pydispatch.frontends.torch.nodes.fourier import FOURIER
from pydispatch.frontends.torch.nodes.grouped import GROUPED
from pydispatch.frontends.torch.nodes.indexing import INDEXING
from pydispatch.frontends.torch.nodes.linear_algebra import LINEAR_ALGEBRA
from pydispatch.frontends.torch.nodes.normalization import NORMALIZATION
from pydispatch.frontends.torch.nodes.order_statistics import ORDER_STATISTICS
from pydispatch.frontends.torch.nodes.ordering import ORDERING
from pydispatch.frontends.torch.nodes.padding_gradients import PADDING_GRADIENTS
from pydispatch.frontends.torch.nodes.parts import PARTS
from pydispatch.frontends.torch.nodes.pointwise import POINTWISE
from pydispatch.frontends.torch.nodes.pool_gradients import POOL_GRADIENTS
from pydispatch.frontends.torch.nodes.products import PRODUCTS
from pydispatch.frontends.torch.nodes.quantization import QUANTIZATION
from pydispatch.frontends.torch.nodes.random import RANDOM
from pydispatch.frontends.torch.nodes.recurrent import RECURRENT
from pydispatch.frontends.torch.nodes.reductions import REDUCTIONS
from pydispatch.frontends.torch.nodes.resizing import RESIZING
from pydispatch.frontends.torch.nodes.sampling import SAMPLING
from pydispatch.frontends.torch.nodes.sampling_gradients import SAMPLING_GRADIENTS
from pydispatch.frontends.torch.nodes.shapes import SHAPES
from pydispatch.frontends.torch.nodes.special import SPECIAL
from pydispatch.frontends.torch.nodes.symbols import SYMBOLS
from pydispatch.frontends.torch.nodes.vision import VISION
from pydispatch.frontends.torch.nodes.weight_gradients import WEIGHT_GRADIENTS
from pydispatch.frontends.torch.nodes.windows import WINDOWS

CONVERSIONS = {
    **POINTWISE, **ACTIVATIONS, **SHAPES, **PARTS, **ARRANGEMENTS, **COMPLEX_NUMBERS, **REDUCTIONS, **PRODUCTS,
    **NORMALIZATION, **INDEXING, **CREATION, **SYMBOLS, **ATTENTION, **CONTROL, **FOURIER, **ORDERING, **RECURRENT,
    **WINDOWS, **ADAPTIVE_POOLING, **RESIZING, **SAMPLING, **COLUMNS, **RANDOM,
    **strided.STRIDED, **prims.PRIMS, **LINEAR_ALGEBRA, **COUNTING, **FLOAT_PARTS, **QUANTIZATION, **VISION,
    **ORDER_STATISTICS, **DIVISORS, **SPECIAL,
    **CONVOLUTION_GRADIENTS, **POOL_GRADIENTS, **SAMPLING_GRADIENTS, **DISTANCE_GRADIENTS, **PADDING_GRADIENTS,
    **WEIGHT_GRADIENTS, **EMBEDDING_BAGS, **GROUPED,
}  # fmt: skip
CONVERSIONS |= {
    f"aten.{name}_copy": CONVERSIONS[f"aten.{name}"]
    for name in ("view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "select", "slice", "narrow",
                 "split", "split_with_sizes", "unbind", "diagonal", "unfold", "unflatten")
}  # fmt: skip
"""Conversions by operator name: `aten.sum.dim_IntList`, or `aten.sum` for all overloads without an own entry."""

VIEWS = {**shapes.VIEWS, **parts.VIEWS, **complex_numbers.VIEWS, **strided.VIEWS, **prims.VIEWS}
"""View operators, whose results share the memory of their first argument, with the function that writes through a view.
None marks operators whose result may also be a copy."""

__all__ = ["CONVERSIONS", "VIEWS"]
