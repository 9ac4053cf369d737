"""Conversion of `flow.tensor.*` to operations of `tensor`, and of all forms of constants to `arith.constant` and
globals.
"""

from __future__ import annotations

from itertools import count

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects import iree_tensor_ext
from pydispatch.ir.dialects.flow import slices, tensors
from pydispatch.ir.dialects.flow.parameter import FlowParameterAttr, ParameterAttr, StreamParameterAttr
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.dialects.util import dialect as util
from pydispatch.ir.dialects.util import scalars
from pydispatch.ir.op_info import listed


def _forward(op: Operation, build: Build) -> None:
    """Replace a clone, a transfer to a device, a stated shape or a barrier by its operand.

    Tensors are values, and there is only one device.
    """
    build.replace(op.operands[0])


def _drop(op: Operation, build: Build) -> None:
    """Remove the operation. A trace operation has no result, and the compiler has no output for it."""
    build.replace()


def _splat(op: Operation, build: Build) -> None:
    """Replace a splat of `flow` by one of `tensor`."""
    assert isinstance(op, tensors.TensorSplatOp) and isinstance(op.result.type, TensorType)
    build.replace(build.add(tensor.SplatOp(op.value, list(op.result_dims), op.result.type)).result)


def _empty(op: Operation, build: Build) -> None:
    """Replace a tensor without defined elements by `tensor.empty`."""
    assert isinstance(op, tensors.TensorEmptyOp | tensors.TensorAllocaOp)
    build.replace(build.add(tensor.EmptyOp(list(op.result_dims), op.result.type)).tensor)


def _sizes(type: Attribute, dims: list[SSAValue]) -> list[SSAValue | int]:
    """Return the sizes of a tensor type: numbers, and values out of `dims` for the dynamic ones."""
    assert isinstance(type, TensorType)
    dynamic = iter(dims)
    return [next(dynamic) if size == DYNAMIC else size for size in type.get_shape()]


def _slice(op: Operation, build: Build) -> None:
    """Replace `flow.tensor.slice` by `tensor.extract_slice`."""
    assert isinstance(op, slices.TensorSliceOp)
    sizes = [
        static if isinstance(static, int) else length
        for static, length in zip(_sizes(op.result.type, list(op.result_dims)), op.lengths, strict=True)
    ]
    extract = tensor.ExtractSliceOp(op.source, list(op.start_indices), sizes, [1] * len(sizes), op.result.type)
    build.replace(build.add(extract).result)


def _update(op: Operation, build: Build) -> None:
    """Replace `flow.tensor.update` by `tensor.insert_slice`."""
    assert isinstance(op, slices.TensorUpdateOp)
    sizes = _sizes(op.update.type, list(op.update_dims))
    statics = {
        "static_offsets": [DYNAMIC] * len(sizes),
        "static_sizes": [size if isinstance(size, int) else DYNAMIC for size in sizes],
        "static_strides": [1] * len(sizes),
    }
    dynamic = [size for size in sizes if not isinstance(size, int)]
    insert = tensor.InsertSliceOp.build(
        operands=[op.update, op.target, list(op.start_indices), dynamic, []], result_types=[op.result.type],
        properties={key: DenseArrayBase.from_list(i64, values) for key, values in statics.items()},
    )  # fmt: skip
    build.replace(build.add(insert).result)


def _load(op: Operation, build: Build) -> None:
    """Replace `flow.tensor.load` by an extraction of the element."""
    assert isinstance(op, slices.TensorLoadOp) and isinstance(op.source.type, TensorType)
    if op.result.type != op.source.type.element_type:
        raise VerifyException(f"one element is loaded, not {op.result.type}")
    build.replace(build.add(tensor.ExtractOp(op.source, list(op.indices), op.result.type)).result)


def _store(op: Operation, build: Build) -> None:
    """Replace a store of one element by `tensor.insert`."""
    assert isinstance(op, slices.TensorStoreOp)
    build.replace(build.add(tensor.InsertOp(op.value, op.target, list(op.indices))).result)


def _cast(build: Build, value: SSAValue, type: Attribute) -> SSAValue:
    """Return a constant, cast to a type with dynamic sizes unless it has that type."""
    assert isinstance(type, TensorType) or value.type == type
    return value if value.type == type else build.add(tensor.CastOp(value, type)).dest  # type: ignore[arg-type]


def _constant(op: Operation, build: Build) -> None:
    """Replace a constant of `flow` by one of `arith`, with a cast if its type has dynamic sizes."""
    assert isinstance(op, tensors.TensorConstantOp)
    build.replace(_cast(build, _value(build, op.value), op.result.type))


def _hidden_constant(op: Operation, build: Build) -> None:
    """Replace a constant that must not be folded by an ordinary one behind an optimization barrier."""
    assert isinstance(op, tensors.TensorDynamicConstantOp | scalars.UnfoldableConstantOp)
    value = _value(build, op.value)
    barrier = scalars.OptimizationBarrierOp(operands=[[value]], result_types=[[value.type]])
    build.replace(_cast(build, build.add(barrier).results[0], op.result.type))


def _value(build: Build, value: Attribute) -> SSAValue:
    """Emit a constant, or for a parameter, a tensor that is stored outside of the program, the load of its global."""
    if isinstance(value, ParameterAttr):
        name = parameter_global(build.op, value)
        return build.add(
            util.GlobalLoadOp(result_types=[value.type], properties={"global": SymbolRefAttr(name)})
        ).result
    type = value.type if isinstance(value, NumPyArrayAttr) else None  # None: xDSL reads the type of its own attributes
    return build.add(arith.ConstantOp(value, type)).result  # type: ignore[arg-type]


def parameter_global(op: Operation, value: ParameterAttr) -> str:
    """Return the name of the private global that holds a parameter; add the global to the module if there is none.

    A parameter is a tensor that is stored outside of the program, under a scope and a key. A new global is named
    `__parameter_N`, with the first free N from the number of globals on.

    op: an operation of the module.
    """
    module: Operation | None = op
    while module is not None and not isinstance(module, ModuleOp):
        module = module.parent_op()
    assert isinstance(module, ModuleOp)
    value = FlowParameterAttr(value.scope, value.key, value.config, value.type)  # one form for `flow` and `stream`
    # The global that has the parameter already, if it is never written.
    names = set()
    for other in module.body.block.ops:
        if isinstance(other, util.GlobalOp):
            names.add(other.sym_name.data)
            if other.initial_value == value and other.is_mutable is None:
                return other.sym_name.data
    # A new one, with a name that is free.
    candidates = (f"__parameter_{n}" for n in count(len(names)))
    name = next(candidate for candidate in candidates if candidate not in names)
    global_op = util.GlobalOp(
        properties={
            "sym_name": StringAttr(name), "sym_visibility": StringAttr("private"), "type": value.type,
            "initial_value": value,
        }
    )  # fmt: skip
    global_op.location = op.location
    first = module.body.block.first_op
    assert first is not None
    module.body.block.insert_op_before(global_op, first)
    return name


def _bitcast(op: Operation, build: Build) -> None:
    """Replace `iree_tensor_ext.bitcast` by that of `flow`."""
    assert isinstance(op, iree_tensor_ext.BitCastOp)
    bitcast = tensors.TensorBitCastOp(
        operands=[op.source, list(op.source_dims), list(op.result_dims)], result_types=[op.result.type]
    )
    build.replace(build.add(bitcast).result)


def _arith_constant(op: Operation, build: Build) -> None:
    """Replace an `arith.constant` whose value is a parameter, a tensor outside of the program, by a load of its
    global.
    """
    value = op.properties.get("value")
    if isinstance(value, ParameterAttr):
        build.replace(_value(build, value))


def _global(op: Operation, build: Build) -> None:
    """Normalize the initial value of a global: parameters to one form, uninitialized tensors to zero.

    An uninitialized tensor of dynamic size gets no initial value: the first store states its sizes.
    """
    assert isinstance(op, util.GlobalOp)
    value = op.initial_value
    if isinstance(value, StreamParameterAttr):
        op.properties["initial_value"] = FlowParameterAttr(value.scope, value.key, value.config, value.type)
    elif isinstance(value, scalars.UninitializedAttr):
        if not isinstance(op.type, TensorType):
            raise VerifyException(f"a global of {op.type} has no initial value")
        if op.type.has_static_shape():
            op.properties["initial_value"] = DenseIntOrFPElementsAttr.from_list(op.type, [0])
        else:
            del op.properties["initial_value"]


ROWS: dict[str, Row] = {
    # Operations without side effects whose result is their operand, by the table in op_info.py.
    **dict.fromkeys(listed(lambda info: info.forwards and info.is_pure), _forward),
    "flow.tensor.trace": _drop,
    "flow.tensor.splat": _splat,
    "flow.tensor.empty": _empty,
    "flow.tensor.alloca": _empty,
    "flow.tensor.slice": _slice,
    "flow.tensor.update": _update,
    "flow.tensor.load": _load,
    "flow.tensor.store": _store,
    "flow.tensor.constant": _constant,
    "flow.tensor.dynamic_constant": _hidden_constant,
    "util.unfoldable_constant": _hidden_constant,
    "iree_tensor_ext.bitcast": _bitcast,
    "arith.constant": _arith_constant,
    "util.global": _global,
}
"""Name of an operation → function that replaces it."""
