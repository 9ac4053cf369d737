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

    The tiles are tensors, usually of dynamic size. A result consists of the tiles that the body yields for an output.

    Attributes:
        indexing_maps: One affine map per operand, inputs first: the loops -> the operand's dimensions. Symbols of a map
            stand for dimensions that a tile always covers from end to end.
        iterator_types: Kind of each loop.
    """

    name = "iree_linalg_ext.custom_op"
    indexing_maps = prop_def(ArrayAttr)
    iterator_types = prop_def(ArrayAttr)
    body = region_def("single_block")
    assembly_format = f"attr-dict {SIDES} $body {RESULTS}"

    def verify_operands(self) -> None:
        """Check the number of maps, and the tiles in the body.

        The arguments of the body must be tiles of the operands, and it must yield tiles of the outputs.
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
    """Check that each tile is a tensor of the rank and elements of its operand, or the same scalar; raise
    VerifyException otherwise.

    Args:
        whole_name: Name of an operand in messages, such as "output".
        wholes: Types of the operands.
        tile_name: Name of a tile in messages, such as "yielded value".
        tiles: Types of the tiles, one per operand. A dimension in which a tile is smaller than its operand has a
            dynamic size in one of the types: two static sizes must be equal.
    """
    if len(wholes) != len(tiles):
        raise VerifyException(f"the body has {len(tiles)} {tile_name}(s) for {len(wholes)} {whole_name}(s)")
    for whole, tile in zip(wholes, tiles, strict=True):
        is_tile = whole == tile
        if isinstance(whole, TensorType) and isinstance(tile, TensorType):
            pairs = zip(whole.get_shape(), tile.get_shape(), strict=False)
            fits = all(DYNAMIC in pair or pair[0] == pair[1] for pair in pairs)
            is_tile = (
                fits and len(whole.get_shape()) == len(tile.get_shape()) and element_type(whole) == element_type(tile)
            )
        if not is_tile:
            raise VerifyException(f"the {tile_name} {tile} is no tile of the {whole_name} {whole}")


OPERATIONS: list[type[Operation]] = [CustomOp]
