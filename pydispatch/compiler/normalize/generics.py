"""Creation of `linalg.generic` operations, which most conversions of this folder use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import AffineMapAttr, TensorType
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from pydispatch.compiler.normalize import bodies
from pydispatch.compiler.normalize.build import Build
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.dialects.linalg.structure import Structure


def generic(
    build: Build, structure: Structure, inputs: list[SSAValue], outputs: list[SSAValue], body: Region | Block,
    attributes: Mapping[str, Attribute] | None = None,
) -> list[SSAValue]:  # fmt: skip
    """Emit a `linalg.generic`, and return its results; none if its outputs are memrefs.

    Args:
        build: Receives the operation.
        structure: Indexing maps of inputs and outputs, and which loops are parallel.
        inputs: Inputs.
        outputs: Outputs, whose types are those of the results.
        body: Body, as a region or its only block.
        attributes: Further attributes of the operation, by name.
    """
    kinds = [IteratorTypeAttr.parallel() if p else IteratorTypeAttr.reduction() for p in structure.parallel]
    generic_op = ops.GenericOp(
        inputs, outputs, body if isinstance(body, Region) else Region(body), [AffineMapAttr(m) for m in structure.maps],
        kinds, [o.type for o in outputs if isinstance(o.type, TensorType)],
    )  # fmt: skip
    generic_op.attributes |= attributes or {}
    return list(build.add(generic_op).res)


def computed(
    build: Build, structure: Structure, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue],
    elements: Callable[..., Sequence[SSAValue]],
) -> list[SSAValue]:  # fmt: skip
    """Emit a `linalg.generic`, and return its results.

    elements: function of (builder of the body, element of each input, element of each output) that emits the body and
    returns an element for each result.
    """
    body = bodies.BodyBuilder([element_type(v.type) for v in (*inputs, *outputs)])
    body.finish(*elements(body, *body.block.args))
    return generic(build, structure, list(inputs), list(outputs), body.block)
