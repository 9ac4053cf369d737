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

    `call_in_place` uses one for the casts of arguments, then for the call, then for the casts of results.

    Attributes:
        anchor: The operation, whose source location inserted operations get.
        after: Whether the point is after `anchor`; otherwise operations are inserted directly before it.
        block: Block of `anchor`.
        last: With `after`, the last operation that was inserted, which the next one follows; else `anchor`.
    """

    def __init__(self, anchor: Operation, after: bool) -> None:
        """Begin with no operation inserted: the point is directly before `anchor`, or after it if `after`."""
        self.anchor, self.after = anchor, after
        self.block: Block = anchor.parent_block()  # type: ignore[assignment]
        self.last = anchor

    def add(self, op: Operation) -> Operation:
        """Insert an operation at this point and return it; it and operations nested in it get the location of `anchor`.

        Operations that are added one after the other are in this order in the block, with `after` and without.
        """
        for inner in walk(op):
            set_location(inner, self.anchor)
        if self.after:
            self.block.insert_op_after(op, self.last)
            self.last = op
        else:
            self.block.insert_op_before(op, self.anchor)
        return op

    def cast(
        self, value: SSAValue, wanted: Attribute, error_of: Callable[[str], Exception], converts_sizes: bool
    ) -> SSAValue:
        """Return the value, or the result of a `tensor.cast` of it that is inserted if its type is not `wanted`.

        Args:
            value: The value.
            wanted: The type; it may differ from the value's in sizes that one of the two does not state.
            error_of: Builds the exception to raise if the types are incompatible, from the reason.
            converts_sizes: Whether types may differ in sizes, such as tensor<4xf32> and tensor<?xf32>; otherwise they
                must be equal.

        Raises:
            Exception: The result of `error_of`, if the types are incompatible.
        """
        if value.type == wanted:
            return value
        if not (converts_sizes and _may_be_equal(value.type, wanted)):
            condition = "" if converts_sizes else " without a type conversion"
            raise error_of(f"{value.type} cannot become {wanted}{condition}")
        assert isinstance(wanted, TensorType)
        return self.add(tensor.CastOp(value, wanted)).results[0]

    def empty(self, type: Attribute, like: SSAValue | None) -> SSAValue:
        """Insert a tensor.empty of a type, with the dynamic sizes of `like`, and return its result.

        like: a tensor of the same rank; None is allowed if all sizes of the type are static.
        """
        assert isinstance(type, TensorType)
        tensor_with_sizes = None if like is None else shape_source(like)  # the call does not replace its uses
        sizes = []
        for dim, size in enumerate(type.get_shape()):
            if size != DYNAMIC:
                continue
            assert tensor_with_sizes is not None
            index = self.add(ConstantOp.from_int_and_width(dim, IndexType())).results[0]
            sizes.append(self.add(tensor.DimOp(tensor_with_sizes, index)).results[0])
        return self.add(tensor.EmptyOp(sizes, type)).results[0]


def _may_be_equal(lhs: Attribute, rhs: Attribute) -> bool:
    """Return whether two types are tensors that may be equal at run time: they differ in dynamic sizes alone."""
    if not isinstance(lhs, TensorType) or not isinstance(rhs, TensorType) or lhs.element_type != rhs.element_type:
        return False
    if len(lhs.get_shape()) != len(rhs.get_shape()):
        return False
    return all(a == b or DYNAMIC in (a, b) for a, b in zip(lhs.get_shape(), rhs.get_shape(), strict=True))


def shape_source(value: SSAValue) -> SSAValue:
    """Return the earliest tensor of the program that is known to have the shape of `value`; `value` if there is none.

    A result of linalg has the shape of its initial tensor, and a result of an elementwise operation that of its first
    operand, if their types are equal. Code that is inserted before a call reads dynamic sizes from the returned tensor:
    the operations between it and `value` may be those that the call replaces.
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
    inserter: Inserter,
    spec: Operation,
    *,
    with_func: bool = False,
    converts_sizes: bool = True,
) -> Operation:
    """Insert a call, replace the uses of matched values by its results, and return the call.

    Args:
        function: The function to call, with a `function_type`.
        name: Its symbol.
        inputs: Arguments of the call, one for each parameter.
        outputs: Values of the program, one for each result, whose uses get the result instead.
        inserter: Insertion point.
        spec: Operation at which errors are located.
        with_func: Whether to create a `func.call` instead of a `util.call`.
        converts_sizes: Whether to insert casts between static and dynamic sizes; otherwise types must be equal.

    Raises:
        CompileError: The signature does not fit the values, or a use precedes the call.
    """
    type = function.properties.get("function_type")
    assert isinstance(type, FunctionType)
    note = f"@{name} is {_signature_text(type)}"
    if (len(type.inputs.data), len(type.outputs.data)) != (len(inputs), len(outputs)):
        raise CompileError(
            f"@{name} takes {len(type.inputs.data)} and gives {len(type.outputs.data)} value(s), the match has "
            f"{len(inputs)} input(s) and {len(outputs)} output(s)", location_of(spec), note,
        )  # fmt: skip

    def error_of(position: str) -> Callable[[str], Exception]:
        """Return a function that builds the error for a position of the call, such as "result 0", from the reason."""
        return lambda reason: CompileError(f"{position} of @{name}: {reason}", location_of(spec), note)

    _check_order(inputs, inserter, spec)
    uses_of_outputs = [list(output.uses) for output in outputs]  # before the casts below add uses
    arguments = [
        inserter.cast(value, parameter_type, error_of(f"argument {i}"), converts_sizes)
        for i, (value, parameter_type) in enumerate(zip(inputs, type.inputs.data, strict=True))
    ]
    call = inserter.add(_call(name, arguments, type.outputs.data, with_func))
    for i, (old, new, uses) in enumerate(zip(outputs, call.results, uses_of_outputs, strict=True)):
        new.name_hint = old.name_hint
        if not uses:
            continue
        replacement = inserter.cast(new, old.type, error_of(f"result {i}"), converts_sizes)
        for use in uses:
            use.operation.operands[use.index] = replacement
    check_uses(call, spec)
    return call


def _signature_text(type: FunctionType) -> str:
    """Return a type of functions as `(PARAMETERS) -> (RESULTS)`."""
    return f"({', '.join(map(str, type.inputs.data))}) -> ({', '.join(map(str, type.outputs.data))})"


def _call(name: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute], with_func: bool) -> Operation:
    """Return a call of the symbol `name`: a `func.call` or, without `with_func`, a `util.call`."""
    if with_func:
        return func.CallOp(name, arguments, list(result_types))
    properties = {"callee": SymbolRefAttr(name)}
    return util.CallOp(operands=[arguments], result_types=[list(result_types)], properties=properties)


def _check_order(inputs: Sequence[SSAValue], inserter: Inserter, spec: Operation) -> None:
    """Raise CompileError, located at `spec`, if an input is defined after the insertion point."""
    for value in inputs:
        owner = value.owner
        if isinstance(owner, Operation) and owner.parent is inserter.block:
            is_after_point = inserter.last.is_before_in_block(owner)
            # Without `after`, operations are inserted before the anchor, which is then after the point, too.
            is_anchor_after_point = owner is inserter.anchor and not inserter.after
            if is_after_point or is_anchor_after_point:
                raise CompileError(
                    f"the call at {location_of(inserter.anchor)} would use %{value.name_hint or 'a value'} before its "
                    "definition", location_of(spec), "insert it 'after' the operation that makes the last input",
                )  # fmt: skip


def check_uses(call: Operation, spec: Operation) -> None:
    """Raise CompileError, located at `spec`, if a use of the results of `call`, or of casts of them, precedes it."""
    pending = list(call.results)
    block = call.parent_block()
    while pending:
        value = pending.pop()
        for use in value.uses:
            user: Operation | None = use.operation
            while user is not None and user.parent is not block:  # the operation of the call's block around the use
                user = user.parent_op()
            if user is None or user is call or user.is_before_in_block(call):
                raise CompileError(
                    f"'{use.operation.name}' would use the result of the call before it", location_of(spec),
                    f"the use is at {location_of(use.operation)}; insert the call 'before' what it replaces",
                )  # fmt: skip
            if use.operation.name == "tensor.cast":  # `call_in_place` inserts casts of results after the call
                pending += use.operation.results
