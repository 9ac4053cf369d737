"""The sizes of every tensor value of a dispatch function, one rule per operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, TensorType
from xdsl.dialects.builtin import ArrayAttr as ArrayAttribute
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.ops.builder import Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import known_index, tensor_type, unsupported
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.structured import structured


def mixed(e: Elements, static: Any, dynamic: Sequence[SSAValue]) -> list[Index]:
    """A list of integers with values where it says dynamic."""
    rest = iter(dynamic)
    return [e.index(next(rest)) if n == DYNAMIC_INDEX else int(n) for n in static.get_values()]


def groups_of(op: Operation) -> list[list[int]]:
    """The reassociation of a reshape."""
    found = op.properties.get("reassociation", op.attributes.get("reassociation"))
    assert isinstance(found, ArrayAttribute)
    return [[int(i.value.data) for i in group.data] for group in found.data]


def dims_of(e: Elements, value: SSAValue) -> list[Index]:
    """The sizes of `value`: integers where its type has them, else what its operation says."""
    shape = tensor_type(value).get_shape()
    if all(size >= 0 for size in shape):
        return list(shape)
    if not isinstance(value, OpResult):
        for use in value.uses:
            if use.operation.name == "flow.dispatch.tie_shape" and use.index == 0:
                return e.dims(use.operation.results[0])
        raise CompileError(
            f"the sizes of argument {getattr(value, 'index', '?')} ({value.type}) are not stated",
            location_of(e.source),
            "a dynamic argument of a dispatch goes through flow.dispatch.tie_shape first",
        )
    op: Any = value.op
    if op.name in RULES:
        found = RULES[op.name](e, op, value)
    elif op.name.startswith(("arith.", "math.")):
        found = _same(e, op, [v for v in op.operands if isinstance(v.type, TensorType)])
    else:
        raise unsupported(op, "its sizes are not known")
    return [have if size < 0 else size for size, have in zip(shape, found, strict=True)]


def _same(e: Elements, op: Operation, values: Sequence[SSAValue]) -> list[Index]:
    """Sizes that several values share: the ones known while compiling."""
    if not values:
        raise unsupported(op, "its sizes are not known")
    sizes = e.dims(values[0])
    for other in values[1:]:
        if any(not isinstance(s, int) for s in sizes):
            sizes = [o if isinstance(o, int) else s for s, o in zip(sizes, e.dims(other), strict=True)]
    return sizes


def _source(e: Elements, op: Any, value: OpResult) -> list[Index]:
    return e.dims(op.operands[0])


def _destination(e: Elements, op: Any, value: OpResult) -> list[Index]:
    return e.dims(op.dest)


def _in_order(position: int, shape_of: str = "") -> Callable[[Elements, Any, OpResult], list[Index]]:
    """Dynamic sizes are operands from `position` on, one per open dimension."""

    def rule(e: Elements, op: Any, value: OpResult) -> list[Index]:
        rest = iter(op.operands[position:])
        shape = tensor_type(value).get_shape()
        return [e.index(next(rest)) if size < 0 else size for size in shape]

    return rule


def _tie(e: Elements, op: Any, value: OpResult) -> list[Index]:
    return _in_order(1)(e, op, value)


def _flow_reshape(e: Elements, op: Any, value: OpResult) -> list[Index]:
    count = sum(size < 0 for size in tensor_type(value).get_shape())
    return _in_order(len(op.operands) - count)(e, op, value)


def _generic(e: Elements, op: Any, value: OpResult) -> list[Index]:
    return e.dims(structured(op).outputs[value.index])


def slice_sizes(e: Elements, op: Any) -> list[Index]:
    return mixed(e, op.static_sizes, op.sizes)


def kept_dimensions(full: Sequence[Index], type_: TensorType[Any]) -> list[int]:
    """Which dimensions of a slice its rank-reduced type keeps. Which of several units go makes no difference."""
    wanted = type_.get_shape()
    drop = len(full) - len(wanted)
    kept: list[int] = []
    for number, size in enumerate(full):
        position = len(kept)
        fits = position < len(wanted) and wanted[position] == (size if isinstance(size, int) else DYNAMIC_INDEX)
        if drop and size == 1 and not fits:
            drop -= 1
        else:
            kept.append(number)
    return kept[: len(wanted)]


def _extract_slice(e: Elements, op: Any, value: OpResult) -> list[Index]:
    sizes = slice_sizes(e, op)
    return [sizes[i] for i in kept_dimensions(sizes, tensor_type(value))]


def expanded(e: Elements, op: Any) -> list[Index]:
    """The sizes of an expand_shape: stated ones, and the one open size of a group as a quotient."""
    shape = tensor_type(op.results[0]).get_shape()
    if "static_output_shape" in op.properties:
        return mixed(e, op.static_output_shape, op.dynamic_output_shape)
    sizes: list[Index] = list(shape)
    for group, whole in zip(groups_of(op), e.dims(op.operands[0]), strict=True):
        open_ = [i for i in group if shape[i] < 0]
        if len(open_) > 1:
            raise unsupported(op, "several sizes of one group are open; give output_shape")
        for i in open_:
            sizes[i] = e.entry.quotient(whole, e.entry.product([shape[j] for j in group if j != i]))
    return sizes


def _expand(e: Elements, op: Any, value: OpResult) -> list[Index]:
    return expanded(e, op)


def _collapse(e: Elements, op: Any, value: OpResult) -> list[Index]:
    sizes = e.dims(op.operands[0])
    return [e.entry.product([sizes[i] for i in group]) for group in groups_of(op)]


def _reshape(e: Elements, op: Any, value: OpResult) -> list[Index]:
    from xdsl.dialects import arith

    found: list[Index] = []
    for position in range(tensor_type(value).get_num_dims()):
        size = e.at(e.entry, op.shape, [position])
        same = isinstance(size.type, IndexType)
        found.append(size if same else e.entry.pure(arith.IndexCastOp(size, IndexType())))
    return found


def pad_amounts(e: Elements, op: Any) -> tuple[list[Index], list[Index]]:
    return mixed(e, op.static_low, op.low), mixed(e, op.static_high, op.high)


def _pad(e: Elements, op: Any, value: OpResult) -> list[Index]:
    low, high = pad_amounts(e, op)
    add = e.entry.plus
    return [add(add(a, size), b) for a, size, b in zip(low, e.dims(op.source), high, strict=True)]


def _concat(e: Elements, op: Any, value: OpResult) -> list[Index]:
    axis = int(op.dim.value.data)
    sizes = list(_same(e, op, list(op.operands)))
    total: Index = 0
    for operand in op.operands:
        total = e.entry.plus(total, e.dims(operand)[axis])
    sizes[axis] = total
    return sizes


def gathered(op: Any) -> tuple[list[int], bool]:
    """The dimensions that a gather or scatter picks in, and whether the slices have lost them."""
    dims = op.gather_dims if op.name == "tensor.gather" else op.scatter_dims
    picked = [int(d) for d in dims.get_values()]
    whole, slices = (op.source, op.results[0]) if op.name == "tensor.gather" else (op.dest, op.source)
    batch = tensor_type(op.indices).get_num_dims() - 1
    kept = tensor_type(slices).get_num_dims() - batch
    rank = tensor_type(whole).get_num_dims()
    if kept not in (rank, rank - len(picked)):
        raise unsupported(op, f"slices of rank {kept} do not fit a tensor of rank {rank}")
    return picked, kept != rank


def _gather(e: Elements, op: Any, value: OpResult) -> list[Index]:
    picked, dropped = gathered(op)
    batch = e.dims(op.indices)[:-1]
    sizes = e.dims(op.source)
    return [*batch, *(1 if i in picked else s for i, s in enumerate(sizes) if not (dropped and i in picked))]


def _select(e: Elements, op: Any, value: OpResult) -> list[Index]:
    return _same(e, op, list(op.operands[1:]))


def axis_of(op: Operation) -> int | None:
    return known_index(op.operands[1])


RULES: dict[str, Callable[[Elements, Any, OpResult], list[Index]]] = {
    "arith.select": _select,
    "flow.dispatch.tie_shape": _tie,
    "flow.tensor.tie_shape": _tie,
    "flow.tensor.reshape": _flow_reshape,
    "flow.tensor.bitcast": _flow_reshape,
    "linalg.generic": _generic,
    "tensor.bitcast": _source,
    "tensor.cast": _source,
    "tensor.collapse_shape": _collapse,
    "tensor.concat": _concat,
    "tensor.empty": _in_order(0),
    "tensor.expand_shape": _expand,
    "tensor.extract_slice": _extract_slice,
    "tensor.gather": _gather,
    "tensor.generate": _in_order(0),
    "tensor.insert": _destination,
    "tensor.insert_slice": _destination,
    "tensor.pad": _pad,
    "tensor.reshape": _reshape,
    "tensor.scatter": _destination,
    "tensor.splat": _in_order(1),
    "util.optimization_barrier": _source,
}
