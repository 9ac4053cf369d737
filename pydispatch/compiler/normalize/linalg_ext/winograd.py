"""Lowering of Winograd transforms to two products with a constant matrix: along the height of tiles, then the width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, TensorType, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.normalize.bodies import product_sum
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import computed, generic
from pydispatch.compiler.normalize.moves import padded_after
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.winograd import (
    FilterTransformOp,
    InputTransformOp,
    OutputTransformOp,
    Winograd,
)
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of

Matrix = list[list[Fraction]]
"""Rows of a matrix."""


# -- the matrices


def _points(count: int) -> list[Fraction]:
    """Return the first `count` of 0, 1, -1, 2, -2, 1/2, -1/2, 4, ...: points with few digits lose little precision in
    f32.
    """
    points = [Fraction(0)]
    for power in range(count):
        for value in dict.fromkeys((Fraction(2**power), Fraction(1, 2**power))):  # once, if both are 1
            points += [value, -value]
    return points[:count]


def _times_linear(polynomial: list[Fraction], root: Fraction) -> list[Fraction]:
    """Return a polynomial times (x - root). Coefficients are in ascending order."""
    shifted = [Fraction(0), *polynomial]
    return [a - root * b for a, b in zip(shifted, [*polynomial, Fraction(0)], strict=True)]


class TransformMatrices(NamedTuple):
    """Matrices of the Cook-Toom algorithm, with their sizes as [rows][columns].

    Attributes:
        output: transpose(A), [tile][tile + kernel - 1].
        filter: G, [tile + kernel - 1][kernel].
        input: transpose(B), [tile + kernel - 1][tile + kernel - 1].
    """

    output: Matrix
    filter: Matrix
    input: Matrix


@cache
def matrices(tile: int, kernel: int) -> TransformMatrices:
    """Return the matrices of the Cook-Toom algorithm for `tile` results and `kernel` filter elements per dimension.

    In the notation of Lavin and Gray (Fast Algorithms for Convolutional Neural Networks, 2016), for an image row d of
    tile + kernel - 1 numbers and a filter g of `kernel` numbers, the `tile` sums of products are transpose(A) ((G g) *
    (transpose(B) d)), where * multiplies elements. Polynomials are evaluated at the points and at infinity, multiplied
    there, and interpolated.

    Each point p, of 0, 1, -1, 2 and so on, has a row in A, in G and in transpose(B), and infinity has the last one:

        A: the powers p^0, p^1, ...
        G: the powers p^0, p^1, ..., divided by the product of (p - q) over the other points q
        transpose(B): the coefficients of the polynomial that is the product of (x - q) over the other points q

    Example: matrices(2, 3) has the points 0, 1, -1 and infinity.

        transpose(A)    G                    transpose(B)
        1 1  1 0         1    0    0         1  0 -1 0
        0 1 -1 1        1/2  1/2  1/2        0  1  1 0
                        1/2 -1/2  1/2        0 -1  1 0
                         0    0    1         0 -1  0 1
    """
    points = _points(tile + kernel - 2)  # exact fractions, as are the entries of the matrices
    a, g, b = [], [], []  # rows of A, G and transpose(B), one for each point, and at last for infinity
    for point in points:
        others = [p for p in points if p != point]
        polynomial, scale = [Fraction(1)], Fraction(1)
        for other in others:
            polynomial, scale = _times_linear(polynomial, other), scale * (point - other)
        # As in published matrices, the row of G for the point 0 is positive. The row of transpose(B) is negated as
        # well, so that the products of both remain.
        sign = -1 if point == 0 and scale < 0 else 1
        a.append([point**n for n in range(tile)])
        g.append([sign * point**n / scale for n in range(kernel)])
        b.append([sign * c for c in polynomial] + [Fraction(0)])
    # For infinity: rows of A and G that select the leading coefficient, 0 ... 0 1, and in transpose(B) the product of
    # (x - point) over all points.
    product_of_all = [Fraction(1)]
    for point in points:
        product_of_all = _times_linear(product_of_all, point)
    a.append([Fraction(int(n == tile - 1)) for n in range(tile)])
    g.append([Fraction(int(n == kernel - 1)) for n in range(kernel)])
    b.append(product_of_all)
    return TransformMatrices(output=[list(column) for column in zip(*a, strict=True)], filter=g, input=b)


# -- products


Size = int | SSAValue
"""Size of a dimension: a number if it is static, else a value of type index."""
Subscript = str | tuple[str, int, str]
"""Index of a dimension: the letter of a loop, or (a, n, b) for a * n + b."""


class WinogradProducts:
    """Builder of products of tensors with constant matrices, computed in f32, or f64 for operands of f64.

    A letter denotes a loop and the dimensions that it indexes, as in einsum.

    Attributes:
        build: Receives the operations.
        sizes: Letter → size, as a number or a value; `contract` adds the letters of its matrix.
        product_type: Element type of the products.
    """

    def __init__(self, op: Winograd, build: Build, sizes: Mapping[str, Size]) -> None:
        """Choose the type of the products from the operands of `op`."""
        self.build, self.sizes = build, dict(sizes)
        types = [element_type(v.type) for v in op.operands]
        self.product_type: AnyFloat = f64 if f64 in types else f32

    def contract(self, value: SSAValue, subscripts: Sequence[Subscript], matrix: Matrix, *, new_dim: str, summed: str,
              result: str) -> SSAValue:  # fmt: skip
        """Build the sums over `summed` of value[subscripts] * matrix[new_dim, summed], and return them as a tensor with
        the dimensions `result`.

        Example: contract(x, "ij", m, new_dim="a", summed="i", result="aj") computes result[a, j] as the sum over i of
        x[i, j] * m[a, i].

        Args:
            value: Tensor.
            subscripts: Index of each of its dimensions: a letter, or ("h", 4, "i") for h * 4 + i.
            matrix: Constant matrix.
            new_dim: Letter of the matrix' rows, a dimension of the result.
            summed: Letter of the matrix' columns.
            result: Letters of the result's dimensions, in order. Their sizes are in `sizes`, except that of `new_dim`.
        """
        # The matrix, as a constant tensor. The sizes of its letters are added to `sizes` for later products, too.
        build, loops = self.build, result + summed
        self.sizes |= {new_dim: len(matrix), summed: len(matrix[0])}
        flat = [float(coefficient) for row in matrix for coefficient in row]
        constant = build.floats(flat, TensorType(self.product_type, [len(matrix), len(matrix[0])]))

        def expression(subscript: Subscript) -> AffineExpr:
            """Return a subscript as an expression of the loops: one for each letter of `result`, and then `summed`.

            With the loops "ahi", the subscript "h" is d1, and ("h", 4, "i") is d1 * 4 + d2.
            """
            if isinstance(subscript, str):
                return AffineExpr.dimension(loops.index(subscript))
            outer, step, inner = subscript
            return AffineExpr.dimension(loops.index(outer)) * step + AffineExpr.dimension(loops.index(inner))

        # The generic, with a loop for each letter of the result, and one for the reduction.
        operand_subscripts = (subscripts, (new_dim, summed), result)  # of the value, the matrix and the result
        maps = [AffineMap(len(loops), 0, tuple(map(expression, s))) for s in operand_subscripts]
        result_sizes = [self.sizes[letter] for letter in result]
        shape = [n if isinstance(n, int) else DYNAMIC for n in result_sizes]
        dynamic = [n for n in result_sizes if not isinstance(n, int)]
        zeros = build.splat(0.0, TensorType(self.product_type, shape), dynamic)
        body = product_sum([element_type(value.type), self.product_type, self.product_type], unsigned=False)
        structure = Structure(tuple(maps), tuple(c != summed for c in loops))
        (product,) = generic(build, structure, [value, constant], [zeros], body)
        return product

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """Return a tensor converted to the element type `element`."""
        if element_type(value.type) == element:
            return value
        rank = len(shape_of(value.type))
        type = TensorType(element, shape_of(value.type))
        (converted,) = computed(
            self.build, Structure((AffineMap.identity(rank),) * 2, parallel=(True,) * rank), [value],
            [self.build.empty(type, self.build.dynamic_dims(value))],
            lambda body, x, _: [body.cast(x, element, unsigned=False)],
        )  # fmt: skip
        return converted


def _sizes(build: Build, value: SSAValue, letters: str) -> dict[str, Size]:
    """Return the size of each dimension of a tensor, by its letter."""
    shape = shape_of(value.type)
    return {c: build.dim(value, d) if n == DYNAMIC else n for d, (c, n) in enumerate(zip(letters, shape, strict=True))}


def _lower_input_transform(op: Operation, build: Build) -> None:
    """Lower winograd.input_transform to V = B^T d B for each tile d: first along H into [a, n, h, x, c], then along W.

    Letters are einsum subscripts. n, c: batch and channel; h, w: tile; i, j: position in the tile; a, b: transformed
    position; x: column of the padded image. The subscript (h, tile, i) means h * tile + i.

    Example: an image [1, 13, 14, 3] with tiles of 6 and kernels of 3 is padded to [1, 14, 14, 3], since 2 tiles of 8
    pixels, of which 2 overlap, cover 14. The product along H is [8, 1, 2, 14, 3], that along W, with the letters
    abnhwc, is [8, 8, 1, 2, 2, 3].
    """
    assert isinstance(op, InputTransformOp)
    letters = op.transformed_letters()
    sizes = _sizes(build, op.outputs[0], letters)
    products = WinogradProducts(op, build, sizes)
    image = _pad_to_whole_tiles(op, build, sizes)
    matrix = matrices(op.tile, op.kernel).input
    # Along H, with all columns x of the image, and then along W.
    products.sizes["x"] = _sizes(build, image, op.layout)["w"]
    subscripts: dict[str, Subscript] = {"n": "n", "c": "c", "h": ("h", op.tile, "i"), "w": "x"}
    image_subscripts = [subscripts[c] for c in op.layout]
    rows = products.contract(image, image_subscripts, matrix, new_dim="a", summed="i", result="anhxc")
    row_subscripts: list[Subscript] = ["a", "n", "h", ("w", op.tile, "j"), "c"]
    transformed = products.contract(rows, row_subscripts, matrix, new_dim="b", summed="j", result=letters)
    build.replace(products.cast(transformed, element_type(op.outputs[0].type)))


def _pad_to_whole_tiles(op: InputTransformOp, build: Build, sizes: Mapping[str, Size]) -> SSAValue:
    """Return the image, padded with zeros at the end of H and W to whole tiles; unchanged if it has whole tiles.

    Tiles of `op.tile` results are tile + kernel - 1 pixels long, and overlap by kernel - 1 pixels. 2 tiles of 6 with a
    kernel of 3 need 14 pixels.

    sizes: sizes of the transformed image, by letter; those of h and w are the numbers of tiles.
    """
    image = op.inputs[0]
    shape = list(shape_of(image.type))
    padding = [0] * len(shape)  # number of zeros after each dimension, or DYNAMIC
    dynamic_padding = []  # the values of the DYNAMIC ones
    for d, letter in enumerate(op.layout):
        if letter not in "hw":
            continue
        tile_count = sizes[letter]
        padded_size = tile_count * op.tile + op.kernel - 1 if isinstance(tile_count, int) else DYNAMIC
        if DYNAMIC not in (padded_size, shape[d]):
            padding[d] = padded_size - shape[d]
        else:  # the number of tiles or the size is dynamic: the padding is computed at run time
            tiles = build.index(tile_count) if isinstance(tile_count, int) else tile_count
            whole_tiles = build.add(arith.MuliOp(tiles, build.index(op.tile))).result
            total = build.add(arith.AddiOp(whole_tiles, build.index(op.kernel - 1))).result
            dynamic_padding.append(build.add(arith.SubiOp(total, build.dim(image, d))).result)
            padding[d] = DYNAMIC
        shape[d] = padded_size
    if not any(padding):
        return image
    zero = build.scalar(0.0, element_type(image.type))
    return build.add(padded_after(image, zero, padding, dynamic_padding, shape)).result


def _lower_filter_transform(op: Operation, build: Build) -> None:
    """Lower winograd.filter_transform to U = G g G^T for each filter g: first along H into [a, w, c, f], then along W.

    Letters are einsum subscripts. h, w: row and column of the filter; a, b: transformed position; c, f: input and
    output channel.
    """
    assert isinstance(op, FilterTransformOp)
    letters = op.transformed_letters()
    products = WinogradProducts(op, build, _sizes(build, op.inputs[0], op.layout))
    matrix = matrices(op.tile, op.kernel).filter
    rows = products.contract(op.inputs[0], op.layout, matrix, new_dim="a", summed="h", result="awcf")
    transformed = products.contract(rows, "awcf", matrix, new_dim="b", summed="w", result=letters)
    build.replace(products.cast(transformed, element_type(op.outputs[0].type)))


def _lower_output_transform(op: Operation, build: Build) -> None:
    """Lower winograd.output_transform to Y = A^T m A for each tile m: first along H, then along W.

    Letters are einsum subscripts. n, c: batch and channel; h, w: tile; a, b: transformed position; p, q: row and column
    of a pixel in its tile. At the end, h and p are collapsed into the dimension H of the image, w and q into W.
    """
    assert isinstance(op, OutputTransformOp)
    letters = op.transformed_letters()
    products = WinogradProducts(op, build, _sizes(build, op.inputs[0], letters))
    matrix = matrices(op.tile, op.kernel).output
    rows = products.contract(op.inputs[0], letters, matrix, new_dim="p", summed="a", result="nhpbwc")
    dims_of = {"n": "n", "c": "c", "h": "hp", "w": "wq"}  # dimension of the image → those that are collapsed into it
    result = "".join(dims_of[letter] for letter in op.layout)
    columns = products.contract(rows, "nhpbwc", matrix, new_dim="q", summed="b", result=result)
    transformed = products.cast(columns, element_type(op.outputs[0].type))
    groups = [[result.index(dim) for dim in dims_of[letter]] for letter in op.layout]
    type = op.outputs[0].type
    assert isinstance(type, TensorType)
    build.replace(build.collapse(transformed, type, groups))


ROWS: dict[str, Row] = {
    "iree_linalg_ext.winograd.input_transform": _lower_input_transform,
    "iree_linalg_ext.winograd.filter_transform": _lower_filter_transform,
    "iree_linalg_ext.winograd.output_transform": _lower_output_transform,
}
"""Name of an operation → function that replaces it."""
