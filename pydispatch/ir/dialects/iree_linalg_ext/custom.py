"""`custom_op`: operations on tiles of tensors that the program itself states."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import prop_def, region_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.base import RESULTS, SIDES, OnTensorsOp, Yield


@op_definition
class CustomOp(OnTensorsOp):
    """Computation on tiles: the body takes a tile of each operand and yields a tile of each output.

    A tile is a slice of the operand, a tensor that usually has dynamic sizes; a scalar is passed whole. A result
    consists of the tiles that the body yields for an output.

    Example: the product of matrices [m, k] and [k, n] has loops d0 and d1 over m and n, and the maps
    `(d0, d1)[s0] -> (d0, s0)`, `(d0, d1)[s0] -> (s0, d1)` and, for the output, `(d0, d1)[s0] -> (d0, d1)`. The body
    takes some rows of the first matrix, some columns of the second, and yields their product.

    Attributes:
        indexing_maps: One affine map per operand, inputs first: the loops -> the operand's dimensions. A symbol stands
            for a dimension that no loop divides, so that a tile covers it from end to end.
        iterator_types: Kind of each loop, such as `#iree_linalg_ext.iterator_type<parallel>`.
    """

    name = "iree_linalg_ext.custom_op"
    indexing_maps = prop_def(ArrayAttr)
    iterator_types = prop_def(ArrayAttr)
    body = region_def("single_block")
    assembly_format = f"attr-dict {SIDES} $body {RESULTS}"

    def verify_operands(self) -> None:
        """Check that each operand has a map, and that the body takes tiles of the operands and yields tiles of the
        outputs.
        """
        operands, arguments = self.operands, self.body.block.args
        if len(self.indexing_maps) != len(operands):
            raise VerifyException(
                f"{len(operands)} operand(s) need as many indexing maps, got {len(self.indexing_maps)}"
            )
        _check_tiles("operand", [v.type for v in operands], "argument", [a.type for a in arguments])
        last = self.body.block.last_op
        yielded = [v.type for v in last.operands] if isinstance(last, Yield) else []
        _check_tiles("output", [v.type for v in self.outputs], "yielded value", yielded)


def _check_tiles(whole_name: str, wholes: list[Attribute], tile_name: str, tiles: list[Attribute]) -> None:
    """Check that the types in `tiles` are those of tiles of the operands `wholes`; raise VerifyException otherwise.

    A tile of a tensor has the rank and the element type of the tensor. In each dimension the sizes are equal, or one of
    them is dynamic: `tensor<?x4xf32>` is a tile of `tensor<8x4xf32>`, but `tensor<2x4xf32>` is not. The tile of a
    scalar has the same type.

    Args:
        whole_name: Name of an operand in messages, such as "output".
        wholes: Types of the operands.
        tile_name: Name of a tile in messages, such as "yielded value".
        tiles: Types of the tiles, one per operand.
    """
    if len(wholes) != len(tiles):
        raise VerifyException(f"the body has {len(tiles)} {tile_name}(s) for {len(wholes)} {whole_name}(s)")
    for whole, tile in zip(wholes, tiles, strict=True):
        is_tile = whole == tile
        if isinstance(whole, TensorType) and isinstance(tile, TensorType):
            pairs = zip(whole.get_shape(), tile.get_shape(), strict=False)  # the ranks are compared below
            fits = all(DYNAMIC in pair or pair[0] == pair[1] for pair in pairs)
            is_tile = (
                fits and len(whole.get_shape()) == len(tile.get_shape()) and element_type(whole) == element_type(tile)
            )
        if not is_tile:
            raise VerifyException(f"the {tile_name} {tile} is no tile of the {whole_name} {whole}")


OPERATIONS: list[type[Operation]] = [CustomOp]
