"""`iree_tensor_ext`: operations in dispatches that IREE's compiler has formed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IndexType, IndexTypeConstr, IntegerAttr, ShapedType, StringAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect, Pure

from pydispatch.ir.core.assembly import op_definition

_ACCESS = ("readonly", "readwrite", "writeonly")
"""Accesses of a dispatch to a binding, as words in the type of its tensor."""


@irdl_attr_definition
class DispatchTensorType(ParametrizedAttribute, TypeAttribute):
    """Binding viewed as a tensor, `!iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>`.

    Attributes:
        access: "readonly", "readwrite" or "writeonly".
        bound_type: Type of the tensor, or of a scalar.
    """

    name = "iree_tensor_ext.dispatch.tensor"
    access: StringAttr
    bound_type: Attribute

    def get_shape(self) -> tuple[int, ...]:
        """Return the sizes of the tensor, DYNAMIC for a dynamic one; () for a scalar."""
        return tuple(self.bound_type.get_shape()) if isinstance(self.bound_type, ShapedType) else ()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<access:type>`, such as `<readonly:tensor<4xf32>>`."""
        with parser.in_angle_brackets():
            start = parser.pos
            access = parser.parse_identifier(context_msg=" for the access")
            if access not in _ACCESS:
                parser.raise_error(
                    f"unknown access '{access}', expected one of {', '.join(_ACCESS)}", start, parser.pos
                )
            parser.parse_punctuation(":")
            return [StringAttr(access), parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<access:type>`."""
        printer.print_string(f"<{self.access.data}:")
        printer.print_attribute(self.bound_type)
        printer.print_string(">")


class _SliceOp(IRDLOperation):
    """Base of operations on slices, `offsets = [...], sizes = [...], strides = [...]`, of integers and values.

    The lists have one entry per dimension of the binding. `static_offsets`, `static_sizes` and `static_strides` have
    all entries, with DYNAMIC for each that is a value; `offsets`, `sizes` and `strides` have these values, in order.
    """

    offsets = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_offsets = prop_def(ArrayAttr)
    static_sizes = prop_def(ArrayAttr)
    static_strides = prop_def(ArrayAttr)


_SLICE = " `,` ".join(f"`{key}` `=` custom<Mixed>(${key}, $static_{key})" for key in ("offsets", "sizes", "strides"))
"""Slice of a tensor: `offsets = [0, %n], sizes = [4, 8], strides = [1, 1]`."""


@op_definition
class DispatchTensorLoadOp(_SliceOp):
    """Load of a slice of a dispatch binding. `source_dims` are the dynamic sizes of the binding, in order.

    `%binding, offsets = [0], sizes = [%n], strides = [1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>{%n}
    -> tensor<?xf32>` loads all elements; `custom<Typed>` is the type with its dynamic sizes `{%n}`.
    """

    name = "iree_tensor_ext.dispatch.tensor.load"
    source = operand_def(DispatchTensorType)
    source_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoMemoryEffect())
    assembly_format = (
        f"$source `,` {_SLICE} attr-dict `:` custom<Typed>(type($source), $source_dims) `->` type($result)"
    )


@op_definition
class DispatchTensorStoreOp(_SliceOp):
    """Store to a slice of a dispatch binding. `target_dims` are the dynamic sizes of the binding, in order.

    `%value, %binding, offsets = [0], sizes = [%n], strides = [1] : tensor<?xf32> ->
    !iree_tensor_ext.dispatch.tensor<writeonly:tensor<?xf32>>{%n}` stores all elements; `custom<Typed>` is the type with
    its dynamic sizes `{%n}`.
    """

    name = "iree_tensor_ext.dispatch.tensor.store"
    value = operand_def()
    target = operand_def(DispatchTensorType)
    target_dims = var_operand_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        f"$value `,` $target `,` {_SLICE} attr-dict `:` type($value) `->` custom<Typed>(type($target), $target_dims)"
    )


@op_definition
class WorkloadOrdinalOp(IRDLOperation):
    """Identity that marks `operand`, an argument of a kernel, as value `ordinal` of the workload, counted from 0.

    The workload are the index values of a dispatch from which its grid is computed: %m and %n in
    `flow.dispatch @kernel[%m, %n](...)`.
    """

    name = "iree_tensor_ext.dispatch.workload.ordinal"
    operand = operand_def(IndexType)
    ordinal = prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$operand `,` $ordinal attr-dict `:` type($result)"


class _CountOp(IRDLOperation):
    """Base of operations that compute the grid, the workgroup counts x, y and z, from `operands_`: the workload, values
    such as tensor sizes that the host passes.

    The compiler replaces them by formulas that it derives from the kernel's own loops.
    """

    operands_ = var_operand_def(IndexType)
    x = result_def(IndexType)
    y = result_def(IndexType)
    z = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "`(` $operands_ `)` attr-dict"


@op_definition
class WorkgroupCountFromSliceOp(_CountOp):
    """Grid that the compiler derives from the loops of the kernel, whose bounds depend on the workload."""

    name = "iree_tensor_ext.dispatch.workgroup_count_from_slice"


@op_definition
class WorkgroupCountFromDagRootOp(_CountOp):
    """Grid that the compiler derives from the loops of the kernel.

    IREE derives it from the kernel's root, the operation that decides how the kernel is tiled.
    """

    name = "iree_tensor_ext.dispatch.workgroup_count_from_dag_root"


class _BarrierOp(IRDLOperation):
    """Base of identities on a tensor that act as barriers: computation is not moved across them. `source_dims` are the
    dynamic sizes of the tensor, as in `%a : tensor<?xf32>{%n} -> tensor<?xf32>`."""

    source = operand_def()
    source_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` custom<Typed>(type($source), $source_dims) `->` type($result)"


@op_definition
class ComputeBarrierStartOp(_BarrierOp):
    """Barrier before a computation, across which the compiler moves no operations."""

    name = "iree_tensor_ext.compute_barrier.start"


@op_definition
class ComputeBarrierEndOp(_BarrierOp):
    """Barrier after a computation, across which the compiler moves no operations."""

    name = "iree_tensor_ext.compute_barrier.end"


@op_definition
class BitCastOp(IRDLOperation):
    """Reinterpretation of a tensor's bytes as another type, `%source : T{%d} -> U{%e}`, where %d and %e are the dynamic
    sizes of both types."""

    name = "iree_tensor_ext.bitcast"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source attr-dict `:` custom<Typed>(type($source), $source_dims) `->` custom<Typed>(type($result), "
        "$result_dims)"
    )


TensorExt = Dialect(
    "iree_tensor_ext",
    [
        DispatchTensorLoadOp, DispatchTensorStoreOp, WorkloadOrdinalOp, WorkgroupCountFromSliceOp,
        WorkgroupCountFromDagRootOp, ComputeBarrierStartOp, ComputeBarrierEndOp, BitCastOp,
    ],
    [DispatchTensorType],
)  # fmt: skip
