"""Rules that replace named operations of linalg by `linalg.generic`: contractions, convolutions, poolings, fills ..."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from pydispatch.compiler.normalize import bodies
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import generic
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.dialects.linalg import named
from pydispatch.ir.dialects.linalg.base import StructuredOp, TypeFnAttr
from pydispatch.ir.dialects.linalg.named import ContractOp, ElementwiseOp, FillOp, NamedOp


def _named(op: Operation, build: Build) -> None:
    """Replace a named structured operation by the `linalg.generic` that it stands for.

    The body depends on the operation: a pooling such as a maximum, a sum of products (a matmul or convolution), or an
    elementwise function. Integers are widened with zeros if the operation states so, or its meaning does.
    """
    assert isinstance(op, StructuredOp)
    types = [element_type(v.type) for v in op.operands]
    unsigned = isinstance(op.cast, TypeFnAttr) and op.cast.data == "cast_unsigned"
    if isinstance(op, NamedOp | ContractOp):
        meaning = op.meaning  # the row of the operation in the table of named operations: its body, for example
        unsigned = unsigned or meaning.unsigned
        if meaning.body.startswith("pool_"):
            body = bodies.pooling(types, meaning.body.removeprefix("pool_"), unsigned)
        else:
            body = bodies.product_sum(types, unsigned)
    else:
        assert isinstance(op, ElementwiseOp)
        # Of the elementwise operations, only these may have inputs of other types than the output.
        casts = op.name in ("linalg.copy", "linalg.elemwise_unary", "linalg.elemwise_binary")
        body = bodies.elementwise(types, op.function(), cast=casts, unsigned=unsigned)
    # The attribute in which MLIR caches the indexing maps is dropped: a generic states its maps itself.
    kept_attributes = {name: value for name, value in op.attributes.items() if name != "linalg.memoized_indexing_maps"}
    build.replace(*generic(build, op.structure(), list(op.inputs), list(op.outputs), body, kept_attributes))


def _fill(op: Operation, build: Build) -> None:
    """Replace `linalg.fill` by a `tensor.splat`, or by a `linalg.generic` if it fills a memref.

    The filled value is cast to the element type of the output.
    """
    assert isinstance(op, FillOp)
    value, output = op.inputs[0], op.outputs[0]
    if not isinstance(output.type, TensorType):
        body = bodies.elementwise([element_type(v.type) for v in op.operands], "copy", cast=True, unsigned=False)
        generic(build, op.structure(), [value], [output], body)
        build.replace()  # no values: a fill of a memref has no result
        return
    if isinstance(value.type, TensorType):  # of rank 0
        value = build.add(tensor.ExtractOp(value, [], value.type.element_type)).result
    cast = bodies.cast_operation(value, output.type.element_type, unsigned=False)
    if cast is not None:
        value = build.add(cast).results[0]
    build.replace(build.add(tensor.SplatOp(value, build.dynamic_dims(output), output.type)).result)


ROWS: dict[str, Row] = {**{op.name: _named for op in named.OPERATIONS}, "linalg.fill": _fill}
"""Name of an operation → function that replaces it."""
