"""Sharing of equal dispatch functions: the repeated layers of a model use the same kernels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.kinds import inputs_of, is_pure
from pydispatch.ir.dialects.flow import dialect as flow


class KnownExecutables:
    """Table of the executables that were created so far, by their code.

    `form_dispatches` creates one for a module, and each new dispatch is passed to `reuse` with its own executable.
    """

    def __init__(self) -> None:
        """Begin without executables."""
        # structural_key() of an executable → the dispatch for which it was created
        self._known: dict[Hashable, flow.DispatchOp] = {}

    def reuse(self, executable: flow.ExecutableOp, dispatch: flow.DispatchOp) -> bool:
        """Make `dispatch` call an earlier executable that equals its own, `executable`; return whether there is one.

        If there is, the caller drops `executable`. Otherwise `executable` is recorded for later dispatches.
        """
        # The dispatch for which the first executable with this code was created, perhaps `dispatch` itself.
        first = self._known.setdefault(structural_key(executable), dispatch)
        if first is dispatch:
            return False
        dispatch.properties["entry_points"] = first.properties["entry_points"]
        return True


def structural_key(op: Operation) -> Hashable:
    """Return a key that is equal for operations with the same behaviour. It ignores the names of symbols and values,
    source locations, and the order of operations without effects.

    The key of an operation is a tuple of its name, its operands, successors, results, attributes and regions, in which
    values and blocks are replaced by numbers: `%b = arith.addi %a, %a` has the operands (0, 0) and the result 1.
    """
    numbers: dict[SSAValue | Block, int] = {}  # values and blocks, numbered in the order in which the walk meets them

    def number_of(value: SSAValue | Block) -> int:
        """Return the number of a value or block in `numbers`; one that is not numbered yet gets the next number."""
        return numbers.setdefault(value, len(numbers))

    def key_of_block(block: Block) -> Hashable:
        """Return the key of a block: its number, its arguments with their types, and its operations."""
        return (
            number_of(block),
            tuple((number_of(a), a.type) for a in block.args),
            tuple(key_of(o) for o in _in_order_of_use(block)),
        )

    def key_of(op: Operation) -> Hashable:
        """Return the key of an operation, with numbers in place of values and blocks."""
        operands = tuple(number_of(v) for v in op.operands)
        regions = tuple(tuple(key_of_block(b) for b in region.blocks) for region in op.regions)
        results = tuple((number_of(r), r.type) for r in op.results)
        pairs = (*op.properties.items(), *op.attributes.items())
        # All attributes except the operation's own name, which dispatch formation makes unique. Of large constants, a
        # part of the bytes is hashed; all are compared.
        stated = frozenset((k, _hashed_by_sample(v)) for k, v in pairs if k != "sym_name")
        return op.name, operands, tuple(number_of(b) for b in op.successors), results, stated, regions

    return key_of(op)


SAMPLES = 64
"""Number of bytes that the hash of a large constant depends on; constants with equal samples are compared."""
_SAMPLED_BYTES = 4096
"""Size in bytes from which a constant is hashed by a sample."""


class _SampledConstant:
    """Large constant that is hashed by about `SAMPLES` of its bytes, in which most constants of a program differ.

    Constants with equal samples are compared in full.
    """

    def __init__(self, value: DenseIntOrFPElementsAttr[Any]) -> None:
        """Wrap the attribute of a dense constant."""
        self._value = value

    def __hash__(self) -> int:
        """Return a hash of the type, the length and about `SAMPLES` bytes at equal distances."""
        data = self._value.data.data
        return hash((self._value.type, len(data), data[:: len(data) // SAMPLES]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SampledConstant) and self._value == other._value


def _hashed_by_sample(value: Attribute) -> Hashable:
    """Return an attribute as part of a key; a large constant is wrapped, so that few of its bytes are hashed."""
    if isinstance(value, DenseIntOrFPElementsAttr) and len(value.data.data) >= _SAMPLED_BYTES:
        return _SampledConstant(value)
    return value


def _in_order_of_use(block: Block) -> Iterable[Operation]:
    """Return the operations of a block in the order of their uses, so that blocks with equal operations in different
    orders get equal keys.

    A depth-first search from the terminator places the operations that compute an operation's inputs, in the order of
    these inputs, and then the operation itself. Operations that the terminator does not need are last, in their own
    order. If an operation other than the terminator has effects, all remain in their own order.

    Example: of `%a = ...; %b = ...; %c = f(%b, %a); return %c`, the order is b, a, c, return; it is the same if %b is
    defined before %a.
    """
    ops = list(block.ops)
    if len(ops) <= 2 or not all(is_pure(op) for op in ops[:-1]):  # one operation and the terminator have one order
        return ops
    placed: dict[Operation, None] = {}
    stack = [*reversed(ops[:-1]), *ops[-1:]]  # the terminator on top: its operands are placed first, then the others
    while stack:
        # Push the operations of this block that the one on top needs. Place it when all of these are placed.
        needed = (v.op for v in inputs_of(stack[-1]) if isinstance(v, OpResult))
        missing = [op for op in needed if op.parent is block and op not in placed]
        stack += reversed(missing)
        if not missing:
            placed.setdefault(stack.pop())
    return placed
