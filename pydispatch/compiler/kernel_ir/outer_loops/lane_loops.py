"""Parallel loops over the lanes of a strip, and the memory through which they pass values on to each other.

Lanes are the iterations of the original loop that run together as elements of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import INDEX, TRUTH, Build, Index
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.outer_loops.lanes import LANES, Lanes
from pydispatch.compiler.kernel_ir.vector_loops import allocated_on_stack
from pydispatch.ir.core.walk import is_inside, walk

Copies = dict[SSAValue, SSAValue]
"""Value of the original loop → its value in the emitted code, in one lane or for all lanes."""
Stores = Sequence[tuple[SSAValue, SSAValue]]
"""Pairs (value of the original loop, memory that a loop over lanes stores it in, with an element for each lane)."""


class LaneLoops:
    """Emitter of parallel loops over the lanes of a strip; the base of `Strip`, which emits the code around them.

    A value that a loop computes and later code reads is stored in memory with an element for each lane.

    Attributes:
        lanes: The analysis of the original loop.
        copies: Copies of values that are the same for all lanes.
        value_in_lane_0: For each value that grows by 1 from lane to lane, its value in lane 0 of the strip.
        memory_of: For each other varying value that is used outside of the loop over lanes that computes it, its
            memory.
        width: Lanes that code is emitted for at present, at most `lanes.width`.
    """

    def __init__(self, lanes: Lanes, first: Index, copies: Copies, width: Index) -> None:
        """Create an emitter that has stored no value yet.

        Args:
            lanes: The analysis of the original loop.
            first: Iteration of the original loop that is lane 0 of the strip.
            copies: Copies of values that are the same for all lanes.
            width: Number of lanes of the strip.
        """
        self.lanes = lanes
        self.copies = copies
        self.value_in_lane_0: dict[SSAValue, Index] = {lanes.lane: first}  # value that grows by 1 from lane to lane
        self.memory_of: Copies = {}  # value -> memory with its element for each lane
        self.width = width

    def memory(self, build: Build, type_: Attribute) -> SSAValue:
        """Allocate an element of this type for each lane on the stack, at the entry, and return the memref."""
        return allocated_on_stack(build, type_, self.lanes.width)

    def over_lanes(
        self, build: Build, operations: Sequence[Operation], *, stores: Stores = (), consumer: Operation | None = None
    ) -> None:
        """Emit a loop over the lanes with operations of one block, which also stores each result that other code uses.

        For iterations 32 to 47, the operations `a = f(i); b = g(a)` of iteration i, a later use of `b`, and stores of
        [(a, m)], it emits `parallel lane in 0..16 { a = f(32 + lane); b = g(a); memory_of_b[lane] = b; m[lane] = a }`.

        Args:
            build: The builder.
            operations: The operations, in order; none if there are only stores.
            stores: Pairs (value, memory): values that are stored at the end of an iteration in memories of the caller.
            consumer: A later operation, such as the block's terminator, whose operands the caller's code for it reads
                from the memories of `stores`; None if there is none. A result that it alone uses gets no other memory.
        """
        results = [result for op in operations for result in op.results]
        for result in results:
            if result not in self.memory_of and self._is_used_elsewhere(result, operations, consumer):
                self.memory_of[result] = self.memory(build, result.type)
        all_stores = [*((result, self.memory_of[result]) for result in results if result in self.memory_of), *stores]
        if not operations and not stores:  # no loop is needed
            return

        def body(inner: Build, lane: SSAValue, copies: Copies) -> None:
            """Emit `operations` for one lane, then `all_stores`."""
            self.clone(inner, operations, lane, copies)
            # All values are loaded before the first store, which may overwrite a memory that another value is loaded
            # from: an iteration may exchange two carried values.
            values = [(self.resolve(inner, value, lane, copies), memory) for value, memory in all_stores]
            for value, memory in values:
                inner.op(memref.StoreOp.get(value, memory, [lane]))

        self.loop_over_lanes(build, body)

    def _is_used_elsewhere(self, value: SSAValue, operations: Sequence[Operation], consumer: Operation | None) -> bool:
        """Return whether a value is used outside of `operations`, which are of one block, and of `consumer`."""
        block = operations[0].parent
        assert block is not None
        for use in value.uses:
            user: Operation | None = use.operation
            if user is consumer:
                continue
            while user is not None and user.parent is not block:  # the operation of `block` that contains the user
                user = user.parent_op()
            if user not in operations:
                return True
        return False

    def loop_over_lanes(self, build: Build, body: Callable[[Build, SSAValue, Copies], None]) -> None:
        """Emit a parallel loop over the lanes; `body` emits one iteration from a builder, the lane, and the map from
        values of the original loop to their values in this lane.
        """
        block = Block(arg_types=[INDEX])
        inner = build.inside(block)
        body(inner, block.args[0], self.copies_of(inner, block.args[0]))
        inner.op(scf.ReduceOp())
        self._parallel(build, block, initial=())

    def _parallel(self, build: Build, body: Block, *, initial: Sequence[SSAValue]) -> Operation:
        """Emit a parallel loop over the lanes, and return it; `initial` has the initial value of each reduction."""
        lower, upper, step = ([build.value(index)] for index in (0, self.width, 1))
        loop = build.op(scf.ParallelOp(lower, upper, step, Region(body), initial))
        if self.width == LANES:  # LLVM computes the loop by whole vectors, without a scalar rest
            loop.attributes[WHOLE_VECTORS] = UnitAttr()
        return loop

    def any_lane(self, build: Build, body: Callable[[Build, SSAValue, Copies], SSAValue]) -> SSAValue:
        """Emit a loop over the lanes, and return whether the value of `body` is true in one of them, an i1.

        `body` emits one iteration, from a builder, the lane, and the map from values of the original loop to their
        values in this lane, and returns an i1.
        """
        # An `scf.parallel` with a reduction: `combine` is the region of the disjunction of two lanes' results.
        block, combine = Block(arg_types=[INDEX]), Block(arg_types=[TRUTH, TRUTH])
        inner, combined = build.inside(block), build.inside(combine)
        value = body(inner, block.args[0], self.copies_of(inner, block.args[0]))
        either = combined.let(arith.OrIOp(combine.args[0], combine.args[1]))
        combined.op(scf.ReduceReturnOp(either))
        inner.op(scf.ReduceOp([value], [Region(combine)]))
        (result,) = self._parallel(build, block, initial=[build.entry.constant(0, TRUTH)]).results
        return result

    def copies_of(self, build: Build, lane: SSAValue) -> Copies:
        """Return the copies of values that are equal in all lanes, or that are `lane` plus their value in lane 0."""
        lane_values = {value: build.value(build.plus(first, lane)) for value, first in self.value_in_lane_0.items()}
        return {**self.copies, **lane_values}

    def clone(self, build: Build, operations: Sequence[Operation], lane: SSAValue, copies: Copies) -> None:
        """Emit clones of operations for one lane; operands that are in memory are loaded.

        `copies` maps values of the original loop to their values in this lane: loads and clones are added to it.
        """
        for op in operations:
            # All operands get their values in this lane before `op` is cloned: also operands of operations in its
            # regions, except values defined in these regions, which the clone of `op` contains (`user=op`).
            for inner in (op, *inner_operations(op)):
                for operand in inner.operands:
                    self.resolve(build, operand, lane, copies, user=op)
            build.insert(op.clone(copies))

    def resolve(
        self, build: Build, value: SSAValue, lane: SSAValue, copies: Copies, user: Operation | None = None
    ) -> SSAValue:
        """Return the value that stands for a value of the original loop in the emitted iteration of a lane:

        - its copy, if this iteration has computed or loaded one before,
        - a load of the lane's element, if an earlier loop over lanes has stored the value,
        - a clone of its operation, if that is inexpensive (`Lanes.is_rematerialized`); its operands are resolved first,
        - the value itself, if it is defined outside of the original loop or in a region of `user`.

        Args:
            build: Builder inside the loop over the lanes.
            value: The value of the original loop.
            lane: Index of the lane.
            copies: Values of the original loop -> their values in this lane. Loads and clones are added.
            user: The operation that reads the value, if the caller clones it with its regions: the clone contains
                copies of the values that are defined in them.
        """
        if value in copies:
            return copies[value]
        if value in self.memory_of:
            copies[value] = build.let(memref.LoadOp.get(self.memory_of[value], [lane]))
        elif isinstance(value, OpResult) and self.lanes.is_rematerialized(value) and not _defines(user, value):
            for inner in (value.op, *inner_operations(value.op)):
                for operand in inner.operands:
                    self.resolve(build, operand, lane, copies, user=value.op)
            build.insert(value.op.clone(copies))  # adds the clone's results to `copies`
        return copies.get(value, value)


def inner_operations(op: Operation) -> Iterator[Operation]:
    """Yield all operations in the regions of an operation, also nested ones."""
    return (child for region in op.regions for block in region.blocks for child in walk(block))


def _defines(user: Operation | None, value: SSAValue) -> bool:
    """Return whether a value is the result of an operation in a region of `user`; False if `user` is None.

    A clone of `user` contains a clone of that operation, so that the value needs no other copy.
    """
    if user is None or not isinstance(value, OpResult):
        return False
    return any(is_inside(value.op, block) for region in user.regions for block in region.blocks)
