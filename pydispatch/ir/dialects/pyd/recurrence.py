"""`pyd.recurrence`: tensors whose elements depend on the preceding ones along one dimension."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType, i64
from xdsl.dialects.linalg import ops
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import prop_def, region_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.dialects.pyd.ordered import OrderedOp


@op_definition
class RecurrenceOp(OrderedOp):
    """Recurrence along one dimension: `pyd.recurrence (%n) dimension(1) first {…} next {…} : tensor<?x4xf32>`.

    All results have the same shape, with the operands as dynamic sizes. The elements along `dimension` are computed in
    order, with values that are carried from one to the next; the rows, one for each index in the other dimensions, are
    independent.

    Example, the running sums of each column of %x : tensor<?x4xf32>, where %0[r, c] = %x[0, c] + ... + %x[r, c]:

        %0 = pyd.recurrence (%n) dimension(0) first {
        ^bb0(%column: index):
          linalg.yield %zero : f32
        } next {
        ^bb0(%row: index, %column: index, %sum: f32):
          %value = tensor.extract %x[%row, %column] : tensor<?x4xf32>
          %next = arith.addf %sum, %value : f32
          linalg.yield %next, %next : f32, f32
        } : tensor<?x4xf32>

    Attributes:
        sizes: The dynamic sizes of the results, in the order of the dimensions.
        dimension: Index of the dimension, from 0.
        first: Region that takes the index of a row, one number per other dimension, and yields the initial carried
            values.
        next: Region that takes the index of an element, one number per dimension, and the carried values. It yields the
            next carried values, then the element of each result.
    """

    name = "pyd.recurrence"
    sizes = var_operand_def(IndexType)
    dimension = prop_def(IntegerAttr.constr(i64))
    first = region_def("single_block")
    next = region_def("single_block")
    traits = traits_def(Pure())
    assembly_format = (
        "`(` $sizes `)` `dimension` `(` $dimension `)` `first` $first `next` $next attr-dict `:` type($res)"
    )

    @property
    def along(self) -> int:
        """Return the dimension along which the recurrence runs."""
        return int(self.dimension.value.data)

    def verify_(self) -> None:
        """Check that results have one shape with the dimension, the number of dynamic sizes, and the types of both
        regions. Raise VerifyException otherwise.

        The region `first` takes the index of a row, without the dimension that the recurrence runs along, and yields
        the initial carried values. `next` takes the index of an element and the carried values, and yields the next
        carried values and the element of each result. For one result of type tensor<?x4xf32> and a carried i32, `first`
        takes (index) and yields (i32), and `next` takes (index, index, i32) and yields (i32, f32).
        """
        if not self.res:
            raise VerifyException("a recurrence has one result at least")
        shape = self.shape
        for result in self.res:
            assert isinstance(result.type, TensorType)
            if tuple(result.type.get_shape()) != shape:
                raise VerifyException(f"the results {self.res[0].type} and {result.type} differ in shape")
        if not 0 <= self.along < len(shape):
            raise VerifyException(f"dimension {self.along} is not one of the {len(shape)} of {self.res[0].type}")
        if len(self.sizes) != syntax.dynamic_dims(self.res[0].type):
            raise VerifyException(f"{self.res[0].type} needs as many sizes, got {len(self.sizes)}")
        # `first` yields the carried values. The index of a row, which it takes, lacks the dimension `along`.
        carried = _yielded(self.first)
        elements = [r.type.get_element_type() for r in self.res]
        index: list[Attribute] = [IndexType()]
        _check_region("first", self.first, index * (len(shape) - 1), carried)
        _check_region("next", self.next, [*index * len(shape), *carried], [*carried, *elements])


def _yielded(body: Region) -> list[Attribute]:
    """Return the types of the values that `body` yields; none if another operation ends it."""
    last = body.block.last_op
    return [v.type for v in last.operands] if isinstance(last, ops.YieldOp) else []


def _check_region(region_name: str, body: Region, arguments: list[Attribute], results: list[Attribute]) -> None:
    """Check that the region `body` takes `arguments` and yields `results`, lists of types; raise VerifyException
    otherwise."""
    for verb, actual, wanted in (
        ("takes", [a.type for a in body.block.args], arguments), ("yields", _yielded(body), results)
    ):  # fmt: skip
        if actual != wanted:
            got, expected = (", ".join(map(str, types)) for types in (actual, wanted))
            raise VerifyException(f"the region '{region_name}' {verb} ({got}), expected ({expected})")


OPERATIONS: list[type[Operation]] = [RecurrenceOp]
