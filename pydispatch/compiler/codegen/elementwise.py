"""An outlined group of elementwise operations → kernel IR.

All tensors have the same sizes and are dense, so the kernel sees them as flat buffers: a workgroup takes a run of
elements and its point loop is an `scf.parallel` over them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.affine import ApplyOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.codegen.tiles import elements_per_workgroup
from pydispatch.compiler.kernel import Binding, Layout
from pydispatch.compiler.words import bit_width, words_of
from pydispatch.errors import CompileError
from pydispatch.ir import hal
from pydispatch.ir.location import location_of, set_location


@dataclass(frozen=True)
class Kernel:
    """A generated entry point: its function in kernel IR, its interface, and its grid function."""

    function: func.FuncOp
    layout: Layout
    count: Region


class Builder:
    """Appends operations to a block, all with the location of one source operation."""

    def __init__(self, block: Block, source: Operation) -> None:
        self.block, self.source = block, source

    def add(self, op: Operation) -> SSAValue:
        set_location(op, self.source)
        self.block.add_op(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def index(self, value: int) -> SSAValue:
        return self.add(arith.ConstantOp.from_int_and_width(value, IndexType()))


def memory_type(element: Attribute, size: int) -> MemRefType[Attribute]:
    return MemRefType(element, [size])


def lower_elementwise(source: func.FuncOp, backend: str) -> Kernel:
    """Kernel IR of an outlined function.

    Its arguments are tensors, then scalars, then the number of elements when the sizes are dynamic; its results are
    tensors. The bindings are the tensors and the results, the constants are the rest.
    """
    body = source.body.block
    result_types = [t for t in source.function_type.outputs.data]
    tensors = [a for a in body.args if isinstance(a.type, TensorType)]
    scalars = [a for a in body.args if not isinstance(a.type, TensorType)]
    shape = result_types[0].get_shape()  # type: ignore[attr-defined]
    static = None
    if all(d >= 0 for d in shape):
        static = 1
        for d in shape:
            static *= d
    elements = [t.type.element_type for t in tensors] + [t.element_type for t in result_types]  # type: ignore[attr-defined]
    per_element = sum(max(1, (bit_width(e) or 64) // 8) for e in elements)
    tile = elements_per_workgroup(backend, per_element)

    block = Block()
    build = Builder(block, source)
    mapping: dict[SSAValue, SSAValue] = {}
    words = 0
    for scalar in scalars:
        load = hal.InterfaceConstantLoadOp(
            result_types=[scalar.type], properties={"ordinal": IntegerAttr(words, IndexType())}
        )
        mapping[scalar] = build.add(load)
        words += words_of(scalar.type, location_of(source))
    count = build.index(static) if static is not None else mapping[scalars[-1]]
    zero, one = build.index(0), build.index(1)

    def bind(ordinal: int, element: Attribute, read_only: bool) -> SSAValue:
        return build.add(
            hal.InterfaceBindingSubspanOp(
                operands=[[zero], [count] if static is None else []],
                result_types=[memory_type(element, DYNAMIC_INDEX if static is None else static)],
                properties={
                    "binding": IntegerAttr(ordinal, IndexType()),
                    "flags": ArrayAttr([StringAttr("ReadOnly")] if read_only else []),
                },
            )
        )

    inputs = [bind(i, e, i < len(tensors)) for i, e in enumerate(elements)]
    outputs = inputs[len(tensors) :]
    group = build.add(
        hal.InterfaceWorkgroupIDOp(result_types=[IndexType()], properties={"dimension": IntegerAttr(0, IndexType())})
    )
    low = build.add(arith.MuliOp(group, build.index(tile)))
    high = build.add(arith.MinSIOp(build.add(arith.AddiOp(low, build.index(tile))), count))
    point = Block(arg_types=[IndexType()])
    build.add(scf.ParallelOp([low], [high], [one], Region(point)))
    build.add(func.ReturnOp())

    inner = Builder(point, source)
    for tensor, buffer in zip(tensors, inputs, strict=False):
        mapping[tensor] = inner.add(memref.LoadOp.get(buffer, [point.args[0]]))
    for op in body.ops:
        inner.source = op
        if isinstance(op, func.ReturnOp):
            for value, buffer in zip(op.arguments, outputs, strict=True):
                inner.add(memref.StoreOp.get(mapping[value], buffer, [point.args[0]]))
        else:
            scalar_op = scalarize(op, mapping)
            inner.add(scalar_op)
            mapping.update(zip(op.results, scalar_op.results, strict=True))
    inner.add(scf.ReduceOp())
    function = func.FuncOp(source.sym_name.data, ([], []), Region(block))
    set_location(function, source)
    bindings = tuple(Binding(i < len(tensors)) for i in range(len(elements)))
    return Kernel(function, Layout(words, bindings), _count_region(static, tile, source))


def scalarize(op: Operation, mapping: dict[SSAValue, SSAValue]) -> Operation:
    """The same operation on single elements."""
    types = [r.type.element_type if isinstance(r.type, TensorType) else r.type for r in op.results]
    properties = dict(op.properties)
    if op.name == "arith.constant":
        properties["value"] = splat_element(op)
    new = type(op).create(
        operands=[mapping[v] for v in op.operands], result_types=types, properties=properties, attributes=op.attributes
    )
    set_location(new, op)
    return new


def splat_element(op: Operation) -> Attribute:
    """The element of a splat constant as a scalar attribute."""
    value = op.properties["value"]
    if not isinstance(value, DenseIntOrFPElementsAttr) or not value.is_splat():
        raise CompileError("a constant inside an elementwise dispatch must be a splat", location_of(op))
    return next(iter(value.iter_attrs()))


def _count_region(static: int | None, tile: int, source: Operation) -> Region:
    """`(%device, %elements) -> ceildiv(%elements, tile), 1, 1`, or constants."""
    block = Block(arg_types=[hal.DeviceType()] if static is not None else [hal.DeviceType(), IndexType()])
    build = Builder(block, source)
    one = build.index(1)
    if static is not None:
        x = build.index(-(-static // tile))
    else:
        expression = AffineExpr.symbol(0).ceil_div(AffineExpr.constant(tile))
        x = build.add(ApplyOp([block.args[1]], AffineMapAttr(AffineMap(0, 1, (expression,)))))
    build.add(hal.ReturnOp(operands=[[x, one, one]]))
    return Region(block)
