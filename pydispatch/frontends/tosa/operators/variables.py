"""Conversions of variables, tensors that persist across calls: globals of the program."""

from __future__ import annotations

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Operation

from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.frontends.tosa.types import dtype_of, shape_of
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.tosa.control import VariableOp
from pydispatch.ir.dialects.util.dialect import GlobalLoadOp, GlobalOp, GlobalStoreOp


def declare(tracer: TosaTracer, op: VariableOp) -> None:
    """Declare a mutable global of the program for a variable; without an initial value it is zero.

    Raise CompileError if the variable has a dynamic size.
    """
    with tracer.b.at(op):
        dtype, shape = dtype_of(op.type, location_of(op)), shape_of(op.type) or []
        sizes = [n for n in shape if n is not None]
        if len(sizes) != len(shape):
            raise tracer.b.fail(f"the variable @{op.sym_name.data} is {op.type}, whose sizes are not known")
        type = tensor_type(dtype.element, sizes)
        value = op.initial_value
        # One zero element is a splat, which stands for all elements.
        data = value.data.data if isinstance(value, DenseIntOrFPElementsAttr) else bytes(dtype.numpy.itemsize)
        global_op = GlobalOp(
            properties={"sym_name": StringAttr(op.sym_name.data), "sym_visibility": StringAttr("private"),
                        "is_mutable": UnitAttr(), "type": type,
                        "initial_value": DenseIntOrFPElementsAttr(type, BytesAttr(data))}  # type: ignore[type-var]
        )  # fmt: skip
        global_op.location = op.location
        tracer.b.module.body.block.add_op(global_op)


def _symbol(tracer: TosaTracer, op: Operation) -> SymbolRefAttr:
    """Return the symbol of the variable that an operation refers to. Raise CompileError if it is not declared."""
    name = op.properties["name"]
    assert isinstance(name, SymbolRefAttr)
    declared = {g.sym_name.data for g in tracer.b.module.ops if isinstance(g, GlobalOp)}
    if name.root_reference.data not in declared:
        raise tracer.b.fail(f"there is no tosa.variable @{name.root_reference.data}")
    return name


def _declared_type(tracer: TosaTracer, name: SymbolRefAttr) -> object:
    """Return the tensor type of a declared variable, which the symbol `name` refers to."""
    return next(g.type for g in tracer.b.module.ops if isinstance(g, GlobalOp) and g.sym_name == name.root_reference)


def _read(tracer: TosaTracer, op: Operation) -> Results:
    """Return the current value of a variable."""
    name = _symbol(tracer, op)
    type = _declared_type(tracer, name)
    load = tracer.b.add(GlobalLoadOp(properties={"global": name}, result_types=[type]))  # type: ignore[list-item]
    shape = [n for n in shape_of(load.result.type) or () if n is not None]
    return tracer.b.wrap(dtype_of(op.results[0].type), shape, load.result)


def _write(tracer: TosaTracer, op: Operation, x: Tensor) -> Results:
    """Write a tensor to a variable. Raise CompileError if its type is not that of the variable."""
    name = _symbol(tracer, op)
    value = tracer.b.value(x)
    if value.type != (type := _declared_type(tracer, name)):
        raise tracer.b.fail(f"{x} is written to @{name.root_reference.data}, which holds {type}")
    tracer.b.add(GlobalStoreOp(operands=[value], properties={"global": name}))
    return []


# Variables are declared before the functions are traced, so `tosa.variable` itself emits nothing. The names with a
# second dot are those of older releases.
ROWS: dict[str, Convert] = {
    "tosa.variable": lambda t, op: [], "tosa.variable_read": _read, "tosa.variable.read": _read,
    "tosa.variable_write": _write, "tosa.variable.write": _write,
}  # fmt: skip
