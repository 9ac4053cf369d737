"""`pyd.top_k`: the first elements of each row in the order of a comparator."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, TensorType, i1
from xdsl.dialects.linalg import ops
from xdsl.ir import Attribute, Operation
from xdsl.irdl import region_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.pyd.ordered import OrderedOp


@op_definition
class TopKOp(OrderedOp):
    """First k elements of each row, and their positions:
    `pyd.top_k %x before {…} : tensor<?x9xf32> -> tensor<?x4xf32>, tensor<?x4xi64>`.

    The operands are matrices of one shape. Their rows of one index are sorted together: the same permutation applies to
    each of them. The results are the first k columns of each sorted operand, then one matrix with the column indices of
    these elements in the operands.

    `before` takes elements a and b of each operand, as (a0, b0, a1, b1), and yields whether a precedes b. If neither
    precedes the other, the one with the lower index is first. A row has k elements or more.
    """

    name = "pyd.top_k"
    inputs = var_operand_def(TensorType)
    before = region_def("single_block")
    traits = traits_def(Pure())
    assembly_format = "$inputs `before` $before attr-dict `:` type($inputs) `->` type($res)"

    @property
    def along(self) -> int:
        """Return the dimension along which elements are selected: 1, since the operands are matrices of rows."""
        return 1

    @property
    def count(self) -> int:
        """Return k, the number of elements of each row that are selected: the columns of each result."""
        return self.shape[1]

    def verify_(self) -> None:
        """Check the shapes and types of operands and results, and the comparator.

        Operands of types tensor<?x9xf32> and tensor<?x9xi8> have, for k = 4, the results tensor<?x4xf32>,
        tensor<?x4xi8> and the positions, tensor<?x4xi64>. Their comparator takes (f32, f32, i8, i8) and yields i1.
        """
        if len(self.res) != len(self.inputs) + 1 or not self.inputs:
            raise VerifyException(f"{len(self.inputs)} operands need one result more, got {len(self.res)}")
        # Lists with an entry for each operand, then for each result.
        types = [value.type for value in (*self.inputs, *self.res)]
        shapes = [tuple(type_.get_shape()) for type_ in types if isinstance(type_, TensorType)]
        elements = [type_.get_element_type() for type_ in types if isinstance(type_, TensorType)]
        # The shapes.
        input_shapes, result_shapes = shapes[: len(self.inputs)], shapes[len(self.inputs) :]
        if len(input_shapes[0]) != 2 or len(set(input_shapes)) > 1:
            raise VerifyException(f"the operands are matrices of one shape, got {', '.join(map(str, types))}")
        row_count, row_size = input_shapes[0]
        if len(set(result_shapes)) > 1 or len(result_shapes[0]) != 2 or result_shapes[0][0] != row_count:
            raise VerifyException(f"the results have the rows of {types[0]}, got {self.res[0].type}")
        if self.count < 1 or (row_size != DYNAMIC and self.count > row_size):
            raise VerifyException(f"{self.count} elements of each row of {types[0]} are wanted")
        # The element types: those of the operands, which the first results repeat, and that of the positions.
        input_elements, position_element = elements[: len(self.inputs)], elements[-1]
        if elements[len(self.inputs) : -1] != input_elements:
            raise VerifyException(f"the first result is {self.res[0].type}, the operand {types[0]}")
        if not isinstance(position_element, IndexType | IntegerType):
            raise VerifyException(f"positions are integers, got {self.res[-1].type}")
        # The comparator takes two elements, a and b, of each operand.
        self._verify_comparator([element for element in input_elements for _ in range(2)])

    def _verify_comparator(self, arguments: list[Attribute]) -> None:
        """Raise VerifyException unless the region takes `arguments` and yields an i1."""
        block = self.before.block
        last = block.last_op
        yielded = [value.type for value in last.operands] if isinstance(last, ops.YieldOp) else []
        taken = [argument.type for argument in block.args]
        if taken != arguments or yielded != [i1]:
            takes, yields, expected = (", ".join(map(str, types)) for types in (taken, yielded, arguments))
            raise VerifyException(
                f"the region 'before' takes ({takes}) and yields ({yields}), expected ({expected}) and (i1)"
            )


OPERATIONS: list[type[Operation]] = [TopKOp]
