"""Contractions, convolutions, poolings, elementwise operations and fills, by the tables of `ir.linalg_table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AffineMapAttr, TensorType
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.normalize import bodies
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.dialects.linalg import named
from pydispatch.ir.dialects.linalg.base import StructuredOp, TypeFnAttr
from pydispatch.ir.dialects.linalg.named import ContractOp, ElementwiseOp, FillOp, NamedOp
from pydispatch.ir.dialects.linalg.structure import Structure


def generic(
    build: Build, structure: Structure, inputs: list[SSAValue], outputs: list[SSAValue], body: Region | Block,
    attributes: Mapping[str, Attribute] | None = None,
) -> list[SSAValue]:  # fmt: skip
    """A `linalg.generic` and its results; none on memrefs."""
    kinds = [IteratorTypeAttr.parallel() if p else IteratorTypeAttr.reduction() for p in structure.parallel]
    made = ops.GenericOp(
        inputs, outputs, body if isinstance(body, Region) else Region(body), [AffineMapAttr(m) for m in structure.maps],
        kinds, [o.type for o in outputs if isinstance(o.type, TensorType)],
    )  # fmt: skip
    made.attributes |= attributes or {}
    return list(build.add(made).res)


def computed(
    build: Build, structure: Structure, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue],
    elements: Callable[..., Sequence[SSAValue]],
) -> list[SSAValue]:  # fmt: skip
    """A `linalg.generic` and its results. elements: from the body and an element of each operand, those of the
    results."""
    body = bodies.Body([element_type(v.type) for v in (*inputs, *outputs)])
    body.finish(*elements(body, *body.block.args))
    return generic(build, structure, list(inputs), list(outputs), body.block)


def _named(op: Operation, build: Build) -> None:
    assert isinstance(op, StructuredOp)
    types = [element_type(v.type) for v in op.operands]
    unsigned = isinstance(op.cast, TypeFnAttr) and op.cast.data == "cast_unsigned"
    if isinstance(op, NamedOp | ContractOp):
        meaning = op.meaning
        unsigned = unsigned or meaning.unsigned
        if meaning.body.startswith("pool_"):
            body = bodies.pooling(types, meaning.body.removeprefix("pool_"), unsigned)
        else:
            body = bodies.product_sum(types, unsigned)
    else:
        assert isinstance(op, ElementwiseOp)
        casts = op.name in ("linalg.copy", "linalg.elemwise_unary", "linalg.elemwise_binary")
        body = bodies.elementwise(types, op.function(), casts, unsigned)
    kept = {name: value for name, value in op.attributes.items() if name != "linalg.memoized_indexing_maps"}
    build.replace(*generic(build, op.structure(), list(op.inputs), list(op.outputs), body, kept))


def _fill(op: Operation, build: Build) -> None:
    assert isinstance(op, FillOp)
    value, output = op.inputs[0], op.outputs[0]
    if not isinstance(output.type, TensorType):
        body = bodies.elementwise([element_type(v.type) for v in op.operands], "copy", True, False)
        generic(build, op.structure(), [value], [output], body)
        build.replace()
        return
    if isinstance(value.type, TensorType):
        value = build.add(tensor.ExtractOp(value, [], value.type.element_type)).result
    cast = bodies.cast_operation(value, output.type.element_type, False)
    if cast is not None:
        value = build.add(cast).results[0]
    build.replace(build.add(tensor.SplatOp(value, build.dynamic_dims(output), output.type)).result)


ROWS: dict[str, Row] = {**{op.name: _named for op in named.OPERATIONS}, "linalg.fill": _fill}
