"""Replacement of a match by a call: inserts casts before and after the call, and redirects the uses of the old
values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import func, tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FunctionType, IndexType, SymbolRefAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.util import dialect as util
from pydispatch.ir.op_info import info_of


class Inserter:
    """Insertion point before or after one operation; operations are inserted in order.

    Attributes:
        place: The operation, whose location inserted operations get.
        after: Whether the point is after `place`; otherwise operations are inserted directly before it.
        block: Block of `place`.
        last: With `after`, the last operation that was inserted, which the next one follows; else `place`.
    """

    def __init__(self, anchor: Operation, after: bool) -> None:
        self.place, self.after = anchor, after
        self.block: Block = anchor.parent_block()  # type: ignore[assignment]
        self.last = anchor

    def add(self, op: Operation) -> Operation:
        """Insert an operation at this point, with the location of `place`, and return it."""
        for inner in walk(op):
            set_location(inner, self.place)
        if self.after:
            self.block.insert_op_after(op, self.last)
            self.last = op
        else:
            self.block.insert_op_before(op, self.place)
        return op

    def cast(self, value: SSAValue, wanted: Attribute, why: Callable[[str], Exception], shapes: bool) -> SSAValue:
        """Return the value, cast to the type `wanted`.

        shapes: whether dynamic and static sizes may be converted to each other. Raises the exception that `why` builds
        if the types are incompatible.
        """
        if value.type == wanted:
            return value
        ok = (
            shapes
            and isinstance(value.type, TensorType)
            and isinstance(wanted, TensorType)
            and value.type.element_type == wanted.element_type
            and len(value.type.get_shape()) == len(wanted.get_shape())
            and all(
                a == b or DYNAMIC in (a, b) for a, b in zip(value.type.get_shape(), wanted.get_shape(), strict=True)
            )
        )
        if not ok:
            raise why(f"{value.type} cannot become {wanted}" + ("" if shapes else " without a type conversion"))
        assert isinstance(wanted, TensorType)
        return self.add(tensor.CastOp(value, wanted)).results[0]

    def empty(self, type: Attribute, like: SSAValue | None) -> SSAValue:
        """Insert a tensor.empty of a type, with the dynamic sizes of `like`, and return its result."""
        assert isinstance(type, TensorType)
        like = None if like is None else shape_source(like)
        sizes = []
        for dim, size in enumerate(type.get_shape()):
            if size != DYNAMIC:
                continue
            assert like is not None
            index = self.add(ConstantOp.from_int_and_width(dim, IndexType())).results[0]
            sizes.append(self.add(tensor.DimOp(like, index)).results[0])
        return self.add(tensor.EmptyOp(sizes, type)).results[0]


def shape_source(value: SSAValue) -> SSAValue:
    """Return a value of the same shape that does not depend on the operation which defines `value`, as far as one is
    found.
    """
    while isinstance(value, OpResult):
        op = value.op
        outputs = getattr(op, "outputs", None)
        if op.name.startswith("linalg.") and outputs is not None and value.index < len(outputs):
            value = outputs[value.index]
        elif info_of(op).elementwise and op.operands and op.operands[0].type == value.type:
            value = op.operands[0]
        else:
            break
    return value


def call_in_place(
    function: Operation,
    name: str,
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    at: Inserter,
    spec: Operation,
    *,
    with_func: bool = False,
    casts: bool = True,
) -> Operation:
    """Insert a call of `function` with `inputs` at the insertion point, replace the uses of `outputs` by its results,
    and return the call.

    Raises CompileError at `spec` if the signature does not fit the values, or a use precedes the call. with_func:
    whether to create a `func.call` instead of a `util.call`. casts: whether static and dynamic sizes may be converted.
    """
    type = function.properties.get("function_type")
    assert isinstance(type, FunctionType)
    takes, gives = type.inputs.data, type.outputs.data
    note = f"@{name} is ({', '.join(map(str, takes))}) -> ({', '.join(map(str, gives))})"
    if len(takes) != len(inputs) or len(gives) != len(outputs):
        raise CompileError(
            f"@{name} takes {len(takes)} and gives {len(gives)} value(s), the match has {len(inputs)} input(s) and "
            f"{len(outputs)} output(s)", location_of(spec), note,
        )  # fmt: skip

    def refusal_of(what: str) -> Callable[[str], Exception]:
        return lambda text: CompileError(f"{what} of @{name}: {text}", location_of(spec), note)

    _check_order(inputs, at, spec)
    before = [list(o.uses) for o in outputs]
    arguments = [
        at.cast(v, t, refusal_of(f"argument {i}"), casts) for i, (v, t) in enumerate(zip(inputs, takes, strict=True))
    ]
    if with_func:
        call: Operation = func.CallOp(name, arguments, list(gives))
    else:
        call = util.CallOp(operands=[arguments], result_types=[list(gives)], properties={"callee": SymbolRefAttr(name)})
    at.add(call)
    for i, (old, new, uses) in enumerate(zip(outputs, call.results, before, strict=True)):
        new.name_hint = old.name_hint
        if not uses:
            continue
        back = at.cast(new, old.type, refusal_of(f"result {i}"), casts)
        for use in uses:
            use.operation.operands[use.index] = back
    check_uses(call, spec)
    return call


def _check_order(inputs: Sequence[SSAValue], at: Inserter, spec: Operation) -> None:
    """Raise CompileError if an input is defined after the insertion point."""
    for value in inputs:
        owner = value.owner
        if isinstance(owner, Operation) and owner.parent is at.block:
            is_after_point = at.last.is_before_in_block(owner)
            is_next_operation = owner is at.place and not at.after  # `place` itself, which calls are inserted before
            if is_after_point or is_next_operation:
                raise CompileError(
                    f"the call at {location_of(at.place)} would use %{value.name_hint or 'a value'} before its "
                    "definition", location_of(spec), "insert it 'after' the operation that makes the last input",
                )  # fmt: skip


def check_uses(call: Operation, spec: Operation) -> None:
    """Raise CompileError if a use of the results of `call` precedes it."""
    pending = list(call.results)
    block = call.parent_block()
    while pending:
        value = pending.pop()
        for use in value.uses:
            user: Operation | None = use.operation
            while user is not None and user.parent is not block:
                user = user.parent_op()
            if user is None or user is call or user.is_before_in_block(call):
                raise CompileError(
                    f"'{use.operation.name}' would use the result of the call before it", location_of(spec),
                    f"the use is at {location_of(use.operation)}; insert the call 'before' what it replaces",
                )  # fmt: skip
            if use.operation.name == "tensor.cast":
                pending += use.operation.results
