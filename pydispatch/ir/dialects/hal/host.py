"""`hal` operations of host code on devices, buffer views and fences: the compiled form of a function's boundary."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, StringAttr, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_attr_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.dialects.hal.device import BufferType, BufferViewType, DeviceType, FenceType

_VIEW = "`<` $buffer_view `:` type($buffer_view) `>`"
"""Operand of the operations on a buffer view, with its type, in angle brackets: `<%view : !hal.buffer_view>`."""


@op_definition
class BufferViewDimOp(IRDLOperation):
    """Size of dimension `index`, a static integer, of a buffer view."""

    name = "hal.buffer_view.dim"
    buffer_view = operand_def(BufferViewType)
    index = prop_def(Attribute)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = _VIEW + " `` `[` custom<Index>($index) `]` attr-dict `:` type($result)"


@op_definition
class BufferViewRankOp(IRDLOperation):
    """Rank of a buffer view."""

    name = "hal.buffer_view.rank"
    buffer_view = operand_def(BufferViewType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = _VIEW + " attr-dict `:` type($result)"


@op_definition
class BufferViewElementTypeOp(IRDLOperation):
    """Numeric code of a buffer view's element type, in IREE's numbering."""

    name = "hal.buffer_view.element_type"
    buffer_view = operand_def(BufferViewType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = _VIEW + " attr-dict `:` type($result)"


@op_definition
class BufferViewEncodingTypeOp(IRDLOperation):
    """Numeric code of a buffer view's encoding, in IREE's numbering."""

    name = "hal.buffer_view.encoding_type"
    buffer_view = operand_def(BufferViewType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = _VIEW + " attr-dict `:` type($result)"


@op_definition
class BufferViewBufferOp(IRDLOperation):
    """Buffer of a buffer view."""

    name = "hal.buffer_view.buffer"
    buffer_view = operand_def(BufferViewType)
    result = result_def(BufferType)
    traits = traits_def(Pure())
    assembly_format = _VIEW + " attr-dict `:` type($result)"


@op_definition
class BufferViewAssertOp(IRDLOperation):
    """Runtime assertion of a buffer view's shape, element type and encoding.

    `element_type` and `encoding_type` are the numeric codes of `ElementTypeOp` and `EncodingTypeOp`. `shape` has a size
    per dimension, and `message` names the view in errors.
    """

    name = "hal.buffer_view.assert"
    buffer_view = operand_def(BufferViewType)
    element_type = operand_def(i32)
    encoding_type = operand_def(i32)
    shape = var_operand_def(IndexType)
    message = prop_def(StringAttr)
    assembly_format = (
        _VIEW + " `message` `(` $message `)` `shape` `(` `[` $shape `]` `)` "
        "`type` `(` $element_type `)` `encoding` `(` $encoding_type `)` attr-dict"
    )


@op_definition
class ElementTypeOp(IRDLOperation):
    """Numeric code of the element type `type`, in IREE's numbering."""

    name = "hal.element_type"
    type = prop_def(Attribute)
    result = result_def(IntegerType)
    traits = traits_def(Pure())
    assembly_format = "`<` custom<TypeValue>($type) `>` attr-dict `:` type($result)"


@op_definition
class EncodingTypeOp(IRDLOperation):
    """Numeric code of an encoding, `dense_row_major` or `opaque`, in IREE's numbering."""

    name = "hal.encoding_type"
    encoding = prop_def(StringAttr)
    result = result_def(IntegerType)
    traits = traits_def(Pure())
    assembly_format = "`<` custom<Word>($encoding) `>` attr-dict `:` type($result)"


@op_definition
class FenceCreateOp(IRDLOperation):
    """Creation of an unsignaled fence. `flags` are IREE's, such as "None"."""

    name = "hal.fence.create"
    device = operand_def(DeviceType)
    flags = prop_def(StringAttr)
    result = result_def(FenceType)
    assembly_format = "`device` `(` $device `:` type($device) `)` `flags` `(` $flags `)` `:` type($result) attr-dict"


@op_definition
class FenceJoinOp(IRDLOperation):
    """Fence that is signaled when all of `fences` are signaled. `flags` are IREE's, such as "None"."""

    name = "hal.fence.join"
    fences = var_operand_def(FenceType)
    flags = opt_attr_def(Attribute)
    result = result_def(FenceType)
    assembly_format = "`at` `(` `[` $fences `]` `)` (`flags` `(` $flags^ `)`)? `->` type($result) attr-dict"


@op_definition
class FenceQueryOp(IRDLOperation):
    """Status query of a fence: 0 if it is signaled."""

    name = "hal.fence.query"
    fence = operand_def(FenceType)
    status = result_def(i32)
    assembly_format = "`<` $fence `:` type($fence) `>` attr-dict `:` type($status)"


@op_definition
class FenceSignalOp(IRDLOperation):
    """Signaling of a fence."""

    name = "hal.fence.signal"
    fence = operand_def(FenceType)
    assembly_format = "`<` $fence `:` type($fence) `>` attr-dict"


@op_definition
class FenceAwaitOp(IRDLOperation):
    """Blocking wait of the host until all fences are signaled, or for `timeout_millis`; `status` is 0 on success."""

    name = "hal.fence.await"
    fences = var_operand_def(FenceType)
    timeout_millis = operand_def(i32)
    flags = opt_attr_def(Attribute)
    status = result_def(i32)
    assembly_format = (
        "`until` `(` `[` $fences `]` `)` `timeout_millis` `(` $timeout_millis `)` (`flags` `(` $flags^ `)`)? "
        "attr-dict `:` type($status)"
    )


@op_definition
class DevicesGetOp(IRDLOperation):
    """Device with the ordinal `index`."""

    name = "hal.devices.get"
    index = operand_def(IndexType)
    result = result_def(DeviceType)
    traits = traits_def(Pure())
    assembly_format = "$index attr-dict `:` type($result)"


OPERATIONS: list[type[Operation]] = [
    BufferViewDimOp, BufferViewRankOp, BufferViewElementTypeOp, BufferViewEncodingTypeOp, BufferViewBufferOp,
    BufferViewAssertOp, ElementTypeOp, EncodingTypeOp, FenceCreateOp, FenceJoinOp, FenceQueryOp, FenceSignalOp,
    FenceAwaitOp, DevicesGetOp,
]  # fmt: skip
