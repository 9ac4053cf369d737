"""How an element of a tensor comes out of the operation that makes it, one rule per operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    TensorType,
)
from xdsl.ir import Attribute, OpResult, SSAValue

from pydispatch.compiler.kernels.ops.bits import pull_bitcast
from pydispatch.compiler.kernels.ops.bodies import clone_block, scalarized
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import pull_generic
from pydispatch.compiler.kernels.ops.shapes import gathered, groups_of, kept_dimensions, mixed, pad_amounts, slice_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type, unsupported


def pull(e: Elements, build: Builder, value: OpResult, indices: Sequence[Index]) -> SSAValue:
    """The element of `value` at `indices`. CompileError at an operation that has no rule."""
    op = value.op
    if op.name in PULLS:
        return PULLS[op.name](e, build, op, value, list(indices))
    if op.name.startswith(("arith.", "math.")) and all(isinstance(r.type, TensorType) for r in op.results):
        return _elementwise(e, build, op, value, list(indices))
    raise unsupported(op, "no rule computes an element of its result")


def _elementwise(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    operands = [
        e.at(build, v, indices if tensor_type(v).get_num_dims() else []) if isinstance(v.type, TensorType)
        else e.scalar(v)
        for v in op.operands
    ]  # fmt: skip
    results = scalarized(e, build, op, operands)
    for result, element in zip(op.results, results, strict=True):
        build.remember((result, tuple(indices)), element)
    return results[value.index]


def _constant(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    attribute = op.properties["value"]
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        raise unsupported(op, "large constants are operands of a dispatch")
    splat = splat_of(attribute)
    if splat is not None:
        return build.pure(arith.ConstantOp(splat))
    shape = tensor_type(value).get_shape()
    number: Index = build.join(indices, shape)
    if isinstance(number, int):
        return build.pure(arith.ConstantOp(cast(Any, list(attribute.iter_attrs())[number])))
    return e.table(build, attribute, indices)


def _undefined(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    return e.zero(build, tensor_type(value).element_type)


def _splat(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    return e.scalar(op.operands[0])


def _same(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    return e.at(build, op.operands[0], indices)


def _generic(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    return pull_generic(e, build, value, indices)


def _extract_slice(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    return e.at(build, op.source, in_slice(e, build, op, op.source, tensor_type(value), indices))


def in_slice(
    e: Elements, build: Builder, op: Any, whole: SSAValue, part: TensorType[Attribute], indices: Sequence[Index]
) -> list[Index]:
    """Where the element at `indices` of a slice lies in the whole tensor. A slice that begins where it does not fit is
    moved inside."""
    offsets, strides = mixed(e, op.static_offsets, op.offsets), mixed(e, op.static_strides, op.strides)
    sizes = slice_sizes(e, op)
    where: list[Index] = [0] * len(offsets)
    for dimension, index in zip(kept_dimensions(sizes, part), indices, strict=True):
        where[dimension] = index
    found: list[Index] = []
    for offset, index, size, stride, n in zip(offsets, where, sizes, strides, e.dims(whole), strict=True):
        start = offset
        if isinstance(offset, SSAValue):
            reach = e.entry.times(e.entry.minus(size, 1), stride)
            low: Index = 0
            if not (isinstance(stride, int) and stride >= 0):  # it may run backwards
                low, reach = e.entry.most(e.entry.minus(0, reach), 0), e.entry.most(reach, 0)
            start = build.most(build.least(offset, build.minus(n, e.entry.plus(reach, 1))), low)
        found.append(build.plus(start, build.times(index, stride)))
    return found


def _both(build: Builder, a: SSAValue | bool, b: SSAValue | bool) -> SSAValue | bool:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return build.pure(arith.AndIOp(a, b))


def _equal(build: Builder, a: Index, b: Index) -> SSAValue | bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return True if a is b else build.pure(arith.CmpiOp(build.value(a), build.value(b), "eq"))


def _not_less(build: Builder, a: Index, b: Index) -> SSAValue | bool:
    """a >= b."""
    if b == 0:
        less = build.less(a, 0)
        if less is False:
            return True
    less = build.less(a, b)
    if isinstance(less, bool):
        return not less
    return build.pure(arith.CmpiOp(build.value(a), build.value(b), "sge"))


def _insert_slice(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    """The source where the index is one of the slice, the destination elsewhere."""
    offsets, strides = mixed(e, op.static_offsets, op.offsets), mixed(e, op.static_strides, op.strides)
    sizes = slice_sizes(e, op)
    inside: SSAValue | bool = True
    where: list[Index] = []
    for index, offset, size, stride, whole in zip(indices, offsets, sizes, strides, e.dims(value), strict=True):
        if offset == 0 and stride == 1 and (size is whole or size == whole):
            where.append(index)
            continue
        distance = build.minus(index, offset)
        inside = _both(build, inside, _not_less(build, distance, 0))
        place = distance
        if stride != 1:
            inside = _both(build, inside, _equal(build, build.remainder(build.most(distance, 0), stride), 0))
            place = build.quotient(build.most(distance, 0), stride)
        inside = _both(build, inside, build.less(place, size))
        where.append(place)
    kept = kept_dimensions(sizes, tensor_type(op.source))
    return build.choose(
        inside,
        lambda b: e.at(b, op.source, [where[i] for i in kept]),
        lambda b: e.at(b, op.dest, indices),
    )


def _insert(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    here: SSAValue | bool = True
    for index, wanted in zip(indices, op.indices, strict=True):
        here = _both(build, here, _equal(build, index, e.index(wanted)))
    return build.choose(here, lambda b: e.scalar(op.scalar), lambda b: e.at(b, op.dest, indices))


def _expand(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    sizes = e.dims(value)
    where = [build.join([indices[i] for i in g], [sizes[i] for i in g]) for g in groups_of(op)]
    return e.at(build, op.operands[0], where)


def _collapse(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    sizes = e.dims(op.operands[0])
    where: list[Index] = [0] * len(sizes)
    for index, group in zip(indices, groups_of(op), strict=True):
        for dimension, part in zip(group, build.split(index, [sizes[i] for i in group]), strict=True):
            where[dimension] = part
    return e.at(build, op.operands[0], where)


def _reshape(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    source = op.operands[0]
    have, want = e.dims(source), e.dims(value)
    where: list[Index] = [0] * len(have)
    # Leading and trailing sizes that are the same need no division.
    front = 0
    while front < min(len(have), len(want)) and _same_size(have[front], want[front]):
        where[front] = indices[front]
        front += 1
    back = 0
    while back < min(len(have), len(want)) - front and _same_size(have[-1 - back], want[-1 - back]):
        where[len(have) - 1 - back] = indices[len(want) - 1 - back]
        back += 1
    middle = slice(front, len(want) - back)
    number = build.join(indices[middle], want[middle])
    where[front : len(have) - back] = build.split(number, have[front : len(have) - back])
    return e.at(build, source, where)


def _same_size(a: Index, b: Index) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def where_padded(e: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> SSAValue | bool:
    """Whether an element of a `tensor.pad` is one of its source."""
    low, high = pad_amounts(e, op)
    inside: SSAValue | bool = True
    for index, before, after, size in zip(indices, low, high, e.dims(op.source), strict=True):
        place = build.minus(index, before)
        if before != 0:
            inside = _both(build, inside, _not_less(build, place, 0))
        if after != 0:
            inside = _both(build, inside, build.less(place, size))
    return inside


def _pad(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    low, _ = pad_amounts(e, op)
    inside = where_padded(e, build, op, indices)
    where = [build.minus(index, before) for index, before in zip(indices, low, strict=True)]

    def padding(b: Builder) -> SSAValue:
        block = op.regions[0].block
        mapping = {a: b.value(i) for a, i in zip(block.args, indices, strict=True)}
        return clone_block(e, b, block, mapping, [])[0]

    return build.choose(inside, lambda b: e.at(b, op.source, where), padding)


def _concat(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    axis = int(op.dim.value.data)

    def level(b: Builder, number: int, start: Index) -> SSAValue:
        operand = op.operands[number]
        where = list(indices)
        where[axis] = b.minus(indices[axis], start)
        if number == len(op.operands) - 1:
            return e.at(b, operand, where)
        end = e.entry.plus(start, e.dims(operand)[axis])
        here = b.less(indices[axis], end)
        return b.choose(here, lambda c: e.at(c, operand, where), lambda c: level(c, number + 1, end))

    return level(build, 0, 0)


def _from_elements(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    number = build.join(indices, tensor_type(value).get_shape())
    if isinstance(number, int):
        return e.scalar(op.operands[number])
    found = e.scalar(op.operands[0])
    for position, operand in enumerate(op.operands[1:], 1):
        here = _equal(build, number, position)
        assert not isinstance(here, bool)
        found = build.pure(arith.SelectOp(here, e.scalar(operand), found))
    return found


def _generate(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    block = op.regions[0].block
    mapping = {a: build.value(i) for a, i in zip(block.args, indices, strict=True)}
    return clone_block(e, build, block, mapping, [])[0]


def coordinates(e: Elements, build: Builder, op: Any, batch: Sequence[Index]) -> list[Index]:
    """Where a gather or scatter picks for one index of the batch, moved inside the tensor where it lies outside."""
    picked, _ = gathered(op)
    sizes = e.dims(op.source if op.name == "tensor.gather" else op.dest)
    found: list[Index] = []
    for number, dimension in enumerate(picked):
        value = e.at(build, op.indices, [*batch, number])
        place: Index = value
        if not isinstance(value.type, IndexType):
            place = build.pure(arith.IndexCastOp(value, IndexType()))
        found.append(build.clamp(place, sizes[dimension]))
    return found


def picked_index(op: Any, where: Sequence[Index], rest: Sequence[Index]) -> list[Index]:
    """The whole index from the coordinates and the index inside the slice."""
    picked, dropped = gathered(op)
    whole = tensor_type(op.source if op.name == "tensor.gather" else op.dest).get_num_dims()
    inside = iter(rest)
    found: list[Index] = []
    for dimension in range(whole):
        if dimension in picked:
            if not dropped:
                next(inside)
            found.append(where[picked.index(dimension)])
        else:
            found.append(next(inside))
    return found


def _gather(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    batch = tensor_type(op.indices).get_num_dims() - 1

    def element(b: Builder) -> SSAValue:
        return e.at(b, op.source, picked_index(op, coordinates(e, b, op, indices[:batch]), indices[batch:]))

    filled = build.not_empty([e.dims(op.source)[d] for d in gathered(op)[0]])
    return build.choose(filled, element, lambda b: e.zero(b, tensor_type(value).element_type))


def _scatter(e: Elements, build: Builder, op: Any, value: OpResult, indices: list[Index]) -> SSAValue:
    """Looks for the slice that lands here: only where the whole result is wanted as values."""
    picked, dropped = gathered(op)
    batch = e.dims(op.indices)[:-1]
    count = build.product(batch)
    rest: list[Index] = []
    for dimension, index in enumerate(indices):
        if dimension in picked:
            rest += [] if dropped else [0]
        else:
            rest.append(index)

    def body(b: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
        spot = b.split(number, batch)
        where = coordinates(e, b, op, spot)
        here: SSAValue | bool = True
        for dimension, place in zip(picked, where, strict=True):
            here = _both(b, here, _equal(b, indices[dimension], place))
        return [b.choose(here, lambda c: e.at(c, op.source, [*spot, *rest]), lambda c: carried[0])]

    return build.loop(0, count, [e.at(build, op.dest, indices)], body)[0]


Pull = Callable[[Elements, Builder, Any, OpResult, list[Index]], SSAValue]

PULLS: dict[str, Pull] = {
    "arith.constant": _constant,
    "flow.dispatch.tie_shape": _same,
    "flow.tensor.bitcast": pull_bitcast,
    "flow.tensor.reshape": _reshape,
    "flow.tensor.tie_shape": _same,
    "linalg.generic": _generic,
    "tensor.bitcast": pull_bitcast,
    "tensor.cast": _same,
    "tensor.collapse_shape": _collapse,
    "tensor.concat": _concat,
    "tensor.empty": _undefined,
    "tensor.expand_shape": _expand,
    "tensor.extract_slice": _extract_slice,
    "tensor.from_elements": _from_elements,
    "tensor.gather": _gather,
    "tensor.generate": _generate,
    "tensor.insert": _insert,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.reshape": _reshape,
    "tensor.scatter": _scatter,
    "tensor.splat": _splat,
    "util.optimization_barrier": _same,
}
"""Operation -> rule(elements, builder, operation, its result, indices)."""
