"""`sort`, `topk`, `arg_compare` and `scan`: the body compares or combines two elements along one dimension."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerAttr, ShapedType, UnitAttr, i64
from xdsl.ir import Operation
from xdsl.irdl import opt_operand_def, opt_prop_def, prop_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.base import (
    RESULTS,
    SIDES,
    BodyOp,
    check_body,
    check_comparator,
    check_count,
    check_dimension,
    check_integers,
    check_shape,
    shape_of,
)


class AlongOp(BodyOp):
    """Base of operations along one dimension of their first operand; `dimension` is its index from 0."""

    dimension = prop_def(IntegerAttr.constr(i64))

    @property
    def along(self) -> int:
        """Return the index of the dimension, from 0."""
        return int(self.dimension.value.data)


class Sort(AlongOp):
    """Stable sort of several tensors together along `dimension`.

    The sorted tensors are the inputs; without inputs, they are the initial values of the outputs. The body is a
    comparator: it takes elements a and b of each tensor, as (a0, b0, a1, b1), and returns whether a precedes b.
    """

    assembly_format = f"attr-dict `dimension` `(` $dimension `)` {SIDES} $body {RESULTS}"

    def verify_operands(self) -> None:
        """Check that all tensors have one shape, that an input has the element type of its output, and the comparator's
        types.
        """
        check_count("input", len(self.inputs), 0, len(self.outputs))  # none, or one per output
        check_dimension(self.along, self.outputs[0])
        pairs = zip(self.inputs, self.outputs, strict=False)  # empty without inputs
        for index, (value, output) in enumerate(pairs):
            check_shape(f"input {index}", value, shape_of(output))
            if element_type(value.type) != element_type(output.type):
                raise VerifyException(f"output {index} is {output.type}, the values are {value.type}")
        for index, output in enumerate(self.outputs):
            check_shape(f"output {index}", output, shape_of(self.outputs[0]))
        check_comparator(self.body, [element_type(o.type) for o in self.outputs])


@op_definition
class SortOp(Sort):
    """Stable sort along a dimension."""

    name = "iree_linalg_ext.sort"


class Topk(AlongOp):
    """Selection of the first k elements along `dimension` in the order of a comparator, and their indices.

    Inputs are the values, and optionally an index for each value; if absent, the index of a value is its position along
    `dimension`. The outputs, selected values and their indices, only determine the types; they have size k along
    `dimension`. The body returns whether its first argument precedes its second; equal values keep their order.

    Example: with the comparator "greater" and k = 2, the values [5, 9, 7] give [9, 7] and the indices [1, 2].
    """

    assembly_format = f"attr-dict `dimension` `(` $dimension `)` {SIDES} $body {RESULTS}"
    OUTPUT_COUNTS: ClassVar[tuple[int, ...]] = (2,)
    """Permitted numbers of outputs: 2 for values and indices, 1 for values alone."""

    def verify_operands(self) -> None:
        """Check the types of the outputs, of the optional indices, and of the comparator, the region that takes two
        elements and yields whether the first one precedes. Raise VerifyException otherwise.

        The outputs have the shape of the values, except that k, their size along `dimension`, may be smaller: [2, 3]
        for values [2, 10], dimension 1 and k = 3.
        """
        # The inputs: values, and optionally their indices.
        check_count("input", len(self.inputs), 1, 2)
        check_count("output", len(self.outputs), *self.OUTPUT_COUNTS)
        values, selected = self.inputs[0], self.outputs[0]
        check_dimension(self.along, values)
        if len(self.inputs) == 2:
            check_shape("the tensor of indices", self.inputs[1], shape_of(values))
            check_integers("the tensor of indices", self.inputs[1])
        # The shape of the outputs, with `count` elements along the dimension. Another rank is refused by check_shape.
        has_same_rank = len(shape_of(selected)) == len(shape_of(values))
        count = shape_of(selected)[self.along] if has_same_rank else DYNAMIC
        size = shape_of(values)[self.along]
        if DYNAMIC not in (count, size) and count > size:
            raise VerifyException(f"{count} elements of {size} along dimension {self.along} are wanted")
        expected = [count if d == self.along else n for d, n in enumerate(shape_of(values))]
        for index, output in enumerate(self.outputs):
            check_shape(f"output {index}", output, expected)
        for output in self.outputs[1:]:  # the indices, if the operation returns them
            check_integers("output 1", output)
        element = element_type(values.type)
        if element_type(selected.type) != element:
            raise VerifyException(f"output 0 is {selected.type}, the values are {values.type}")
        check_comparator(self.body, [element])


@op_definition
class TopkOp(Topk):
    """Selection of the first k elements along a dimension in the order of the comparator in the body."""

    name = "iree_linalg_ext.topk"


@op_definition
class TopkV2Op(Topk):
    """Selection of the first k elements, whose second output, that of the indices, is optional.

    Without `is_sorted`, any order of the k elements is permitted.
    """

    name = "iree_linalg_ext.topk_v2"
    is_sorted = opt_prop_def(UnitAttr)
    assembly_format = f"attr-dict `dimension` `(` $dimension `)` (`is_sorted` $is_sorted^)? {SIDES} $body {RESULTS}"
    OUTPUT_COUNTS: ClassVar[tuple[int, ...]] = (1, 2)


@op_definition
class ArgCompareOp(AlongOp):
    """Selection of the best element along `dimension` by a comparator, and its index.

    Example: with the comparator "greater", the values [3, 9, 7] and the initial value -inf give 9 and the index 1, or
    11 with an `index_base` of 10.

    Attributes:
        inputs: The values, and optionally an index for each value; if absent, it is the position along `dimension`,
            plus `index_base`.
        outputs: Initial best value and its index, in the shape of the values without `dimension`. They are the result
            where no value is better.
        index_base: Number that is added to positions, such as the position of these values in a larger tensor; 0 if
            absent.
        body: Takes an element and the best so far, and returns whether the element is better.
    """

    name = "iree_linalg_ext.arg_compare"
    inputs = var_operand_def()
    outputs = var_operand_def(ShapedType)
    index_base = opt_operand_def(IndexType)
    assembly_format = (
        f"attr-dict `dimension` `(` $dimension `)` {SIDES} "
        f"(`index_base` `(` $index_base^ `:` type($index_base) `)`)? $body {RESULTS}"
    )

    def verify_operands(self) -> None:
        """Check the types of the outputs, of the optional indices, and of the comparator, the region that takes two
        elements and yields whether the first one is better. Raise VerifyException otherwise.

        The outputs have the shape of the values without `dimension`: [4, 3] for values [4, 8, 3] and dimension 1.
        `index_base` is refused together with a tensor of indices, since it is added to positions.
        """
        check_count("input", len(self.inputs), 1, 2)
        check_count("output", len(self.outputs), 2)
        values = self.inputs[0]
        check_dimension(self.along, values)
        if len(self.inputs) == 2:
            check_shape("the tensor of indices", self.inputs[1], shape_of(values))
            check_integers("the tensor of indices", self.inputs[1])
            if self.index_base is not None:
                raise VerifyException("index_base is added to positions, and the indices are given here")
        expected = [n for d, n in enumerate(shape_of(values)) if d != self.along]
        for index, output in enumerate(self.outputs):
            check_shape(f"output {index}", output, expected)
        check_integers("output 1", self.outputs[1])
        element = element_type(values.type)
        if element_type(self.outputs[0].type) != element:
            raise VerifyException(f"output 0 is {self.outputs[0].type}, the values are {values.type}")
        check_comparator(self.body, [element])


class Scan(AlongOp):
    """Prefix scan along `dimension` with a body as the operator.

    With r for the results, v for the values and an initial value, along `dimension`

        inclusive scan:   r[0] = v[0],            r[i] = body(r[i-1], v[i])
        exclusive scan:   r[0] = initial value,   r[i] = body(r[i-1], v[i-1])

    Example: for the body a + b, the values [1, 2, 3] and the initial value 10, an inclusive scan gives [1, 3, 6], and
    an exclusive one [10, 11, 13].

    Attributes:
        inputs: The values.
        outputs: Output 0 only determines the type of the results, whose shape is that of the values. Output 1, in this
            shape without `dimension`, has the initial values, which an inclusive scan ignores.
        res: The results r, then the last r along `dimension`; where the dimension is empty, the initial value.
        inclusive: Whether the scan is inclusive.
    """

    inclusive = prop_def(IntegerAttr)
    assembly_format = f"attr-dict `dimension` `(` $dimension `)` `inclusive` `(` $inclusive `)` {SIDES} $body {RESULTS}"

    @property
    def is_inclusive(self) -> bool:
        """Return whether each result includes the value at its own index."""
        return bool(self.inclusive.value.data)

    def verify_operands(self) -> None:
        """Check the shapes and element types of the outputs, and that the body combines two elements into one.

        Output 0 has the shape of the values, output 1 this shape without `dimension`.
        """
        check_count("input", len(self.inputs), 1)
        check_count("output", len(self.outputs), 2)
        values, (results, carried) = self.inputs[0], self.outputs
        check_dimension(self.along, values)
        check_shape("output 0", results, shape_of(values))
        check_shape("output 1", carried, [n for d, n in enumerate(shape_of(values)) if d != self.along])
        element = element_type(values.type)
        for index, output in enumerate(self.outputs):
            if element_type(output.type) != element:
                raise VerifyException(f"output {index} is {output.type}, the values are {values.type}")
        check_body(self.body, [element, element], [element])


@op_definition
class ScanOp(Scan):
    """Prefix scan along a dimension."""

    name = "iree_linalg_ext.scan"


OPERATIONS: list[type[Operation]] = [SortOp, TopkOp, TopkV2Op, ArgCompareOp, ScanOp]
