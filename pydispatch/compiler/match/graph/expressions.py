"""Value numbering of scalar code: equal numbers mean equal computations, whatever the names of values.

An expression is numbered bottom-up from its operation, its properties and the numbers of its operands, which are sorted
for commutative operations. Discardable attributes and fast-math flags are ignored.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Hashable, Sequence
from weakref import WeakValueDictionary

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pydispatch.ir.core.dense import is_splat
from pydispatch.ir.op_info import info_of

_IGNORED = frozenset(
    ["fastmath", "overflowFlags", "operandSegmentSizes", "resultSegmentSizes", "isExact", "static_output_shape"]
)
"""Properties that keys leave out: flags that allow optimizations, and properties that operands and types imply."""
_MIRROR = {
    # slt: sgt, sle: sge, ult: ugt, ule: uge
    "arith.cmpi": {2: 4, 3: 5, 6: 8, 7: 9},
    # olt: ogt, ole: oge, ult: ugt, ule: uge
    "arith.cmpf": {4: 2, 5: 3, 11: 9, 12: 10},
}
"""Operation name → its predicates for "less" → the predicate for "greater" that is equivalent with swapped operands:
`a < b` is `b > a`."""
_SYMMETRIC = {"arith.cmpi": (0, 1), "arith.cmpf": (0, 1, 6, 7, 8, 13, 14, 15)}
"""Predicates whose result does not depend on the order of the operands, such as "eq"."""
_MESSAGE_CHARACTERS = 160
"""Length of an expression in a message; a longer one is cut."""
_STORED_CHARACTERS = 400
"""Length of the text that is stored for a value: texts contain those of operands, and would grow exponentially."""


class ValueNumber:
    """Number of a computation: two computations are equal if they have the same `ValueNumber`.

    `intern_key` creates one for each different computation. Numbers are compared by identity.

    Attributes:
        order: Position in a total order of the numbers, by which operands of commutative operations are sorted.
    """

    __slots__ = ("__weakref__", "order")

    def __init__(self, order: int) -> None:
        self.order = order


_numbers: WeakValueDictionary[Hashable, ValueNumber] = WeakValueDictionary()
"""Key of a computation → its number, for all patterns and programs of the process. An entry is removed with the last
node that has the number: keys hold attributes, such as large constants, and values and operations of programs."""
_orders = itertools.count()
_lock = threading.Lock()
"""Held while a number is looked up or created: equal keys of two threads must not get two numbers."""


def intern_key(key: Hashable) -> ValueNumber:
    """Return the number of a key, the same for equal keys. Patterns and programs share the numbers of the process."""
    with _lock:
        value_number = _numbers.get(key)
        if value_number is None:
            value_number = _numbers[key] = ValueNumber(next(_orders))
        return value_number


def properties_key(op: Operation) -> tuple[Hashable, ...]:
    """Return the properties of an operation that affect its result, as (name, value), sorted by name."""
    kept: list[tuple[str, Attribute]] = [(name, value) for name, value in op.properties.items() if name not in _IGNORED]
    kept.sort(key=lambda item: item[0])
    return tuple(kept)


def comparison(op: Operation) -> tuple[int, bool] | None:
    """Return the predicate of a comparison, and whether its operands must be swapped for it.

    "Less" is expressed by "greater": slt (2) of cmpi -> (sgt (4), True), since `a < b` is `b > a`. Return None for
    operations that are no comparison.
    """
    if op.name not in _MIRROR:
        return None
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    value = predicate.value.data
    mirrored = _MIRROR[op.name].get(value)
    return (value, False) if mirrored is None else (mirrored, True)


def operation_key(op: Operation) -> tuple[Hashable, bool, bool]:
    """Return (key, whether the operation is commutative, whether its operands must be exchanged for the key).

    The key is the name and the attributes of the operation, without operands. The operands are exchanged for `a < b`,
    which has the key of `b > a`.
    """
    compared = comparison(op)
    if compared is not None:
        predicate, is_swapped = compared
        return (op.name, predicate), predicate in _SYMMETRIC[op.name], is_swapped
    return (op.name, *properties_key(op)), info_of(op).commutative, False


def constant_key(value: Attribute | None) -> Hashable | None:
    """Return the key of a scalar or splat constant: its bits and element type. Return None for other constants.

    value: the `value` property of an `arith.constant`; None if it has none.
    """
    if isinstance(value, DenseIntOrFPElementsAttr):
        if not is_splat(value):
            return None
        element = value.get_element_type()
        return _scalar_key(next(iter(value.get_values())), element)
    if isinstance(value, (IntegerAttr, FloatAttr)):
        return _scalar_key(value.value.data, value.type)
    return None


def _scalar_key(value: object, type: Attribute) -> Hashable:
    """Return the key of a scalar constant, which is equal for equal constants.

    A float counts by its bits: NaN equals itself, and -0.0 differs from 0.0. An integer counts modulo 2^width, so that
    -1 and 255 of 8 bits are equal.
    """
    if isinstance(type, AnyFloat) and isinstance(value, float):
        return ("constant", struct.pack("<d", value), type)
    if isinstance(type, IntegerType) and isinstance(value, int):
        return ("constant", value % (1 << type.width.data), type)
    return ("constant", value, type)


def constant_text(value: Attribute | None) -> str:
    """Return a constant as messages print it."""
    if isinstance(value, DenseIntOrFPElementsAttr) and is_splat(value):
        return f"{next(iter(value.get_values()))} : {value.get_element_type()}"
    if isinstance(value, (IntegerAttr, FloatAttr)):
        return f"{value.value.data} : {value.type}"
    return "a constant tensor"


class ScalarBody:
    """Value numbering of the scalar code in one block, by which bodies of operations are compared.

    Values of the block with equal numbers are equal for equal arguments and captured values.

    Attributes:
        block: Block whose values are numbered.
        captured: Values from outside the block that it uses, in order of first use.
    """

    def __init__(self, block: Block) -> None:
        """Create a numbering of the values of `block`; a value gets its number when it is first queried."""
        self.block = block
        self.captured: list[SSAValue] = []
        self._numbers: dict[SSAValue, ValueNumber] = {}  # value → number of its computation
        # Operation of the block with regions → their keys, and the values from outside of the regions that they use.
        self._regions: dict[Operation, tuple[Sequence[Hashable], list[SSAValue]]] = {}
        self._texts: dict[SSAValue, str] = {}  # value → its expression as text

    def yields(self) -> tuple[ValueNumber, ...]:
        """Return the value numbers of the operands of the block's terminator, in order; () without one."""
        last = self.block.last_op
        return () if last is None else tuple(self.key(v) for v in last.operands)

    def text(self, value: SSAValue) -> str:
        """Return the expression of a value as messages print it, cut to `_MESSAGE_CHARACTERS`."""
        self.key(value)  # numbers the value, which stores its text
        text = self._texts[value]
        return text if len(text) <= _MESSAGE_CHARACTERS else text[: _MESSAGE_CHARACTERS - 3] + "..."

    def key(self, value: SSAValue) -> ValueNumber:
        """Return the value number of a value: equal for values that the block computes by equal expressions.

        Numbers of its operands are assigned first, without recursion, because bodies may be long chains.
        """
        pending = [value]
        while pending:
            top = pending[-1]
            if top in self._numbers:
                pending.pop()
                continue
            operands = self._operands(top)
            missing = [v for v in operands if v not in self._numbers]
            if missing:  # they are numbered first, and then `top` is visited again
                pending += missing
                continue
            pending.pop()
            self._assign_number(top, operands)
        return self._numbers[value]

    def _operands(self, value: SSAValue) -> Sequence[SSAValue]:
        """Return the operands of the operation that defines a value, then the values that its regions use from outside
        of them; () for a value that the block does not compute.
        """
        op = value.owner
        if not isinstance(op, Operation) or op.parent is not self.block:
            return ()
        if not op.regions:
            return op.operands
        if op not in self._regions:
            captured: list[SSAValue] = []
            self._regions[op] = (tuple(region_key(op, captured)), captured)
        return [*op.operands, *self._regions[op][1]]

    def _assign_number(self, value: SSAValue, operands: Sequence[SSAValue]) -> None:
        """Assign a number to a value whose operands, and values that its regions read, have numbers.

        The number is the id of a key, by which equal computations have equal numbers. The key depends on the origin of
        the value:

        - an argument of the block: its position and type,
        - a constant: its value and element type,
        - a result of an operation of the block: the operation without operands, the position of the result, the numbers
          of the operands, the keys of its regions and the numbers of the values that its regions use from outside.
          `addf(%a, %b)` and `addf(%b, %a)` have equal keys, and so have `%a < %b` and `%b > %a`,
        - a value from outside the block: its position in `captured`, and its type.

        The expression of the value as text is stored for messages, such as "addf(%0, mulf(%1, %1))".
        """
        op = value.owner
        if op is self.block:
            index = self.block.args.index(value)
            self._set(value, ("argument", index, value.type), f"%{index}")
        elif isinstance(op, Operation) and op.name == "arith.constant":
            key = constant_key(op.properties.get("value"))
            self._set(value, key or ("constant", op.properties.get("value")), constant_text(op.properties.get("value")))
        elif isinstance(op, Operation) and op.parent is self.block:
            key, numbers = self._key_and_numbers(op, operands)
            regions = self._regions[op][0] if op.regions else ()
            texts = ", ".join(self._texts[v] for v in op.operands)
            name_without_dialect = op.name.split(".", 1)[1]
            # Cut, since the texts of operands are parts of it: it could grow exponentially.
            text = f"{name_without_dialect}({texts})"[:_STORED_CHARACTERS]
            self._set(value, (key, op.results.index(value), numbers, regions, value.type), text)
        else:  # from outside of the block
            if value not in self.captured:
                self.captured.append(value)
            self._set(value, ("captured", self.captured.index(value), value.type), f"%{value.name_hint or 'value'}")

    def _key_and_numbers(self, op: Operation, operands: Sequence[SSAValue]) -> tuple[Hashable, tuple[ValueNumber, ...]]:
        """Return the key of an operation, and the numbers of its operands in an order that equal computations share."""
        key, commutes, swapped = operation_key(op)
        numbers = [self._numbers[v] for v in operands]
        if swapped:  # the operation is `a < b`, and the key that of `b > a`
            numbers.reverse()
        if commutes:  # any fixed order
            numbers.sort(key=lambda operand: operand.order)
        return key, tuple(numbers)

    def _set(self, value: SSAValue, key: Hashable, text: str) -> None:
        """Record the number of a value's computation, which `key` identifies, and its expression as text."""
        self._numbers[value] = intern_key(key)
        self._texts[value] = text


def region_key(op: Operation, captured: list[SSAValue] | None = None) -> list[Hashable]:
    """Return a key for each region of an operation; regions with equal keys compute the same.

    The key of a region with one block is (types of the block's arguments, value numbers of what it yields). Equal
    computations have equal value numbers: the names of values do not matter. The key of an empty region is (). A region
    of several blocks, which has branches, is equal only to itself: its key is the operation.

    A value from outside of the regions counts by its position in `captured`: the regions of `x + %a` and `x + %b` have
    equal keys. A caller that compares operations must therefore also compare their captured values.

    Args:
        op: The operation.
        captured: Receives the values from outside that the regions use, in order of first use; None if the caller does
            not need them.
    """
    captured = [] if captured is None else captured
    keys: list[Hashable] = []
    for region in op.regions:
        blocks = list(region.blocks)
        if not blocks:
            keys.append(())
            continue
        if len(blocks) != 1:
            keys.append(op)  # equal to itself alone
            continue
        body = ScalarBody(blocks[0])
        body.captured = captured
        keys.append((tuple(a.type for a in blocks[0].args), body.yields()))
    return keys


def element_type(type: Attribute) -> Attribute:
    """Return the element type of a tensor type, or the type itself for a scalar."""
    return type.get_element_type() if isinstance(type, TensorType) else type


def is_scalar(type: Attribute) -> bool:
    """Return whether a type is an integer, an index or a float, and no tensor or vector."""
    return isinstance(type, (IntegerType, IndexType, AnyFloat))


def defining(value: SSAValue) -> Operation | None:
    """Return the operation that defines a value; None for a block argument."""
    return value.op if isinstance(value, OpResult) else None
