"""`winograd.input_transform`, `filter_transform`, `output_transform`: convolutions of stride 1 by products of tiles."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.base import (
    RESULTS,
    SIDES,
    OnTensorsOp,
    check_count,
    check_shape,
    shape_of,
)
from pydispatch.ir.dialects.linalg.shape import numbers


class Winograd(OnTensorsOp):
    """Base of Winograd transforms F(m x m, k x k) for convolutions of stride 1 with a k x k kernel.

    An output tile of m x m corresponds to a transformed tile of (m + k - 1) x (m + k - 1). Letters name the dimensions:
    n images, h rows, w columns, c channels, f filters; of a transformed tensor, h and w count tiles, and a and b are
    the position in a tile.

    Attributes:
        output_tile_size: The size m.
        kernel_size: The size k.
        input_tile_dimensions: The two dimensions of the transformed tensor that index the elements of a tile;
            the first two if absent.
    """

    output_tile_size = prop_def(IntegerAttr.constr(i64))
    kernel_size = prop_def(IntegerAttr.constr(i64))
    input_tile_dimensions = opt_prop_def(DenseArrayBase)
    DIMENSIONS: ClassVar[str]
    """Name of the property that lists the two spatial dimensions of the untransformed tensor, its height and width."""
    LAYOUTS: ClassVar[dict[tuple[int, ...], str]]
    """Permitted lists of dimensions -> letters of the dimensions of the untransformed tensor."""

    @property
    def tile(self) -> int:
        """Return the output tile size m."""
        return int(self.output_tile_size.value.data)

    @property
    def kernel(self) -> int:
        """Return the kernel size k."""
        return int(self.kernel_size.value.data)

    @property
    def transformed_tile(self) -> int:
        """Return the height and width of a transformed tile, m + k - 1."""
        return self.tile + self.kernel - 1

    @property
    def layout(self) -> str:
        """Return one letter per dimension of the untransformed tensor, such as "nhwc".

        `DIMENSIONS` names the property that lists the spatial dimensions, such as "image_dimensions". `LAYOUTS` maps
        its permitted values to letters: (1, 2) to "nhwc". Raise VerifyException for another value.
        """
        dimensions = self.properties[self.DIMENSIONS]
        assert isinstance(dimensions, DenseArrayBase)
        dims = tuple(numbers(dimensions))
        if dims not in self.LAYOUTS:
            wanted = " or ".join(str(list(p)) for p in self.LAYOUTS)
            raise VerifyException(f"{self.DIMENSIONS} are {wanted}, got {list(dims)}")
        return self.LAYOUTS[dims]

    def transformed_letters(self) -> str:
        """Return one letter per dimension of the transformed tensor; `a` and `b` index the elements of a tile.

        An image in the layout "nhwc" becomes "abnhwc", where h and w count tiles.
        """
        listed = list(self.tile_letters())
        # The property has the axes of `a` and `b` in the result. They are inserted in ascending order, so that the
        # second insertion does not shift the first letter.
        for axis, letter in sorted(zip(numbers(self.input_tile_dimensions) or [0, 1], "ab", strict=True)):
            listed.insert(axis, letter)
        return "".join(listed)

    def verify_operands(self) -> None:
        """Check the sizes of tile and kernel, the float types, the transformed dimensions, and the shapes."""
        check_count("input", len(self.inputs), 1)
        check_count("output", len(self.outputs), 1)
        dims = numbers(self.input_tile_dimensions) or [0, 1]
        for property_name, size in (("output_tile_size", self.tile), ("kernel_size", self.kernel)):
            if not 1 <= size <= 16:  # the limit bounds the constant matrices of a transform
                raise VerifyException(f"{property_name} is from 1 to 16, got {size}")
        source, result = self.inputs[0], self.outputs[0]
        if any(not isinstance(element_type(v.type), AnyFloat) for v in (source, result)):
            raise VerifyException(f"a transform is one of floats, got {source.type} and {result.type}")
        rank = self.transformed_rank()
        if len(dims) != 2 or len(set(dims)) != 2 or any(not 0 <= d < rank for d in dims):
            raise VerifyException(f"input_tile_dimensions are two dimensions of a tensor of rank {rank}, got {dims}")
        self.verify_shapes(source, result)

    def transformed_rank(self) -> int:
        """Return the rank of the tensor of transformed tiles."""
        return len(self.tile_letters()) + 2  # and the two dimensions of a tile, a and b

    def tile_letters(self) -> str:
        """Return one letter per dimension of the transformed tensor, such as "nhwc", without `a` and `b`.

        The letters are those of the class; `a` and `b` index the elements of a tile.
        """
        raise NotImplementedError

    def verify_shapes(self, source: SSAValue, result: SSAValue) -> None:
        """Check that `result`, the output, has the shape of the transformed `source`; raise VerifyException
        otherwise."""
        raise NotImplementedError

    def check_sizes(self, subject: str, value: SSAValue, letters: str, sizes: dict[str, int]) -> None:
        """Check the shape of a tensor; raise VerifyException if it is another one.

        subject: name of the tensor in the message, such as "the image". letters: one letter for each dimension, such as
        "nhwc". sizes: letter -> expected size of its dimension.
        """
        check_shape(subject, value, [sizes[letter] for letter in letters])


_SYNTAX = (
    "attr-dict `output_tile_size` `(` $output_tile_size `)` `kernel_size` `(` $kernel_size `)` `{0}` `(` "
    "custom<Numbers>(${0}) `)` (`input_tile_dimensions` `(` custom<Numbers>($input_tile_dimensions)^ `)`)? "
    f"{SIDES} {RESULTS}"
)
"""Assembly format of the transforms; `{0}` is replaced by the name of the property with the spatial dimensions."""


def _sizes_by_letter(value: SSAValue, letters: str) -> dict[str, int]:
    """Return the size of each dimension of a tensor by its letter in `letters`, which are in the order of the
    dimensions; raise VerifyException if there are more or fewer dimensions than letters."""
    shape = shape_of(value)
    if len(shape) != len(letters):
        raise VerifyException(f"{value.type} has rank {len(shape)}, expected {len(letters)}")
    return dict(zip(letters, shape, strict=True))


def _tiles(size: int, tile: int) -> int:
    """Return how many tiles of `tile` elements cover `size` elements."""
    return DYNAMIC if size == DYNAMIC else -(-size // tile)


class Image(Winograd):
    """Base of transforms whose untransformed tensor is a batch of images."""

    image_dimensions = prop_def(DenseArrayBase)
    assembly_format = _SYNTAX.format("image_dimensions")
    DIMENSIONS: ClassVar[str] = "image_dimensions"
    LAYOUTS: ClassVar[dict[tuple[int, ...], str]] = {(1, 2): "nhwc", (2, 3): "nchw"}  # image_dimensions → layout

    def tile_letters(self) -> str:
        """Return "nhwc" for both layouts: only the untransformed tensor may have its channels before h and w."""
        return "nhwc"


@op_definition
class InputTransformOp(Image):
    """Winograd input transform: transpose(B) * x * B of each tile x of the images, with a constant matrix B.

    A tile has m + k - 1 rows and columns of pixels, those on which m x m output pixels of the convolution depend, for
    the output tile size m and the kernel size k. Neighboring tiles overlap by k - 1 pixels. Pixels beyond the end of an
    image are zeros.

    Example: with m = 6 and k = 3, the images 1x10x10x4 (nhwc) become 8x8x1x2x2x4 (abnhwc). The convolution has
    10 - 3 + 1 = 8 output pixels along each dimension, which 2 tiles of 6 cover; a tile has 6 + 3 - 1 = 8 pixels.
    """

    name = "iree_linalg_ext.winograd.input_transform"

    def verify_shapes(self, source: SSAValue, result: SSAValue) -> None:
        """Check that the images are at least as large as the kernel, and that the result has their tiles."""
        sizes = _sizes_by_letter(source, self.layout)
        # Replace the numbers of pixels along h and w by the numbers of tiles.
        for letter in "hw":
            if 0 <= sizes[letter] < self.kernel:  # DYNAMIC is negative
                raise VerifyException(f"{source.type} is smaller than the kernel of {self.kernel}x{self.kernel}")
            size = sizes[letter]
            # The convolution without padding has size - k + 1 output pixels.
            sizes[letter] = _tiles(size if size == DYNAMIC else size - self.kernel + 1, self.tile)
        sizes |= dict.fromkeys("ab", self.transformed_tile)  # rows and columns of a transformed tile
        self.check_sizes("the transformed image", result, self.transformed_letters(), sizes)


@op_definition
class OutputTransformOp(Image):
    """Winograd output transform: transpose(A) * x * A of each transformed tile x."""

    name = "iree_linalg_ext.winograd.output_transform"

    def verify_shapes(self, source: SSAValue, result: SSAValue) -> None:
        """Check that the source has transformed tiles, and that the image has m x m pixels for each of them."""
        sizes = _sizes_by_letter(source, self.transformed_letters())
        for letter in "ab":  # rows and columns of a tile
            if sizes[letter] not in (DYNAMIC, self.transformed_tile):
                raise VerifyException(f"{source.type} has tiles of {sizes[letter]}, expected {self.transformed_tile}")
        for letter in "hw":  # tiles of the transformed tensor, pixels of the image
            sizes[letter] = DYNAMIC if sizes[letter] == DYNAMIC else sizes[letter] * self.tile
        self.check_sizes("the image", result, self.layout, sizes)


@op_definition
class FilterTransformOp(Winograd):
    """Winograd filter transform: G * x * transpose(G) of each kernel x, with a constant matrix G.

    A kernel is the k x k weights of one channel c and one filter f. For m = 6 and k = 3, G is 8x3, and the kernels
    3x3x4x5 (hwcf) of 4 channels and 5 filters become 8x8x4x5 (abcf), as (m + k - 1) x (m + k - 1) = 8x8.
    """

    name = "iree_linalg_ext.winograd.filter_transform"
    kernel_dimensions = prop_def(DenseArrayBase)
    assembly_format = _SYNTAX.format("kernel_dimensions")
    DIMENSIONS: ClassVar[str] = "kernel_dimensions"
    LAYOUTS: ClassVar[dict[tuple[int, ...], str]] = {(0, 1): "hwcf", (2, 3): "fchw"}  # kernel_dimensions → layout

    def tile_letters(self) -> str:
        """Return "cf", channels and filters, for both layouts: a kernel is one tile, so no dimension counts tiles."""
        return "cf"

    def verify_shapes(self, source: SSAValue, result: SSAValue) -> None:
        """Check that the source has k x k kernels, and that the result has one transformed tile for each of them."""
        sizes = _sizes_by_letter(source, self.layout)
        for letter in "hw":  # rows and columns of a kernel
            if sizes[letter] not in (DYNAMIC, self.kernel):
                raise VerifyException(f"{source.type} has kernels of {sizes[letter]}, expected {self.kernel}")
        sizes |= dict.fromkeys("ab", self.transformed_tile)  # rows and columns of a transformed tile
        self.check_sizes("the transformed filter", result, self.transformed_letters(), sizes)


OPERATIONS: list[type[Operation]] = [InputTransformOp, FilterTransformOp, OutputTransformOp]
