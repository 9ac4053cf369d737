"""Types that only callers see: tensors of signed, unsigned or complex elements, as arguments and results of functions.

A program converts them with `builtin.unrealized_conversion_cast` to types that it computes with, and its results back.
Since the bytes are the same, the conversion becomes a `flow.tensor.bitcast`, for which host code does nothing. The
conversion of a constant becomes a constant, which kernels may contain.
"""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import BytesAttr, ComplexType, DenseIntOrFPElementsAttr, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.ir.core.dense import element_bytes, is_splat
from pydispatch.ir.dialects.flow import tensors


def computed_type(type: TensorType[Attribute]) -> TensorType[Attribute]:
    """Return the type that programs compute on in place of `type`; its bytes are the same.

    Integers become signless: tensor<4xui32> is tensor<4xi32>. Complex elements become pairs along a new innermost axis,
    the real part first: tensor<4xcomplex<f32>> is tensor<4x2xf32>. Other types are returned as they are.
    """
    element, shape = type.element_type, list(type.get_shape())
    if isinstance(element, ComplexType):
        return TensorType(element.element_type, [*shape, 2])
    if isinstance(element, IntegerType):
        return TensorType(IntegerType(element.width.data), shape)
    return type


def _cast(op: Operation, build: Build) -> None:
    """Replace a cast between tensors that hold the same elements by a bitcast; a cast to the same type is dropped.

    Such casts change the sign of integers, tensor<4xui32> to tensor<4xi32>, or take complex numbers as pairs,
    tensor<4xcomplex<f32>> to tensor<4x2xf32>. A cast of a constant becomes a constant. Casts without tensors are kept.

    Raises:
        VerifyException: The tensors do not hold the same elements, or there are several.
    """
    types = [v.type for v in (*op.operands, *op.results)]
    tensor_types = [t for t in types if isinstance(t, TensorType)]
    if not tensor_types:
        return  # a cast of scalars or of values in kernels is kept
    if len(op.operands) != 1 or len(op.results) != 1 or len(tensor_types) != 2:
        raise VerifyException("of tensors, one is cast to one")
    source, target = tensor_types
    if source == target:
        build.replace(op.operands[0])
        return
    if computed_type(source) != computed_type(target):
        raise VerifyException(
            f"{source} and {target} are not the same elements; a cast of tensors changes the sign of integers, "
            "tensor<4xui32> to tensor<4xi32>, or takes complex numbers as pairs, tensor<4xcomplex<f32>> to "
            "tensor<4x2xf32>"
        )
    # A constant in the other type, or a bitcast.
    constant = _constant_of(op.operands[0], target)
    if constant is not None:
        build.replace(build.add(arith.ConstantOp(constant)).result)
        return
    dims = build.dynamic_dims(op.operands[0])  # the same for both types: the axis of pairs has the static size 2
    bitcast = tensors.TensorBitCastOp(operands=[op.operands[0], dims, dims], result_types=[target])
    build.replace(build.add(bitcast).result)


def _constant_of(value: SSAValue, target: TensorType[Any]) -> DenseIntOrFPElementsAttr[Any] | None:
    """Return the bytes of a constant tensor as a constant of the type `target`; None for other values.

    Return None also for a `target` with signed, unsigned or complex elements: callers of the program see such types,
    and its code computes on others (`computed_type`).
    """
    constant = value.op.properties.get("value") if isinstance(value, OpResult) else None
    if not isinstance(constant, DenseIntOrFPElementsAttr) or target != computed_type(target):
        return None
    data, element_type = constant.data.data, constant.type.element_type
    # A splat stores its element once. The splat of 1+2i becomes the pairs 1 2, 1 2, ..., which are no splat: all of
    # them are stored.
    if isinstance(element_type, ComplexType) and is_splat(constant):
        data = data[: element_bytes(element_type)] * prod(constant.type.get_shape())
    return DenseIntOrFPElementsAttr(target, BytesAttr(data))


ROWS: dict[str, Row] = {"builtin.unrealized_conversion_cast": _cast}
"""Name of an operation → function that replaces it."""
