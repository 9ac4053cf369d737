"""Types that only callers see: tensors of signed, unsigned or complex elements, as arguments and results of functions.

A program converts them with `builtin.unrealized_conversion_cast` to types that it computes with, and its results back.
Since the bytes are the same, the conversion becomes a `flow.tensor.bitcast`, for which host code does nothing.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType, IntegerType, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.ir.dialects.flow import tensors


def computed_type(type: TensorType[Attribute]) -> TensorType[Attribute]:
    """Return the type of the same bytes that programs compute on: without signs; a complex element is the two elements
    of a further, innermost axis, the real part first.
    """
    element, shape = type.element_type, list(type.get_shape())
    if isinstance(element, ComplexType):
        return TensorType(element.element_type, [*shape, 2])
    return TensorType(IntegerType(element.width.data), shape) if isinstance(element, IntegerType) else type


def _cast(op: Operation, build: Build) -> None:
    """Replace a cast between tensors that hold the same elements by a bitcast; a cast to the same type is dropped."""
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
    dims = build.dynamic_dims(op.operands[0])  # of both types: the pair of a complex number is a static size
    bitcast = tensors.TensorBitCastOp(operands=[op.operands[0], dims, dims], result_types=[target])
    build.replace(build.add(bitcast).result)


ROWS: dict[str, Row] = {"builtin.unrealized_conversion_cast": _cast}
