"""`pyd.subgroup_shuffle`, `pyd.subgroup_reduce`, `pyd.subgroup_ballot`: values of a subgroup, in kernel IR.

A subgroup is `SUBGROUP_SIZE` invocations that follow each other in a workgroup; the last one of a workgroup may have
fewer. Before an operation, each invocation has stored its value in a row of workgroup memory, at its index in the
workgroup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import KeywordChoice, directive

SUBGROUP_SIZE = 32
"""Invocations of a subgroup, on every target: the lanes of a CUDA warp."""

COMBINERS: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "addf": arith.AddfOp, "addi": arith.AddiOp, "maximumf": arith.MaximumfOp, "maxsi": arith.MaxSIOp,
    "maxui": arith.MaxUIOp, "minimumf": arith.MinimumfOp, "minsi": arith.MinSIOp, "minui": arith.MinUIOp,
}  # fmt: skip
"""Name of an `arith` operation without the dialect -> its class, which combines two values."""


@directive
class SubgroupCombiner(KeywordChoice):
    """Directive for the operation of a reduction, a key of `COMBINERS`."""

    WORDS: ClassVar[Sequence[str]] = tuple(COMBINERS)
    WHAT: ClassVar[str] = "combiner"


def _check_row(op: Operation, values: MemRefType) -> None:
    """Raise VerifyException unless `values`, the type of the memory with a value of each invocation, has one dimension
    of static size. `op` is the operation for the message."""
    if values.get_num_dims() != 1 or values.get_shape()[0] < 1:
        raise VerifyException(f"{op.name} reads a static row of values, one for each invocation, got {values}")


@op_definition
class SubgroupShuffleOp(IRDLOperation):
    """Read of the value of another invocation of the subgroup, `%y = pyd.subgroup_shuffle %values[%own], %source :
    memref<Nxf32, 3> -> f32`.

    `values` is a row of workgroup memory, in which each invocation has stored its value at its index in the workgroup.
    `own` is the index of the executing invocation; a target with a shuffle instruction passes values[own] to the
    instruction. `source` is the index in the workgroup of another invocation of the same subgroup: %y is
    values[source]. Example: with subgroups of 32, invocation 40 may read from invocations 32 to 63; source 35 is lane 3
    of its subgroup.
    """

    name = "pyd.subgroup_shuffle"
    values = operand_def(MemRefType)
    own = operand_def(IndexType)
    source = operand_def(IndexType)
    result = result_def()
    assembly_format = "$values `[` $own `]` `,` $source attr-dict `:` type($values) `->` type($result)"

    def verify_(self) -> None:
        """Check that the values are a row of the result's type."""
        values = self.values.type
        assert isinstance(values, MemRefType)
        _check_row(self, values)
        if self.result.type != values.element_type:
            raise VerifyException(
                f"pyd.subgroup_shuffle of {values} gives {values.element_type}, not {self.result.type}"
            )


@op_definition
class SubgroupReduceOp(IRDLOperation):
    """Reduction of the values of the subgroup, `%y = pyd.subgroup_reduce addf %values[%own] : memref<Nxf32, 3> -> f32`.

    `values` is a row of workgroup memory, in which each invocation has stored its value at its index in the workgroup,
    `own`. Adjacent values are combined, then adjacent pairs, and so on: (v0 + v1) + (v2 + v3). The last subgroup of a
    workgroup may be incomplete; its missing values are left out.
    """

    name = "pyd.subgroup_reduce"
    combiner = prop_def(StringAttr)
    values = operand_def(MemRefType)
    own = operand_def(IndexType)
    result = result_def()
    custom_directives = (SubgroupCombiner,)
    assembly_format = (
        "custom<SubgroupCombiner>($combiner) $values `[` $own `]` attr-dict `:` type($values) `->` type($result)"
    )

    def verify_(self) -> None:
        """Check that the values are a row of the result's type, and that the combiner is defined for this type."""
        values = self.values.type
        assert isinstance(values, MemRefType)
        _check_row(self, values)
        element, combiner = values.element_type, self.combiner.data
        if combiner not in COMBINERS:
            raise VerifyException(f"pyd.subgroup_reduce has the combiners {', '.join(COMBINERS)}, not '{combiner}'")
        is_integer = isinstance(element, IntegerType | IndexType)
        if self.result.type != element or is_integer == combiner.endswith("f"):  # names of float operations end in f
            raise VerifyException(f"pyd.subgroup_reduce {combiner} of {values} into {self.result.type}")


@op_definition
class SubgroupBallotOp(IRDLOperation):
    """Conditions of the subgroup as bits, `%word = pyd.subgroup_ballot %conditions[%own] : memref<Nxi1, 3> -> i32`.

    Bit k of the i32, counted from the lowest, is the condition of invocation k of the subgroup, or 0 if the subgroup
    has no invocation k. `values` is a row in workgroup memory (memory space 3): the conditions of the N invocations of
    the workgroup. `own` is the index of the executing invocation in this row.
    """

    name = "pyd.subgroup_ballot"
    values = operand_def(MemRefType)
    own = operand_def(IndexType)
    result = result_def(IntegerType(32))
    assembly_format = "$values `[` $own `]` attr-dict `:` type($values) `->` type($result)"

    def verify_(self) -> None:
        """Check that the values are a row of i1."""
        values = self.values.type
        assert isinstance(values, MemRefType)
        _check_row(self, values)
        if values.element_type != IntegerType(1):
            raise VerifyException(f"pyd.subgroup_ballot takes conditions, got {values}")


OPERATIONS: list[type[Operation]] = [SubgroupShuffleOp, SubgroupReduceOp, SubgroupBallotOp]
"""All read, and do not write, the row of values `operands[0]`; `operands[1]` is the invocation's index in the row."""
