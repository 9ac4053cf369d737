"""Rules for tensors of bits of which eight share a byte, `tensor<…xi1, #iree_encoding.packed_storage>`.

Here each i1 has a byte of memory, with this encoding, too. The order of bits in bytes matters only where such a tensor
is reinterpreted as one of another type, or the reverse: there the bits are packed or unpacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FixedBitwidthType, TensorType, i1, i8
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.normalize.bodies import BodyBuilder
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import generic
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.flow import tensors
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure

_ENCODING = "iree_encoding.packed_storage"
"""Encoding of a tensor type whose elements are packed bits."""
_MAP_OF_BITS = AffineMap.identity(2)
"""Indexing map of the bits, `tensor<count x 8 x i1>`, in generics that pack or unpack: (byte, bit) -> (byte, bit)."""
_MAP_OF_BYTES = AffineMap(2, 0, (AffineExpr.dimension(0),))
"""Indexing map of the bytes, `tensor<count x i8>`, in these generics: (byte, bit) -> (byte)."""


def is_packed(type: Attribute) -> bool:
    """Return whether a type is a tensor of i1 whose encoding states that eight elements share a byte."""
    return isinstance(type, TensorType) and type.element_type == i1 and _ENCODING in str(type.encoding)


def _retyped(
    build: Build, value: SSAValue, type: TensorType[Any], *, dims: Sequence[SSAValue] = (),
    result_dims: Sequence[SSAValue] = (),
) -> SSAValue:  # fmt: skip
    """Return a tensor with the bytes of `value` as another type; `value` itself if it has the type.

    A change of shape alone is a reshape, one of elements a bitcast.

    Args:
        build: Emits the operation.
        value: The tensor.
        type: The type of the result.
        dims: The dynamic sizes of `value`; empty for a static shape.
        result_dims: The dynamic sizes of the result.
    """
    if value.type == type:
        return value
    has_same_elements = isinstance(value.type, TensorType) and value.type.element_type == type.element_type
    kind = tensors.TensorReshapeOp if has_same_elements else tensors.TensorBitCastOp
    return build.add(kind(operands=[value, list(dims), list(result_dims)], result_types=[type])).result


def _packed_bytes(type: TensorType[Any]) -> int:
    """Return the number of bytes of packed bits; VerifyException unless they have static sizes and fill whole bytes."""
    bits = prod(type.get_shape())
    if DYNAMIC in type.get_shape() or bits % 8:
        raise VerifyException(f"packed bits fill whole bytes and have static sizes here, got {type}")
    return bits // 8


def _require_same_bytes(other: TensorType[Any], packed: TensorType[Any], count: int) -> None:
    """Raise VerifyException unless `other`, the unpacked type of a bitcast, has as many bytes as the packed bits.

    Types with dynamic sizes, and those of elements without a fixed width, are not checked.

    Args:
        other: The type that packed bits are cast to or from; its elements are not packed.
        packed: The type of the packed bits, for the message.
        count: The number of bytes of the packed bits.
    """
    element = other.element_type
    if DYNAMIC in other.get_shape() or not isinstance(element, FixedBitwidthType):
        return
    bits = 8 if element == i1 else element.bitwidth  # an i1 that is not packed has a byte of its own
    size = -(-prod(other.get_shape()) * bits // 8)  # rounded up to whole bytes
    if size != count:
        raise VerifyException(f"{other} has {size} bytes, {packed} has {count}")


def _unpacked(build: Build, value: SSAValue, count: int) -> SSAValue:
    """Unpack bytes, `tensor<count x i8>`, into bits, `tensor<count x 8 x i1>`, the lowest bit of a byte first."""
    body = BodyBuilder([i8, i1])  # parameters: a byte, and the initial value of the bit, which is not used
    bit_index = body.add(arith.IndexCastOp(body.add(IndexOp(1)), i8))
    shifted = body.add(arith.ShRUIOp(body.block.args[0], bit_index))
    body.finish(body.add(arith.TruncIOp(shifted, i1)))
    out = build.empty(TensorType(i1, [count, 8]), [])
    structure = Structure((_MAP_OF_BYTES, _MAP_OF_BITS), parallel=(True, True))
    (bits,) = generic(build, structure, [value], [out], body.block)
    return bits


def _packed(build: Build, value: SSAValue, count: int) -> SSAValue:
    """Pack bits, `tensor<count x 8 x i1>`, into bytes, `tensor<count x i8>`, by a reduction over the 8 bits of a byte.

    Bit i of a byte is element i.
    """
    body = BodyBuilder([i1, i8])  # parameters: a bit, and the byte with the bits before it, at first 0
    bit_index = body.add(arith.IndexCastOp(body.add(IndexOp(1)), i8))
    bit = body.add(arith.ShLIOp(body.add(arith.ExtUIOp(body.block.args[0], i8)), bit_index))
    body.finish(body.add(arith.OrIOp(body.block.args[1], bit)))
    zero = build.add(tensor.SplatOp(build.scalar(0, i8), [], TensorType(i8, [count]))).result
    structure = Structure((_MAP_OF_BITS, _MAP_OF_BYTES), parallel=(True, False))
    (packed,) = generic(build, structure, [value], [zero], body.block)
    return packed


def _bitcast(op: Operation, build: Build) -> None:
    """Replace a bitcast from or to packed bits, eight of which share a byte, by packing or unpacking of bytes.

    Here each i1 has a byte of memory: the bits b0 to b15 of `tensor<16xi1, #packed>` have 16 bytes. A bitcast to
    `tensor<2xi8>` packs them, with b0 as the lowest bit of byte 0; the reverse one unpacks. A bitcast between two
    packed types only changes the shape. Other bitcasts are kept.
    """
    assert isinstance(op, tensors.TensorBitCastOp)
    source, target = (cast("TensorType[Any]", v.type) for v in (op.source, op.result))
    if not is_packed(source) and not is_packed(target):
        return
    if is_packed(source) and is_packed(target):  # the order of the bits is the same in both
        reshape = tensors.TensorReshapeOp(
            operands=[op.source, list(op.source_dims), list(op.result_dims)], result_types=[target]
        )
        build.replace(build.add(reshape).result)
    elif is_packed(target):
        # The source as bytes, then as [bytes, 8] bits, then in the shape of the target.
        count = _packed_bytes(target)
        _require_same_bytes(source, target, count)
        bytes_ = _retyped(build, op.source, TensorType(i8, [count]), dims=op.source_dims)
        build.replace(_retyped(build, _unpacked(build, bytes_, count), target))  # packed types have no dynamic sizes
    else:
        # The source as [bytes, 8] bits, then as bytes, then as the target.
        count = _packed_bytes(source)
        _require_same_bytes(target, source, count)
        bits = _retyped(build, op.source, TensorType(i1, [count, 8]))
        build.replace(_retyped(build, _packed(build, bits, count), target, result_dims=op.result_dims))


def _refuse_packed_bits(op: Operation, build: Build) -> None:
    """Raise VerifyException for a kernel that takes or returns packed bits.

    The kernel is the user's code and expects one byte for each element.
    """
    for value in (*op.operands, *op.results):
        if is_packed(value.type):
            raise VerifyException(
                f"a kernel does not get packed bits, {value.type}; give it bytes: flow.tensor.bitcast … -> tensor<…xi8>"
            )


ROWS: dict[str, Row] = {
    "flow.tensor.bitcast": _bitcast,
    "flow.dispatch": _refuse_packed_bits,
    "hal.dispatch.extern": _refuse_packed_bits,
    "iree_codegen.ukernel.generic": _refuse_packed_bits,
}
"""Name of an operation → function that replaces it."""
