"""The same bits as elements of another size."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type, unsupported


def bits_of(type_: Attribute) -> int:
    """Bits of an element in memory: i1 takes a byte."""
    bits = bit_width(type_) or 8
    return 8 if bits == 1 else bits


def as_integer(build: Builder, value: SSAValue, bits: int) -> SSAValue:
    """The bits of an element as an integer."""
    type_ = value.type
    if isinstance(type_, IndexType):
        return build.pure(arith.IndexCastOp(value, IntegerType(64)))
    if isinstance(type_, IntegerType):
        return value if type_.width.data == bits else build.pure(arith.ExtUIOp(value, IntegerType(bits)))
    return build.pure(arith.BitcastOp(value, IntegerType(bits)))


def from_integer(build: Builder, value: SSAValue, type_: Attribute) -> SSAValue:
    """The element that these bits are."""
    if value.type == type_:
        return value
    if isinstance(type_, IndexType):
        return build.pure(arith.IndexCastOp(value, type_))
    if isinstance(type_, IntegerType):  # i1 from its byte
        zero = build.pure(arith.ConstantOp.from_int_and_width(0, value.type))  # type: ignore[arg-type]
        return build.pure(arith.CmpiOp(value, zero, "ne"))
    return build.pure(arith.BitcastOp(value, type_))


def pull_bitcast(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    """Low bits come first: an element of k source elements is their join, of a part of one its bits."""
    source = op.operands[0]
    have, want = tensor_type(source).element_type, tensor_type(value).element_type
    from_bits, to_bits = bits_of(have), bits_of(want)
    sizes, wanted = e.dims(source), e.dims(value)
    if from_bits == to_bits:
        where = indices if len(sizes) == len(wanted) else build.split(build.join(indices, wanted), sizes)
        return from_integer(build, as_integer(build, e.at(build, source, where), from_bits), want)
    number = build.join(indices, wanted)
    if to_bits > from_bits:
        if to_bits % from_bits:
            raise unsupported(op, f"{to_bits} bits are no multiple of {from_bits}")
        whole = IntegerType(to_bits)
        found: SSAValue | None = None
        for part in range(to_bits // from_bits):
            place = build.plus(build.times(number, to_bits // from_bits), part)
            piece = as_integer(build, e.at(build, source, build.split(place, sizes)), from_bits)
            piece = build.pure(arith.ExtUIOp(piece, whole))
            if part:
                shift = build.pure(arith.ConstantOp.from_int_and_width(part * from_bits, whole))
                piece = build.pure(arith.ShLIOp(piece, shift))
            found = piece if found is None else build.pure(arith.OrIOp(found, piece))
        assert found is not None
        return from_integer(build, found, want)
    if from_bits % to_bits:
        raise unsupported(op, f"{from_bits} bits are no multiple of {to_bits}")
    count = from_bits // to_bits
    element = as_integer(build, e.at(build, source, build.split(build.quotient(number, count), sizes)), from_bits)
    amount = build.value(build.times(build.remainder(number, count), to_bits))
    shift = build.pure(arith.IndexCastOp(amount, IntegerType(from_bits)))
    part_ = build.pure(arith.TruncIOp(build.pure(arith.ShRUIOp(element, shift)), IntegerType(to_bits)))
    return from_integer(build, part_, want)
