"""Conversion of convolutions with short rows of pixels to products with an im2col matrix, which has a column for each
output pixel.

With channels first, vectors run along the pixels of a row, and short rows leave most of a vector unused. With all
pixels of an image in one dimension, vectors are full. One worker, 3x3, GFLOP/s before and after: 4x4x512 26, 162;
7x7x512 35, 173; 10x10x256 147, 210; 14x14x256 192, 231; 56x56x64 236, 224. Byte products need groups of adjacent steps,
which sliding windows do not have.

With channels last, the filter is read once for each row of pixels. A large filter does not fit the L2 cache; with all
pixels of an image in one dimension it is read only once for each block of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type, Float64Type, IntegerType, TensorType, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.kinds import is_constant
from pydispatch.compiler.analysis.sizes import dynamic_sizes
from pydispatch.compiler.fusion.build import indices_over, insert_copy, rewrite_loops
from pydispatch.compiler.fusion.collapse import (
    DimGroups,
    collapsed,
    consecutive,
    move_below_readers,
    replace_by_expanded,
)
from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, contraction_of
from pydispatch.ir.affine_maps import is_projected_permutation
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import Structured
from pydispatch.ir.values import shape_of

MOST_COLUMNS = 28
"""Maximum number of pixels of a short row of the result, with channels first. Vectors run along a row, and longer rows
fill them well enough."""

FEWEST_ROWS = 32
"""Minimum number of output channels: with fewer, building the im2col matrix dominates the product."""

MOST_BYTES, MOST_BYTES_CHANNELS_LAST = 4 << 20, 16 << 20
"""Maximum size of the im2col matrix, which should stay in a cache between being written and read. With channels last,
fewer reads of the filter pay for a larger one."""

LARGE_FILTER, MAX_IMAGE_PER_FILTER = 1 << 20, 0.5
"""Minimum bytes of a filter that exceeds the L2 cache, and maximum size of an image's columns relative to it."""

FEWEST_PIXELS, FEWEST_PIXELS_CONSTANT_FILTER = 64, 32
"""Minimum number of pixels of an image where columns overlap, in general and for a constant filter. With im2col, a
3x3x512 convolution of 49 pixels took 0.99 to 1.33 times as long (Zen 5, under load), 256 pixels less than that. A
constant filter is packed into panels, and a network reads it from memory in each call: layers of 7x7x512 in a ResNet-18
took 1.36 ms each, and 1.07 ms with im2col."""


MatrixLoops = tuple[tuple[int, ...], tuple[int, ...]]
"""The loops over the rows of a matrix, and those over its columns."""


@dataclass(frozen=True)
class Convolution:
    """Convolution as groups of loops of its generic; `convolution_of` creates it.

    Channels first, it computes C[batches, rows, spatial] += filter[rows, steps] * image[image_map(loops)].
    Channels last, it computes C[batches, spatial, rows] += image[image_map(loops)] * filter[steps, rows].

    For example, two images [2][8][10][10] and 16 filters [16][8][3][3] give C [2][16][8][8] with

        C[d0, d1, d2, d3] += filter[d1, d4, d5, d6] * image[d0, d4, d2 + d5, d3 + d6]

    Here `batches` is (0,), `rows` (1,), `spatial` (2, 3), `steps` (4, 5, 6), and `sizes` (2, 16, 8, 8, 8, 3, 3).

    Attributes:
        op: The generic.
        image: The tensor that is read through windows.
        filter: The filter.
        image_map: Map from the loops to the index of the image.
        sizes: Number of iterations of each loop; DYNAMIC_INDEX for dynamic batch sizes.
        batches: Loops over images, in the order of the result.
        rows: Loops over filters (output channels), in the order of the result.
        spatial: Loops over the pixels of the result, in its order.
        steps: Reduction loops, over input channels and positions in the window, in the order of the filter.
        channels_last: Whether the result has its channels last.
    """

    op: GenericOp
    image: SSAValue
    filter: SSAValue
    image_map: AffineMap
    sizes: tuple[int, ...]
    batches: tuple[int, ...]
    rows: tuple[int, ...]
    spatial: tuple[int, ...]
    steps: tuple[int, ...]
    channels_last: bool

    @property
    def matrices(self) -> tuple[MatrixLoops, MatrixLoops, MatrixLoops]:
        """Loops over the rows and over the columns of the matrices of a product: filter, im2col matrix and result."""
        if self.channels_last:
            return (self.steps, self.rows), (self.spatial, self.steps), (self.spatial, self.rows)
        return (self.rows, self.steps), (self.steps, self.spatial), (self.rows, self.spatial)

    def count(self, dims: tuple[int, ...]) -> int:
        """Return the number of iterations of some nested loops; a loop of dynamic size counts as 1."""
        return math.prod(1 if self.sizes[d] < 0 else self.sizes[d] for d in dims)


Decide = Callable[[Sequence[Convolution]], Sequence[bool]]
"""Callback that returns for each convolution, in order, whether to convert it to a product."""


def convert_convolutions_to_products(function: Operation, decide: Decide | None = None) -> None:
    """Convert the convolutions of a host function to products, in place, where that pays.

    The order of summation is unchanged.

    decide: chooses the convolutions to convert; by default, the heuristic `im2col_pays` does.
    """
    ops = [cast(GenericOp, op) for op in walk(function) if op.name == "linalg.generic" and op.parent is not None]
    convolutions = [c for op in ops if (c := convolution_of(op)) is not None]
    decisions = [im2col_pays(c) for c in convolutions] if decide is None else decide(convolutions)
    for convolution, is_chosen in zip(convolutions, decisions, strict=True):
        if not is_chosen:
            continue
        # The conversion of another convolution may have replaced the image of this one: recognize it again.
        current = convolution_of(convolution.op)
        if current is not None:
            _rewrite_to_product(current)


def im2col_pays(convolution: Convolution) -> bool:
    """Return whether a product with an im2col matrix is likely to be faster than the convolution, judged by its sizes.

    The im2col matrix has a column for each output pixel: the elements of all input channels in the pixel's window. The
    size of this matrix must not exceed a limit, so that it stays in a cache. In addition:

    - Channels first: there are enough filters to pay for the copy, and the convolution itself is slow, because rows of
      pixels are short or elements are integers.
    - Channels last: the filter exceeds the L2 cache, and the im2col matrix of an image is at most half as large. If
      windows have several pixels, so that they usually overlap, there must be enough output pixels, too.

    Dynamic sizes count as 1.
    """
    element = cast("TensorType[Attribute]", convolution.image.type).element_type
    pixels, filters = convolution.count(convolution.spatial), convolution.count(convolution.rows)
    # Size of a pixel's window in all input channels, which is also the size of a filter. An element of type index has
    # no width of its own, and counts as 64 bits.
    column_bytes = convolution.count(convolution.steps) * (bit_width(element) or 64) // 8
    # Bytes of the im2col matrix; 0 if a size is 0.
    matrix_bytes = convolution.count(convolution.batches) * pixels * column_bytes
    if convolution.channels_last:
        is_small_enough = 0 < matrix_bytes <= MOST_BYTES_CHANNELS_LAST
        return is_small_enough and _pays_channels_last(
            convolution, pixels, filter_bytes=filters * column_bytes, columns_bytes=pixels * column_bytes
        )
    # An instruction that multiplies bytes takes a group of adjacent steps. Only the im2col matrix has such groups, the
    # sliding windows of the image do not.
    is_direct_slow = convolution.sizes[convolution.spatial[-1]] <= MOST_COLUMNS or isinstance(element, IntegerType)
    return 0 < matrix_bytes <= MOST_BYTES and is_direct_slow and filters >= FEWEST_ROWS


def _pays_channels_last(convolution: Convolution, pixels: int, filter_bytes: int, columns_bytes: int) -> bool:
    """Return whether an im2col product pays for a convolution with channels last.

    The filter must exceed the L2 cache, and the im2col matrix be small compared with the filter. If windows overlap,
    so that the copy enlarges the image, there must also be enough output pixels.

    Args:
        convolution: A convolution with channels last.
        pixels: Number of output pixels of an image.
        filter_bytes: Size of the filter.
        columns_bytes: Size of the im2col matrix of one image, which has a column for each output pixel.
    """
    is_filter_large = filter_bytes >= LARGE_FILTER and columns_bytes <= MAX_IMAGE_PER_FILTER * filter_bytes
    # Columns of adjacent pixels usually share elements if a window has several pixels: the copy then multiplies the
    # image. The last step is the input channel; the steps before are positions in the window.
    columns_overlap = any(convolution.sizes[d] > 1 for d in convolution.steps[:-1])
    fewest_pixels = FEWEST_PIXELS_CONSTANT_FILTER if is_constant(convolution.filter) else FEWEST_PIXELS
    return is_filter_large and (not columns_overlap or pixels >= fewest_pixels)


def convolution_of(op: GenericOp) -> Convolution | None:
    """Return a generic as a convolution, with its loops divided by their roles; None for other generics.

    Reduction loops are steps: input channels and positions in the window. Parallel loops are rows (output channels) if
    they index the filter, else batches or pixels.

    With channels first, the filter is [output channels, reduced dimensions] in memory, and the result is [batches,
    output channels, spatial dimensions]. With channels last, the filter is [reduced dimensions, output channels], and
    the result is [batches, two or more spatial dimensions, output channels].

    A generic is no convolution here in these cases:

    - A loop over output channels indexes the image, too (grouped or depthwise convolutions).
    - A size other than that of a batch is dynamic.
    - The dimensions have another order.
    """
    c = contraction_of(op)
    factors = None if c is None or len(op.inputs) != 2 else _filter_and_image(c)
    if c is None or factors is None or not is_projected_permutation(c.generic.maps[-1]):
        return None
    weights, image = factors
    generic, filter_order = c.generic, weights.axis_dims  # the loop that indexes each dimension of the filter
    assert filter_order is not None
    result_dims = [r.position for r in generic.maps[-1].results if isinstance(r, AffineDimExpr)]
    steps = tuple(d for d, kind in enumerate(generic.iterators) if kind != "parallel")
    rows = tuple(d for d in result_dims if d in weights.dims)
    is_grouped = any(d in image.dims for d in rows)  # each output channel reads other channels of the image
    image_has_all_steps = set(steps) <= image.dims
    if not rows or is_grouped or not image_has_all_steps:
        return None
    channels_last = result_dims[-1] == rows[-1]
    batches = _batches(image, result_dims, rows, channels_last)
    convolution = Convolution(
        op=op,
        image=c.tensor_of(image),
        filter=c.tensor_of(weights),
        image_map=generic.maps[image.main_input],
        sizes=tuple(DYNAMIC_INDEX if n is None else n for n in generic.extents),
        batches=batches,
        rows=rows,
        spatial=tuple(d for d in result_dims if d not in (*rows, *batches)),
        # With channels last, kernels sum channels innermost, in the order of the filter.
        steps=tuple(d for d in filter_order if d in steps) if channels_last else steps,
        channels_last=channels_last,
    )
    has_known_order = _has_known_order(convolution, result_dims, filter_order)
    return convolution if has_known_order and _has_static_matrices(convolution, generic) else None


def _batches(image: Factor, result_dims: Sequence[int], rows: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    """Return the loops over images: the leading ones of those that index the result (`result_dims`).

    With channels first, they are those before output channels (`rows`). With channels last, they index the image by
    themselves, while windows move along the loops over pixels, which are in sums: image[n, y + ky, x + kx, c] has the
    batch n, and the pixels y, x.
    """

    def is_batch(loop: int) -> bool:
        """Return whether a loop of the result is one over images, if all loops before it are."""
        if loop in rows:
            return False
        return not channels_last or any(coordinate.is_identity(loop) for coordinate in image.coordinates)

    return tuple(takewhile(is_batch, result_dims))


def _filter_and_image(c: Contraction) -> tuple[Factor, Factor] | None:
    """Return which factor of a contraction is the filter and which the image; None if it is no convolution.

    Each dimension of a filter is indexed by one loop; the index of an image has sums of loops (`axis_dims` is None).
    """
    if not all(_is_plain_factor(c, factor) for factor in (c.a, c.b)):
        return None
    filters = [factor for factor in (c.a, c.b) if factor.axis_dims is not None]
    if len(filters) != 1:  # two filters are a plain product already, and two images have no filter
        return None
    return (c.a, c.b) if filters[0] is c.a else (c.b, c.a)


def _has_static_matrices(convolution: Convolution, generic: Structured) -> bool:
    """Return whether at most batch sizes are dynamic."""
    matrix_dims = (*convolution.spatial, *convolution.rows, *convolution.steps)
    has_static_sizes = all(convolution.sizes[d] >= 0 for d in matrix_dims)
    return has_static_sizes and _only_batches_are_dynamic(generic, convolution.batches)


def _has_known_order(convolution: Convolution, result_dims: Sequence[int], filter_order: Sequence[int]) -> bool:
    """Return whether result and filter have the order of dimensions that `Convolution` states for their layout.

    result_dims, filter_order: the loops that index the dimensions of result and filter, in order.
    """
    batches, rows, spatial, steps = convolution.batches, convolution.rows, convolution.spatial, convolution.steps
    if convolution.channels_last:
        known_result, known_filter = (*batches, *spatial, *rows), (*steps, *rows)
        fewest_spatial = 2  # with one spatial dimension, all pixels of an image are in one dimension already
    else:
        known_result, known_filter = (*batches, *rows, *spatial), (*rows, *steps)
        fewest_spatial = 1
    is_known = tuple(result_dims) == known_result and tuple(filter_order) == known_filter
    return is_known and len(spatial) >= fewest_spatial


def _only_batches_are_dynamic(generic: Structured, batches: Sequence[int]) -> bool:
    """Return whether all dynamic sizes of the operands belong to batches."""
    return all(
        size >= 0 or (isinstance(index, AffineDimExpr) and index.position in batches)
        for value, map_ in zip(generic.operands, generic.maps, strict=True)
        for size, index in zip(shape_of(value), map_.results, strict=False)
    )


def _is_plain_factor(contraction: Contraction, factor: Factor) -> bool:
    """Return whether a convolution with this factor may be converted to a product.

    The factor must be a float of the accumulator's type that is read without conversion, or an integer that is computed
    from a single element, such as a widened byte.
    """
    element = cast("TensorType[Attribute]", contraction.tensor_of(factor).type).element_type
    if isinstance(contraction.acc, Float32Type | Float64Type):
        return factor.is_element and element == contraction.acc
    reads_single_element = set(factor.inputs) == {factor.main_input}  # `inputs`: operands that the factor depends on
    return contraction.acc == i32 and isinstance(element, IntegerType) and reads_single_element


def _rewrite_to_product(convolution: Convolution) -> None:
    """Replace a convolution by an im2col copy of the image, a product, and a reshape to the old dimensions.

    A row stands for one output channel, a step for one input channel at one position in the window.

    Channels last: patches [batch, pixel, step] times filter [step, row] is [batch, pixel, row]. Channels first: filter
    [row, step] times patches [batch, step, pixel] is [batch, row, pixel].
    """
    op, output = convolution.op, convolution.op.outputs[0]  # the output has the initial values of the sums
    filter_loops, patch_loops, result_loops = convolution.matrices
    batch_rank = len(convolution.batches)
    dynamic_dims = dynamic_sizes(output, op)  # sizes of batches, which the patches have, too

    # Copy the patches, and view all tensors as matrices, those with batches as batches of matrices.
    patches = _patches(convolution, patch_loops, dynamic_dims)
    columns = _matrix(convolution, patches, batch_rank, patch_loops)
    filter_matrix = _matrix(convolution, convolution.filter, 0, filter_loops)
    initial_matrix = _matrix(convolution, output, batch_rank, result_loops)

    # Multiply in the loops [*batches, row, pixel, step].
    filter_map, columns_map, result_map = _product_maps(batch_rank, convolution.channels_last)
    factors = [(filter_matrix, filter_map), (columns, columns_map)]
    if op.inputs[0] is not convolution.filter:  # the body expects the factors in the order of the convolution's inputs
        factors.reverse()
    operands = [*(matrix for matrix, _ in factors), initial_matrix]
    maps = [*(map_ for _, map_ in factors), result_map]
    product = rewrite_loops(op, operands, maps, iterators=[*["parallel"] * (batch_rank + 2), "reduction"])

    # Expand the product to the dimensions of the old result.
    groups = _matrix_groups(batch_rank, result_loops)
    move_below_readers(replace_by_expanded(op, product, groups, dynamic_dims), groups)


def _patches(convolution: Convolution, patch_loops: MatrixLoops, dynamic_dims: Sequence[SSAValue]) -> SSAValue:
    """Insert a copy of the image's elements with one dimension per loop, and return the copy (the im2col tensor).

    Args:
        convolution: The convolution.
        patch_loops: The loops over rows and those over columns of a matrix of patches: the dimensions of the copy after
            the batches.
        dynamic_dims: The dynamic sizes of batches, as values.
    """
    element = cast("TensorType[Attribute]", convolution.image.type).element_type
    order = [*convolution.batches, *patch_loops[0], *patch_loops[1]]
    patches_type = TensorType(element, [convolution.sizes[d] for d in order])
    dims_of_loops = indices_over(order, len(convolution.sizes))  # loops over filters do not index the image
    indices = tuple(r.replace_dims_and_symbols(dims_of_loops, []) for r in convolution.image_map.results)
    image_index = AffineMap(len(order), 0, indices)
    return insert_copy(convolution.op, convolution.image, image_index, patches_type, dynamic_dims)


def _product_maps(batches: int, channels_last: bool) -> tuple[AffineMap, AffineMap, AffineMap]:
    """Return the maps from the loops of an im2col product to the indices of filter, im2col matrix and result.

    The loops are [*batches, row, pixel, step]: output channels, output pixels, and the elements of a window.
    """
    dims = [AffineExpr.dimension(i) for i in range(batches + 3)]
    outer, row, pixel, step = dims[:batches], dims[batches], dims[batches + 1], dims[batches + 2]
    if channels_last:
        indices = ((step, row), (*outer, pixel, step), (*outer, pixel, row))
    else:
        indices = ((row, step), (*outer, step, pixel), (*outer, row, pixel))
    filter_map, columns_map, result_map = (AffineMap(batches + 3, 0, tuple(index)) for index in indices)
    return filter_map, columns_map, result_map


def _matrix(convolution: Convolution, value: SSAValue, batch_rank: int, loops: MatrixLoops) -> SSAValue:
    """Return a tensor of the convolution as a matrix, or as a batch of matrices, inserted before the convolution.

    Patches [2][8][3][3][8][8] of batch, channel, window and pixel become [2][72][64]: `batch_rank` is 1, and `loops`
    are the loops (channel, two of the window) and (two of the pixel).

    Args:
        convolution: The convolution.
        value: The tensor. Its dimensions are batches, then those of a matrix's rows, then those of its columns.
        batch_rank: Number of its batch dimensions, which stay as they are; 0 for the filter.
        loops: The loops of the rows' dimensions, and those of the columns' dimensions. Each of the two groups becomes
            one dimension.
    """
    batch_sizes = [convolution.sizes[d] for d in convolution.batches[:batch_rank]]
    sizes = [*batch_sizes, *map(convolution.count, loops)]
    return collapsed(convolution.op, value, _matrix_groups(batch_rank, loops), sizes)


def _matrix_groups(batch_rank: int, loops: MatrixLoops) -> DimGroups:
    """Return the dimensions of a tensor in groups that become a batch of matrices: each batch, rows, and columns."""
    row_rank, column_rank = map(len, loops)
    batch_groups = [[i] for i in range(batch_rank)]
    return [*batch_groups, consecutive(batch_rank, row_rank), consecutive(batch_rank + row_rank, column_rank)]
