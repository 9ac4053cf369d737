"""Sizes of tensors as terms over values of the host function, and these terms as operations.

A term is an integer, an index value, `Dim` (a size that only the tensor itself knows) or `Sum`/`Product` of terms, so
that two equal terms are the same size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.ir.structured import structured


@dataclass(frozen=True)
class Dim:
    """The size of a tensor that nothing else tells: of an argument, or of the result of an opaque operation."""

    tensor: SSAValue
    axis: int


@dataclass(frozen=True)
class Sum:
    parts: tuple[Term, ...]


@dataclass(frozen=True)
class Product:
    parts: tuple[Term, ...]


Term = int | SSAValue | Dim | Sum | Product


Known = dict[tuple[SSAValue, int], Term]
_REMEMBERED = threading.local()


@dataclass(frozen=True)
class Like:
    """The answer of a rule that the size is that of another tensor."""

    tensor: SSAValue
    axis: int


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape, -1 for a dynamic size; () for a scalar."""
    return tuple(-1 if n < 0 else n for n in value.type.get_shape()) if isinstance(value.type, TensorType) else ()


def constant_index(value: SSAValue) -> int | None:
    """The integer that a value is."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None


def term_of(value: SSAValue) -> Term:
    """The term of an index value."""
    known = constant_index(value)
    if known is not None:
        return known
    op = value.owner
    if isinstance(op, Operation) and op.name == "tensor.dim":
        axis = constant_index(op.operands[1])
        if axis is not None and 0 <= axis < len(shape_of(op.operands[0])):
            return size_of(op.operands[0], axis)
    if isinstance(op, Operation) and op.name == "tensor.rank" and isinstance(op.operands[0].type, TensorType):
        return len(shape_of(op.operands[0]))
    return value


def sizes_of(value: SSAValue) -> tuple[Term, ...]:
    """All sizes of a tensor."""
    return tuple(size_of(value, axis) for axis in range(len(shape_of(value))))


def size_of(value: SSAValue, axis: int) -> Term:
    """One size of a tensor."""
    known: Known = getattr(_REMEMBERED, "known", {})
    passed: list[tuple[SSAValue, int]] = []
    while True:
        step = known[value, axis] if (value, axis) in known else _one_step(value, axis)
        passed.append((value, axis))
        if not isinstance(step, Like):
            break
        value, axis = step.tensor, step.axis
    answer = Dim(value, axis) if step is None else step
    if hasattr(_REMEMBERED, "known"):
        known.update(dict.fromkeys(passed, answer))
    return answer


def _one_step(value: SSAValue, axis: int) -> Answer:
    """A size from the type or from the operation that makes the tensor; None when only the tensor knows it."""
    size = shape_of(value)[axis]
    if size >= 0:
        return size
    op = value.owner
    if not isinstance(op, Operation):
        return None
    rule = RULES.get(op.name)
    if rule is None and op.name.startswith(("arith.", "math.")):
        rule = _elementwise
    return rule(op, value, axis) if rule is not None else None


@contextmanager
def remembered(known: Known) -> Iterator[None]:
    """`size_of` keeps its answers in `known` for as long as tensors keep their producers: a size is found through a
    whole chain of them, and looking at every link of a long chain would look at each again and again."""
    before = getattr(_REMEMBERED, "known", None)
    _REMEMBERED.known = known
    try:
        yield
    finally:
        if before is None:
            del _REMEMBERED.known
        else:
            _REMEMBERED.known = before


def add(parts: Sequence[Term]) -> Term:
    """The sum, with its constants folded."""
    constant, rest = 0, list[Term]()
    for part in parts:
        for p in part.parts if isinstance(part, Sum) else (part,):
            if isinstance(p, int):
                constant += p
            else:
                rest.append(p)
    if not rest:
        return constant
    return rest[0] if len(rest) == 1 and constant == 0 else Sum((*rest, constant) if constant else tuple(rest))


def multiply(parts: Sequence[Term]) -> Term:
    """The product, with its constants folded."""
    constant, rest = 1, list[Term]()
    for part in parts:
        for p in part.parts if isinstance(part, Product) else (part,):
            if isinstance(p, int):
                constant *= p
            else:
                rest.append(p)
    if not rest or constant == 0:
        return constant if not rest else 0
    return rest[0] if len(rest) == 1 and constant == 1 else Product((*rest, constant) if constant != 1 else tuple(rest))


Answer = Term | Like | None
Rule = Callable[[Operation, SSAValue, int], Answer]

# -- one rule for each operation: the size of `value`, a result of `op`, along a dynamic axis


def _elementwise(op: Operation, value: SSAValue, axis: int) -> Answer:
    rank = len(shape_of(value))
    return _best([Like(v, axis) for v in op.operands if rank and len(shape_of(v)) == rank])


def _best(places: Sequence[Like]) -> Answer:
    """Of sizes that must be equal: an integer when a type has it, else the first."""
    for place in places:
        known = shape_of(place.tensor)[place.axis]
        if known >= 0:
            return known
    return places[0] if places else None


def _listed(place: Callable[[Operation], Sequence[SSAValue]]) -> Rule:
    """The dynamic sizes are operands, in order."""

    def rule(op: Operation, value: SSAValue, axis: int) -> Answer:
        number = sum(1 for n in shape_of(value)[:axis] if n < 0)
        values = place(op)
        return term_of(values[number]) if number < len(values) else None

    return rule


def _like(operand: int) -> Rule:
    return lambda op, value, axis: Like(op.operands[operand], axis)


def _generic(op: Operation, value: SSAValue, axis: int) -> Answer:
    g = structured(op)
    number = list(op.results).index(value)  # type: ignore[arg-type]
    expr = g.output_maps[number].results[axis]
    places = g.places[expr.position] if isinstance(expr, AffineDimExpr) else []
    return _best([*(Like(*place) for place in places), Like(g.outputs[number], axis)])


def _slice(op: Operation, value: SSAValue, axis: int) -> Answer:
    sizes = [n if isinstance(n, int) else term_of(n) for n in slice_of(op).sizes]
    kept = kept_dims(op, shape_of(value))
    return sizes[kept[axis]] if kept is not None else None


def kept_dims(op: Operation, shape: Sequence[int]) -> list[int] | None:
    """For each dimension of the smaller tensor of a slice operation its dimension in the larger one.

    shape: of the smaller tensor. None when the types do not tell.
    """
    sizes = [n if isinstance(n, int) else -1 for n in slice_of(op).sizes]
    kept: list[int] = []
    spare = len(sizes) - len(shape)
    for dim, size in enumerate(sizes):
        place = len(kept)
        matches = place < len(shape) and (shape[place] == size or (size < 0) != (shape[place] < 0))
        if size == 1 and spare and not (matches and _rest_fits(sizes[dim + 1 :], shape[place + 1 :], spare)):
            spare -= 1
            continue
        if not matches:
            return None
        kept.append(dim)
    return kept if len(kept) == len(shape) else None


def _rest_fits(sizes: Sequence[int], shape: Sequence[int], spare: int) -> bool:
    """Whether `sizes` without `spare` ones may be `shape`."""
    return sum(1 for n in sizes if n == 1) - sum(1 for n in shape if n == 1) >= spare and len(sizes) - spare == len(
        shape
    )


def _expand(op: Operation, value: SSAValue, axis: int) -> Answer:
    dynamic = iter(cast(tensor.ExpandShapeOp, op).dynamic_output_shape)
    static = [int(n) for n in cast(tensor.ExpandShapeOp, op).static_output_shape.get_values()]
    terms = [term_of(next(dynamic)) if n < 0 else n for n in static]
    return terms[axis]


def reassociation(op: Operation) -> list[list[int]]:
    """The groups of dimensions of an expand_shape or collapse_shape."""
    rows = cast("ArrayAttr[ArrayAttr[IntegerAttr]]", op.properties["reassociation"])
    return [[int(n.value.data) for n in row.data] for row in rows.data]


def _collapse(op: Operation, value: SSAValue, axis: int) -> Answer:
    return multiply([size_of(op.operands[0], d) for d in reassociation(op)[axis]])


def _reshape(op: Operation, value: SSAValue, axis: int) -> Answer:
    shape = op.operands[1]
    if isinstance(shape.owner, Operation) and shape.owner.name == "tensor.from_elements":
        element = shape.owner.operands[axis]
        while isinstance(element.owner, Operation) and element.owner.name in ("arith.index_cast", "arith.index_castui"):
            element = element.owner.operands[0]
        return term_of(element) if isinstance(element.type, IndexType) or constant_index(element) is not None else None
    return None


def _pad(op: Operation, value: SSAValue, axis: int) -> Answer:
    pad = cast(tensor.PadOp, op)
    parts: list[Term] = [size_of(pad.source, axis)]
    for static, dynamic in ((pad.static_low, pad.low), (pad.static_high, pad.high)):
        values: Iterator[SSAValue] = iter(dynamic)
        row = [next(values) if n < 0 and n < -(2**62) else int(n) for n in static.get_values()]
        n = row[axis]
        parts.append(n if isinstance(n, int) else term_of(n))
    return add(parts)


def _concat(op: Operation, value: SSAValue, axis: int) -> Answer:
    along = cast(tensor.ConcatOp, op).dim.value.data
    if axis == along:
        return add([size_of(v, axis) for v in op.operands])
    return _best([Like(v, axis) for v in op.operands])


def _gather(op: Operation, value: SSAValue, axis: int) -> Answer:
    source, indices = op.operands[0], op.operands[1]
    batch = len(shape_of(indices)) - 1
    if axis < batch:
        return Like(indices, axis)
    dims = [int(n) for n in op.properties["gather_dims"].get_values()]  # type: ignore[attr-defined]
    rest = list(range(len(shape_of(source))))
    if len(shape_of(value)) - batch != len(rest):  # the picked dimensions are left out
        rest = [d for d in rest if d not in dims]
    return Like(source, rest[axis - batch])


RULES: dict[str, Rule] = {
    "linalg.generic": _generic,
    "tensor.empty": _listed(lambda op: op.operands),
    "flow.tensor.empty": _listed(lambda op: op.operands),
    "tensor.generate": _listed(lambda op: op.operands),
    "tensor.splat": _listed(lambda op: op.operands[1:]),
    "flow.tensor.splat": _listed(lambda op: op.operands[1:]),
    "flow.tensor.tie_shape": _listed(lambda op: op.operands[1:]),
    "flow.dispatch.tie_shape": _listed(lambda op: op.operands[1:]),
    "flow.tensor.reshape": _listed(lambda op: op.result_dims),  # type: ignore[attr-defined]
    "flow.tensor.bitcast": _listed(lambda op: op.result_dims),  # type: ignore[attr-defined]
    "tensor.cast": _like(0),
    "tensor.bitcast": _like(0),
    "tensor.insert": _like(1),
    "tensor.insert_slice": _like(1),
    "tensor.scatter": _like(1),
    "tensor.extract_slice": _slice,
    "tensor.expand_shape": _expand,
    "tensor.collapse_shape": _collapse,
    "tensor.reshape": _reshape,
    "tensor.pad": _pad,
    "tensor.concat": _concat,
    "tensor.gather": _gather,
}


def _dispatch(op: Operation, value: SSAValue, axis: int) -> Answer:
    dims = iter(op.result_dims)  # type: ignore[attr-defined]
    for result in op.results:
        for place, n in enumerate(shape_of(result)):
            if n < 0:
                dim = next(dims)
                if result is value and place == axis:
                    return term_of(dim)
    return None


RULES["flow.dispatch"] = _dispatch


def equal_sizes(op: Operation) -> list[list[Like]]:
    """Rows of dimensions that are equal if the program is right."""
    if op.name == "linalg.generic":
        return [[Like(*place) for place in places] for places in structured(op).places]
    if op.name.startswith(("arith.", "math.")) and op.results and isinstance(op.results[0].type, TensorType):
        rank = len(shape_of(op.results[0]))
        values = [v for v in (*op.results, *op.operands) if len(shape_of(v)) == rank]
        return [[Like(v, axis) for v in values] for axis in range(rank)]
    return []
