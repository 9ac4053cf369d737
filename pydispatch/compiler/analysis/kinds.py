"""What kinds of operations formation tells apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.analysis.sizes import constant_index, shape_of
from pydispatch.compiler.analysis.views import FILLS, is_tensor_code, is_view, stays_on_host
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import structured

SMALL_CONSTANT = 64  # elements; larger constants are read from the artifact's memory


def inputs_of(op: Operation) -> list[SSAValue]:
    """The operands of an operation and of everything inside its regions."""
    return [*op.operands, *(v for region in op.regions for inner in region.walk() for v in inner.operands)]


MOST_SCALARS = 28  # two 32-bit constants each at most, of 64 that an export may have


def too_many_scalars(ops: Sequence[Operation]) -> str | None:
    """Why a dispatch of `ops` would have more constants than fit, or None. Equal sizes count as often as they occur."""
    members = set(ops)
    nested = {inner for op in ops for region in op.regions for inner in region.walk()}
    blocks = {b for inner in (*ops, *nested) for region in inner.regions for b in region.blocks}
    found: set[object] = set()
    for op in ops:
        for value in inputs_of(op):
            owner = value.owner
            if owner in blocks or owner in members or owner in nested:
                continue
            if isinstance(value.type, TensorType):
                found.update((value, axis) for axis, n in enumerate(value.type.get_shape()) if n < 0)
            elif not (isinstance(owner, Operation) and owner.name == "arith.constant"):
                found.add(value)
    return f"the dispatch would take more than {MOST_SCALARS} scalars and sizes" if len(found) > MOST_SCALARS else None


def is_inline_constant(op: Operation) -> bool:
    """A constant that stands inside dispatches: a scalar, a splat, or a few elements."""
    if op.name != "arith.constant":
        return False
    value: Attribute | None = op.properties.get("value")
    type_ = op.results[0].type
    if not isinstance(type_, TensorType):
        return True
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return False
    count = 1
    for n in type_.get_shape():
        count *= n
    return count <= SMALL_CONSTANT or value.is_splat()


def is_fill(op: Operation) -> bool:
    """Tensors without memory: constants that stand inside dispatches, splats, and empty tensors."""
    return op.name in FILLS or is_inline_constant(op)


def is_expanding(op: Operation) -> bool:
    """Whether elements are cheaper to make again than to load: no input has as many elements as the result."""
    if op.name == "tensor.from_elements":
        return True
    if op.name == "tensor.generate":
        return not any(isinstance(v.type, TensorType) for v in inputs_of(op))
    if op.name == "tensor.extract_slice":
        return True
    if op.name != "linalg.generic" or len(op.results) != 1:
        return False
    g = structured(op)
    if any(kind != "parallel" for kind in g.iterators):
        return False
    body = g.block
    for number, map_ in enumerate(g.maps):
        if number < len(body.args) and not body.args[number].uses.get_length():
            continue  # only its shape counts
        if len(dims_in(map_)) == map_.num_dims or any(not isinstance(e, AffineDimExpr) for e in map_.results):
            return False
    cheap = not any(inner.name.startswith("math.") or inner.regions for inner in body.ops)
    return cheap and len(list(body.ops)) <= 4


def is_scalar_code(op: Operation) -> bool:
    """Pure arithmetic on scalars, or an element of a tensor at a place that is surely inside."""
    if len(op.results) != 1 or isinstance(op.results[0].type, TensorType) or op.name == "arith.constant":
        return False
    if op.name == "tensor.extract":
        places = [constant_index(v) for v in op.operands[1:]]
        sizes = shape_of(op.operands[0])
        return all(p is not None and 0 <= p < n for p, n in zip(places, sizes, strict=True))
    traps = op.name in ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")
    return op.name.startswith(("arith.", "math.")) and not op.regions and not traps


# Operations whose index operands are sizes, or decide them -> those operands.
_SIZE_OPERANDS: dict[str, Callable[[Any], Iterable[SSAValue]]] = {
    "tensor.empty": lambda op: op.operands,
    "tensor.splat": lambda op: op.operands[1:],
    "tensor.generate": lambda op: op.operands,
    "tensor.expand_shape": lambda op: op.dynamic_output_shape,
    "tensor.extract_slice": lambda op: op.sizes,
    "tensor.insert_slice": lambda op: op.sizes,
    "tensor.pad": lambda op: [*op.low, *op.high],
    "flow.tensor.reshape": lambda op: [*op.source_dims, *op.result_dims],
    "flow.tensor.bitcast": lambda op: [*op.source_dims, *op.result_dims],
}


def size_operands(op: Operation) -> list[SSAValue]:
    """The operands of an operation that decide how large its result is."""
    place = _SIZE_OPERANDS.get(op.name)
    return list(place(op)) if place is not None else []


def is_connector(op: Operation) -> bool:
    """Operations that are copied into every group that reads them."""
    return is_view(op) or (needs_dispatch(op) and is_expanding(op))


def needs_dispatch(op: Operation) -> bool:
    """Whether the operation computes tensors on a device."""
    return is_tensor_code(op) and not stays_on_host(op)


def may_join(op: Operation) -> bool:
    """Whether the operation may be in a group: also copies that host code can do, next to other operations."""
    return needs_dispatch(op) or op.name == "tensor.insert_slice"


def has_effects(op: Operation) -> bool:
    """Whether the order of `op` and others with effects matters."""
    pure = op.name.startswith(("arith.", "math.", "tensor.", "linalg.", "affine.", "index.", "flow.dispatch"))
    return not pure and op.name not in ("flow.tensor.reshape", "flow.tensor.bitcast", "util.optimization_barrier")
