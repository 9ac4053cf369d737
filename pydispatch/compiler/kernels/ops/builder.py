"""Builder of kernel IR that hoists operations to the outermost block where their operands are defined, and reuses equal
operations.

Sizes and indices are of type `Index`: Python integers if they are compile-time constants, else SSA values. A region is
built before its operation is added to the enclosing block, so that code may still be added before all open loops.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import Index as Index
from pydispatch.compiler.kernels.ops.index_builder import IndexBuilder
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.op_info import info_of


class Builder(IndexBuilder):
    """Builder that appends operations to a block, all with the location of one source operation.

    Attributes:
        block: The block.
        source: The operation whose location new operations get.
        parent: The builder of the enclosing block; None for the outermost.
        pins_loads: Whether loads in the block stay in it, because its condition or its stores make them valid.
    """

    def __init__(
        self, block: Block, source: Operation, parent: Builder | None = None, pins_loads: bool = False
    ) -> None:
        """Create the builder of `block`, which may use the values that `parent` and its parents have computed.

        The arguments are the attributes of these names.
        """
        self.block, self.source, self.parent, self.pins_loads = block, source, parent, pins_loads
        # A builder that continues the block of its parent (`without_load_motion`) is no branch: its code always runs
        # with that of the parent.
        super().__init__(parent, is_branch=pins_loads and parent is not None and parent.block is not block)
        self.depth: int = parent.depth + 1 if parent else 0  # number of enclosing builders
        self.in_parallel: bool = parent.in_parallel if parent else False  # inside an `scf.parallel`
        self._known: dict[Hashable, SSAValue] = {}  # key -> value that this block has computed
        # Block -> its builder, for this block and the enclosing ones.
        self._levels: dict[Block, Builder] = {**(parent._levels if parent else {}), block: self}

    # Operations

    def add(self, op: Operation) -> SSAValue:
        """Append an operation to the block, and return its first result."""
        set_location(op, self.source)
        self.block.add_op(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def chain(self) -> Iterator[Builder]:
        """Yield this builder and those of the enclosing blocks, innermost first."""
        builder: Builder | None = self
        while builder is not None:
            yield builder
            builder = builder.parent

    def builder_of(self, value: SSAValue) -> Builder:
        """Return the builder whose block defines `value`, among this and the enclosing ones; this one if none does."""
        block = value.block if isinstance(value, BlockArgument) else value.owner.parent_block()
        return self._levels.get(block, self) if block is not None else self

    def outermost_for(self, values: Sequence[Index], for_load: bool = False) -> Builder:
        """Return the outermost builder where all `values` are defined: code that needs only these may be hoisted to it.

        With `for_load`, do not leave a block whose loads are pinned to it: outside of the block, the load may be out of
        bounds, or read memory that is stored later.
        """
        deepest = max((self.builder_of(v).depth for v in values if isinstance(v, SSAValue)), default=0)
        for builder in self.chain():
            if builder.depth == deepest or (for_load and builder.pins_loads):
                return builder
        raise AssertionError("a value is defined in a block that does not enclose this one")

    def pure(self, op: Operation) -> SSAValue:
        """Emit an operation without effects in the outermost possible block, and return its first result.

        An equal operation that was emitted before in this block or an enclosing one is reused. An operation that may
        trap stays in this block, since the enclosing ones may run when this one does not.
        """
        key = (op.name, tuple(op.operands), frozenset(op.properties.items()), tuple(op.result_types))
        known = self.recall(key)
        if known is not None:
            return known
        builder = self if info_of(op).traps else self.outermost_for(list(op.operands))
        # `add` takes the location from `source`. Hoisted code gets the location of this builder, not the outer one's.
        outer_source, builder.source = builder.source, self.source
        value = builder.add(op)
        builder.source = outer_source
        builder._known[key] = value
        return value

    def recall(self, key: Hashable) -> SSAValue | None:
        """Return the value remembered under `key` in this block or an enclosing one; None if there is none."""
        for builder in self.chain():
            if key in builder._known:
                return builder._known[key]
        return None

    def remember(self, key: Hashable, value: SSAValue) -> None:
        """Remember a value under `key` for this block and blocks nested in it."""
        self._known[key] = value

    # Indices

    def index(self, value: int) -> SSAValue:
        """Emit an index constant, unless an equal one exists, and return it."""
        key = ("index", value)  # `pure` would find an equal constant, too, but only after the operation was created
        constant = self.recall(key)
        if constant is None:
            constant = self.pure(arith.ConstantOp.from_int_and_width(value, IndexType()))
            self.builder_of(constant).remember(key, constant)
        return constant

    def division(self, op: Operation) -> SSAValue:
        """Emit a division whose divisor is never 0, as far outside as its operands allow, and return its result."""
        key = (op.name, tuple(op.operands), "divisor is not 0")  # not a key of `pure`, whose divisions may trap
        result = self.recall(key)
        if result is None:
            builder = self.outermost_for(list(op.operands))
            result = builder.add(op)
            builder.remember(key, result)
        return result

    # Control flow

    def nested(self, block: Block, pins_loads: bool = False) -> Builder:
        """Return a builder of a block nested in this one. The caller later adds the operation that contains the block.

        `pins_loads` is set for a branch, which may not run: its loads are not hoisted out of it, and properties of
        index values that are recorded in it do not hold outside.
        """
        return Builder(block, self.source, self, pins_loads)

    def without_load_motion(self) -> Builder:
        """Return a builder that continues this block, whose loads are neither hoisted nor reused by this builder.

        It is for code that loads memory which earlier and later operations of the block write.
        """
        return Builder(self.block, self.source, self, pins_loads=True)

    def _in_loop(self, block: Block, bounds: tuple[Index, Index, int], index_below: Index | None) -> Builder:
        """Return a builder of the body of a loop, which knows the bounds of the loop's index.

        Args:
            block: The body, whose first argument is the index.
            bounds: First index, exclusive end and step.
            index_below: Another bound that the index is below, such as the size of the dimension where `high` is the
                end of a block: divisions by it fold. None for `high`.
        """
        (low, high, step), index = bounds, block.args[0]
        inner = self.nested(block)
        counts_from_zero = low == 0 and step == 1
        if counts_from_zero:
            inner.assume_counts_to(index, high)
        inner.assume_below(index, high if index_below is None else index_below)
        return inner

    def loop(
        self,
        low: Index,
        high: Index,
        carried: Sequence[SSAValue],
        body: Callable[[Builder, Index, list[SSAValue]], Sequence[SSAValue]],
        step: int = 1,
        index_below: Index | None = None,
    ) -> list[SSAValue]:
        """Emit an `scf.for`, and return its results. A loop known to run once or never becomes its body or nothing.

        Args:
            low, high: Half-open range of the index.
            carried: Initial values of the loop-carried values.
            body: Emits an iteration from a builder, the index and the carried values, and returns the next ones.
            step: Step of the index, positive.
            index_below: Bound that the index is known to be below, so that divisions by it fold; None for `high`.
        """
        if isinstance(low, int) and isinstance(high, int) and high - low <= step:  # at most one iteration
            return list(body(self, low, list(carried))) if high > low else list(carried)
        block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
        inner = self._in_loop(block, (low, high, step), index_below)
        inner.add(scf.YieldOp(*body(inner, block.args[0], list(block.args[1:]))))
        op = scf.ForOp(self.value(low), self.value(high), self.index(step), list(carried), Region(block))
        self.add(op)
        return list(op.results)

    def sequential(
        self,
        low: Index,
        high: Index,
        body: Callable[[Builder, Index], None],
        step: int = 1,
        index_below: Index | None = None,
    ) -> None:
        """Emit an `scf.for` that carries no values. The arguments are those of `parallel`."""

        def iterate(inner: Builder, index: Index, _carried: list[SSAValue]) -> list[SSAValue]:
            """Emit an iteration, and return no values for the next one."""
            body(inner, index)
            return []

        self.loop(low, high, [], iterate, step, index_below)

    def parallel(
        self,
        low: Index,
        high: Index,
        body: Callable[[Builder, Index], None],
        step: int = 1,
        index_below: Index | None = None,
    ) -> None:
        """Emit an `scf.parallel`, whose iterations are independent.

        A loop known to run once or never becomes its body or nothing.

        Args:
            low, high: Half-open range of the index.
            body: Emits an iteration from a builder and the index.
            step: Step of the index, positive.
            index_below: Bound that the index is known to be below, so that divisions by it fold; None for `high`.
        """
        if isinstance(low, int) and isinstance(high, int) and high - low <= step:  # at most one iteration
            if high > low:
                body(self, low)
            return
        block = Block(arg_types=[IndexType()])
        inner = self._in_loop(block, (low, high, step), index_below)
        inner.in_parallel = True
        body(inner, block.args[0])
        inner.add(scf.ReduceOp())
        self.add(scf.ParallelOp([self.value(low)], [self.value(high)], [self.index(step)], Region(block)))

    def reduce(
        self,
        count: int,
        initial: Sequence[SSAValue],
        body: Callable[[Builder, Index], Sequence[SSAValue]],
        combine: type[Operation],
    ) -> list[SSAValue]:
        """Emit an `scf.parallel` that combines the values of all iterations, in any order, and return the results.

        Args:
            count: Number of iterations.
            initial: Values that are combined with the values of the iterations.
            body: Emits an iteration from a builder and the index, and returns its values, one for each of `initial`.
            combine: Operation on two values, such as `arith.AddiOp`.
        """
        block = Block(arg_types=[IndexType()])
        inner = self._in_loop(block, (0, count, 1), index_below=None)
        inner.in_parallel = True
        # Each value has a region of `scf.reduce`, which combines two values of this position.
        regions: list[Region] = []
        for value in initial:
            pair = Block(arg_types=[value.type, value.type])
            combined = combine(*pair.args)
            pair.add_ops([combined, scf.ReduceReturnOp(combined.results[0])])
            regions.append(Region(pair))
        inner.add(scf.ReduceOp(list(body(inner, block.args[0])), regions))
        op = scf.ParallelOp([self.index(0)], [self.index(count)], [self.index(1)], Region(block), list(initial))
        self.add(op)
        return list(op.results)

    def choose(
        self, condition: SSAValue | bool, then: Callable[[Builder], SSAValue], other: Callable[[Builder], SSAValue]
    ) -> SSAValue:
        """Emit an `scf.if` with one result, and return the result.

        `then` and `other` emit the branches, and return their values. If the condition is a bool, only the branch that
        it selects is emitted, without `scf.if`.
        """
        if isinstance(condition, bool):
            return then(self) if condition else other(self)
        then_block, other_block = Block(), Block()
        for block, emit_branch in ((then_block, then), (other_block, other)):
            inner = self.nested(block, pins_loads=True)  # loads may be out of bounds where the condition does not hold
            value = emit_branch(inner)
            inner.add(scf.YieldOp(value))
        # `value` is that of the last branch; both have one type.
        return self.add(scf.IfOp(condition, [value.type], Region(then_block), Region(other_block)))

    def when(self, condition: SSAValue | bool, then: Callable[[Builder], None]) -> None:
        """Emit an `scf.if` without results or else branch, whose branch `then` emits.

        If the condition is a bool, emit the branch alone, without `scf.if`, or nothing.
        """
        if isinstance(condition, bool):
            if condition:
                then(self)
            return
        block = Block()
        inner = self.nested(block, pins_loads=True)  # loads may be out of bounds where the condition does not hold
        then(inner)
        inner.add(scf.YieldOp())
        self.add(scf.IfOp(condition, [], Region(block)))


def load(build: Builder, buffer: SSAValue, index: Index) -> SSAValue:
    """Emit the load of an element of a buffer with one dimension, which is not hoisted, and return the element."""
    return build.add(memref.LoadOp.get(buffer, [build.value(index)]))
