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
    """Operations on a tile of each operand, which the body is passed as tensors of dynamic size.

    Results are the tiles that the body yields. `indexing_maps` has one map per operand, from the iterations and from
    symbols, which stand for dimensions that a tile always has as a whole.
    """

    name = "iree_linalg_ext.custom_op"
    indexing_maps = prop_def(ArrayAttr)
    iterator_types = prop_def(ArrayAttr)
    body = region_def("single_block")
    assembly_format = f"attr-dict {SIDES} $body {RESULTS}"

    def verify_operands(self) -> None:
        """Check the number of maps, and that arguments and yielded values of the body are tiles of operands and
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


def _check_tiles(what: str, wholes: list[Attribute], which: str, tiles: list[Attribute]) -> None:
    """Check that each tile is a tensor of the rank and elements of its operand, or the same scalar; raise
    VerifyException otherwise.
    """
    if len(wholes) != len(tiles):
        raise VerifyException(f"the body has {len(tiles)} {which}(s) for {len(wholes)} {what}(s)")
    for whole, tile in zip(wholes, tiles, strict=True):
        same = whole == tile
        if isinstance(whole, TensorType) and isinstance(tile, TensorType):
            pairs = zip(whole.get_shape(), tile.get_shape(), strict=False)
            fits = all(DYNAMIC in pair or pair[0] == pair[1] for pair in pairs)
            same = (
                fits and len(whole.get_shape()) == len(tile.get_shape()) and element_type(whole) == element_type(tile)
            )
        if not same:
            raise VerifyException(f"the {which} {tile} is no tile of the {what} {whole}")


OPERATIONS: list[type[Operation]] = [CustomOp]
