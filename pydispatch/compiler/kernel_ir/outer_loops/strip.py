"""Emission of the body of a parallel loop for a strip: a block of iterations that run together as lanes of vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import INDEX, TRUTH, Build, Index, known
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.outer_loops.lanes import LANES, Lanes
from pydispatch.ir.core.walk import is_inside, walk

Copies = dict[SSAValue, SSAValue]
"""Value of the original loop → its value in the emitted code, in one lane or for all lanes."""
Stores = Sequence[tuple[SSAValue, SSAValue]]
"""Values of the original loop, and for each the memory of its lanes."""


class Strip:
    """Emitter of the body of a parallel loop for a strip: a block of consecutive iterations, its lanes.

    Sequential loops of the body are emitted once, around parallel loops over the lanes.

    Attributes:
        lanes: The analysis of the loop.
        loop: The loop.
        copies: Copies of values that are the same for all lanes.
        value_in_lane_0: For each value that grows by 1 from lane to lane, its value in lane 0 of the strip.
        memory_of: For each other varying value that is used outside of the loop over lanes that computes it, memory
            with an element for each lane.
        width: Lanes that code is emitted for at present, at most `lanes.width`.
    """

    def __init__(
        self, loop: scf.ParallelOp, lanes: Lanes, first: Index, copies: Copies, width: Index | None = None
    ) -> None:
        """Create the emitter of the strip whose lane 0 is iteration `first`.

        Args:
            loop: The loop.
            lanes: The analysis of the loop.
            first: Iteration of lane 0.
            copies: Copies of the values from outside of the strip, such as counters of outer loops.
            width: Lanes of the strip; None for `lanes.width`. It may be a value if `lanes.is_streamed`.
        """
        self.lanes = lanes
        self.loop = loop
        self.copies = copies
        self.value_in_lane_0: dict[SSAValue, Index] = {lanes.lane: first}
        self.memory_of: Copies = {}
        self.width: Index = lanes.width if width is None else width

    def block(self, build: Build, block: Block, stores: Stores) -> None:
        """Emit the operations of a block of the original loop for all lanes, and at its end the stores `stores`.

        Operations between two sequential loops share one loop over lanes. The terminator is not emitted: its operands
        are among the stores.
        """
        *operations, terminator = block.ops
        hoisted = self.lanes.hoisted.get(block, ())
        pending: list[Operation] = []
        for op in operations:
            if op in self.lanes.ops_with_lane_loops:
                self._emit_loop(build, op, pending)
                pending = []
            elif self.lanes.is_uniform(op):
                build.insert(op.clone(self.copies))
            # Integers of the lane are rematerialized where they are used; hoisted loads were emitted before the loop.
            elif not self._is_lane_integer(op) and op not in hoisted:
                pending.append(op)
        self._over_lanes(build, pending, stores=stores, consumer=terminator)

    def _is_lane_integer(self, op: Operation) -> bool:
        """Return whether all results of an operation are integers of the lane, so that it is rematerialized."""
        return bool(op.results) and self.lanes.lane_integers.issuperset(op.results)

    def _emit_loop(self, build: Build, op: Operation, pending: Sequence[Operation]) -> None:
        """Emit a sequential loop, or a branch with loops; before it, emit the operations of its block in `pending`."""
        if isinstance(op, scf.ForOp):
            self._emit_for(build, op, pending)
        elif isinstance(op, scf.WhileOp):
            self._emit_while(build, op, pending)
        else:
            assert isinstance(op, scf.IfOp)
            self._emit_if(build, op, pending)

    def _emit_for(self, build: Build, op: scf.ForOp, pending: Sequence[Operation]) -> None:
        """Emit a sequential loop with loops over lanes inside; carried values are in memory, an element per lane.

        `pending` are the operations before the loop that have not been emitted yet.
        """
        counter, *carried = op.body.block.args
        memories = [self._memory(build, value.type) for value in carried]
        self._over_lanes(build, pending, stores=list(zip(op.iter_args, memories, strict=True)), consumer=op)
        self.memory_of.update(zip(carried, memories, strict=True))
        self.memory_of.update(zip(op.results, memories, strict=True))
        terminator = op.body.block.last_op
        assert terminator is not None
        stores = list(zip(terminator.operands, memories, strict=True))
        starts = self.lanes.unrolled_starts(op)
        if starts is not None:
            # The loop begins at the lane's number, in each lane at another counter: it is unrolled into its few steps,
            # in which lane l has the counter start + l. Lanes beyond the upper bound take no step.
            upper = known(op.ub)
            assert isinstance(upper, int)
            for start in starts:
                self.value_in_lane_0[counter] = start
                self.width = min(self.lanes.width, upper - start)  # lanes that take part
                self.block(build, op.body.block, stores)
            self.width = self.lanes.width
            return

        def body(inner: Build, at: SSAValue, _: list[SSAValue]) -> Sequence[SSAValue]:
            """Emit one iteration for all lanes."""
            self.copies[counter] = at  # the counter is the same for all lanes
            self.block(inner, op.body.block, stores)
            return ()

        lower, upper, step = (known(self.copies.get(bound, bound)) for bound in (op.lb, op.ub, op.step))
        hoisted = self.lanes.hoisted.get(op.body.block, ())
        if not hoisted:
            build.loop(lower, upper, step, (), body)
            return
        inner = build.when(build.compare("slt", lower, upper))
        self._hoist(inner, hoisted)
        inner.loop(lower, upper, step, (), body)
        inner.end()

    def _hoist(self, build: Build, loads: Sequence[memref.LoadOp]) -> None:
        """Emit strided loads lane by lane, without a loop: LLVM does not vectorize a loop over gaps."""
        for op in loads:
            self.memory_of[op.res] = self._memory(build, op.res.type)
        assert isinstance(self.width, int), "streamed loops hoist no loads"
        for index in range(self.width):
            lane = build.value(index)
            copies = self._copies_of(build, lane)  # `_clone` adds the copies of the loads in this lane
            self._clone(build, loads, lane, copies)
            for op in loads:
                build.op(memref.StoreOp.get(copies[op.res], self.memory_of[op.res], [lane]))

    def _emit_if(self, build: Build, op: scf.IfOp, pending: Sequence[Operation]) -> None:
        """Emit an `scf.if` with loops over lanes in it, after the operations before it that are still `pending`.

        A condition that is equal in all lanes is tested once. Otherwise the first region with loops runs for all lanes
        together if all take it. If one lane does not, each lane takes its own region, lane by lane.
        """
        for result in op.results:
            self.memory_of[result] = self._memory(build, result.type)  # both regions store results, one for each lane
        if op.cond not in self.lanes.varying:
            self._over_lanes(build, pending, consumer=op)
            branches = [functools.partial(self._emit_branch, op, region) for region in op.regions]
            condition = self.copies.get(op.cond, op.cond)  # a value from outside of the loop has no copy
            self._choose(build, condition, *branches)
            return
        conditions = self._memory(build, TRUTH)  # the condition of each lane
        self._over_lanes(build, pending, stores=[(op.cond, conditions)], consumer=op)
        self.memory_of.setdefault(op.cond, conditions)
        # The region that is worth running together; there is one, or `op` would be no operation with loops over lanes.
        with_loops = next(
            r for r in op.regions if any(inner in self.lanes.ops_with_lane_loops for inner in r.block.ops)
        )

        def takes_other(inner: Build, lane: SSAValue, _: Copies) -> SSAValue:
            """Emit whether a lane does not take the region `with_loops`, an i1."""
            takes_first = inner.let(memref.LoadOp.get(conditions, [lane]))
            if with_loops is op.true_region:
                return inner.let(arith.XOrIOp(takes_first, inner.entry.constant(1, TRUTH)))
            return takes_first

        lane_by_lane = functools.partial(self._lane_by_lane, op)
        together = functools.partial(self._emit_branch, op, with_loops)
        self._choose(build, self._any_lane(build, takes_other), then=lane_by_lane, other=together)

    def _emit_branch(self, op: scf.IfOp, region: Region, build: Build) -> None:
        """Emit one region of the branch `op` for all lanes; the values that it yields are stored in memory."""
        if region.blocks:
            terminator = region.block.last_op
            assert terminator is not None
            results = [self.memory_of[result] for result in op.results]
            self.block(build, region.block, stores=list(zip(terminator.operands, results, strict=True)))

    def _choose(
        self, build: Build, condition: SSAValue, then: Callable[[Build], None], other: Callable[[Build], None]
    ) -> None:
        """Emit an `scf.if` without results: `then` emits its first branch, `other` the else branch."""
        blocks = Block(), Block()
        for emit, block in zip((then, other), blocks, strict=True):
            inner = build.inside(block)
            emit(inner)
            inner.end()
        build.op(scf.IfOp(condition, [], Region(blocks[0]), Region(blocks[1])))

    def _lane_by_lane(self, op: scf.IfOp, build: Build) -> None:
        """Emit a branch as a loop over lanes, each of which takes its own region.

        It works on copies of the memories that it uses, which `memory_of` has for that time: LLVM would not keep the
        values of other code in registers if single lanes read and wrote their memory.
        """
        read = {operand for inner in (op, *_inner_operations(op)) for operand in inner.operands}
        shared = self.memory_of
        self.memory_of = {
            value: self._memory(build, value.type) for value in shared if value in read or value in op.results
        }

        def copy(values: Sequence[SSAValue], source: Copies, target: Copies) -> None:
            """Emit copies of `values` of all lanes from their memories in `source` to those in `target`."""

            def body(inner: Build, lane: SSAValue, _: Copies) -> None:
                """Copy the values of one lane."""
                for value in values:
                    loaded = inner.let(memref.LoadOp.get(source[value], [lane]))
                    inner.op(memref.StoreOp.get(loaded, target[value], [lane]))

            if values:
                self._loop(build, body)

        copy([value for value in self.memory_of if value in read], shared, self.memory_of)
        self._over_lanes(build, [op])
        copy(op.results, self.memory_of, shared)
        self.memory_of = shared

    def _emit_while(self, build: Build, op: scf.WhileOp, pending: Sequence[Operation]) -> None:
        """Emit a loop that runs until no lane continues; the results of a lane do not change once it has ended.

        `pending` are the operations before the loop that have not been emitted yet.
        """
        before, after = op.before_region.block, op.after_region.block
        carried = [self._memory(build, value.type) for value in before.args]
        results = [self._memory(build, value.type) for value in op.results]
        active = self._memory(build, TRUTH)  # for each lane, whether it has not left the loop
        true = build.entry.constant(1, TRUTH)
        initial_stores = [*zip(op.arguments, carried, strict=True), (true, active)]
        self._over_lanes(build, pending, stores=initial_stores, consumer=op)
        self.memory_of.update(zip(before.args, carried, strict=True))
        for values in (after.args, op.results):
            self.memory_of.update(zip(values, results, strict=True))
        condition, repeat = before.last_op, after.last_op
        assert isinstance(condition, scf.ConditionOp) and repeat is not None

        def test(inner: Build, lane: SSAValue, copies: Copies) -> SSAValue:
            """Emit the first region of the `scf.while` in one lane, and return whether the lane continues.

            The results of a lane that has ended are not changed.
            """
            self._clone(inner, [child for child in before.ops if child is not condition], lane, copies)
            was_active = inner.let(memref.LoadOp.get(active, [lane]))
            for value, memory in zip(condition.args, results, strict=True):
                old = inner.let(memref.LoadOp.get(memory, [lane]))
                new = self._resolve(inner, value, lane, copies)
                inner.op(memref.StoreOp.get(inner.let(arith.SelectOp(was_active, new, old)), memory, [lane]))
            # A choice, not a conjunction: the condition of a lane that has ended may be undefined.
            holds, ended = self._resolve(inner, condition.condition, lane, copies), build.entry.constant(0, TRUTH)
            goes_on = inner.let(arith.SelectOp(was_active, holds, ended))
            inner.op(memref.StoreOp.get(goes_on, active, [lane]))
            return goes_on

        head, body = Block(), Block()
        test_build, body_build = build.inside(head), build.inside(body)
        test_build.op(scf.ConditionOp(self._any_lane(test_build, test)))
        operations = [child for child in after.ops if child is not repeat]
        next_stores = list(zip(repeat.operands, carried, strict=True))
        self._over_lanes(body_build, operations, stores=next_stores, consumer=repeat)
        body_build.end()
        build.op(scf.WhileOp([], [], Region(head), Region(body)))

    def _memory(self, build: Build, type_: Attribute) -> SSAValue:
        """Allocate an element of this type for each lane on the stack, at the entry, and return the memref."""
        allocation = memref.AllocaOp.get(type_, shape=[self.lanes.width])
        allocation.location = build.origin.location
        build.entry.insert(allocation)
        return allocation.results[0]

    def _over_lanes(
        self, build: Build, operations: Sequence[Operation], *, stores: Stores = (), consumer: Operation | None = None
    ) -> None:
        """Emit a loop over the lanes with operations of one block. Results that are used after it are stored, too.

        Args:
            build: The builder.
            operations: The operations, in order; none if there are only stores.
            stores: Values that are stored at the end of an iteration, and the memory of each.
            consumer: The operation that reads the stored values from their memories, such as the terminator of the
                block; None if there is none. That it uses a result is no reason to store the result once more.
        """
        for op in operations:
            for result in op.results:
                if result not in self.memory_of and self._is_used_elsewhere(result, operations, consumer):
                    self.memory_of[result] = self._memory(build, result.type)
        stores_of_results = [
            (result, self.memory_of[result]) for op in operations for result in op.results if result in self.memory_of
        ]
        if not operations and not stores:
            return

        def body(inner: Build, lane: SSAValue, copies: Copies) -> None:
            """Execute the operations in one lane, and store the values that are read elsewhere."""
            self._clone(inner, operations, lane, copies)
            values = [
                (self._resolve(inner, value, lane, copies), memory) for value, memory in (*stores_of_results, *stores)
            ]
            for value, memory in values:
                inner.op(memref.StoreOp.get(value, memory, [lane]))

        self._loop(build, body)

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

    def _loop(self, build: Build, body: Callable[[Build, SSAValue, Copies], None]) -> None:
        """Emit a parallel loop over the lanes; `body` emits one iteration from a builder, the lane, and the map from
        values of the original loop to their values in this lane.
        """
        block = Block(arg_types=[INDEX])
        inner = build.inside(block)
        body(inner, block.args[0], self._copies_of(inner, block.args[0]))
        inner.op(scf.ReduceOp())
        self._parallel(build, block, initial=())

    def _parallel(self, build: Build, body: Block, *, initial: Sequence[SSAValue]) -> Operation:
        """Emit a parallel loop over the lanes, and return it; `initial` has the initial value of each reduction."""
        lower, upper, step = ([build.value(index)] for index in (0, self.width, 1))
        loop = build.op(scf.ParallelOp(lower, upper, step, Region(body), initial))
        if self.width == LANES:
            loop.attributes[WHOLE_VECTORS] = UnitAttr()
        return loop

    def _any_lane(self, build: Build, body: Callable[[Build, SSAValue, Copies], SSAValue]) -> SSAValue:
        """Emit a loop over the lanes, and return whether `body` holds for one of them, an i1."""
        block, combine = Block(arg_types=[INDEX]), Block(arg_types=[TRUTH, TRUTH])
        inner, combined = build.inside(block), build.inside(combine)
        value = body(inner, block.args[0], self._copies_of(inner, block.args[0]))
        either = combined.let(arith.OrIOp(combine.args[0], combine.args[1]))
        combined.op(scf.ReduceReturnOp(either))
        inner.op(scf.ReduceOp([value], [Region(combine)]))
        (result,) = self._parallel(build, block, initial=[build.entry.constant(0, TRUTH)]).results
        return result

    def _copies_of(self, build: Build, lane: SSAValue) -> Copies:
        """Return the copies of values that are equal in all lanes, or that are `lane` plus their value in lane 0."""
        lane_values = {value: build.value(build.plus(first, lane)) for value, first in self.value_in_lane_0.items()}
        return {**self.copies, **lane_values}

    def _clone(self, build: Build, operations: Sequence[Operation], lane: SSAValue, copies: Copies) -> None:
        """Emit clones of operations for one lane; operands that are in memory are loaded.

        `copies` maps values of the original loop to their values in this lane: loads and clones are added to it.
        """
        for op in operations:
            for inner in (op, *_inner_operations(op)):
                for operand in inner.operands:
                    self._resolve(build, operand, lane, copies, op)
            build.insert(op.clone(copies))

    def _resolve(
        self, build: Build, value: SSAValue, lane: SSAValue, copies: Copies, user: Operation | None = None
    ) -> SSAValue:
        """Return the copy of a value in the iteration of a lane: computed, loaded from memory, or rematerialized.

        `user` is the operation whose operand it is, if that is cloned with its regions: a value that these define is
        returned as it is.
        """
        if value in copies:
            return copies[value]
        if value in self.memory_of:
            copies[value] = build.let(memref.LoadOp.get(self.memory_of[value], [lane]))
        elif isinstance(value, OpResult) and self.lanes.is_rematerialized(value) and not _defines(user, value):
            for inner in (value.op, *_inner_operations(value.op)):
                for operand in inner.operands:
                    self._resolve(build, operand, lane, copies, value.op)
            build.insert(value.op.clone(copies))  # adds the clone's results to `copies`
        return copies.get(value, value)


def _inner_operations(op: Operation) -> Iterator[Operation]:
    """Yield all operations in the regions of an operation, also nested ones."""
    return (child for region in op.regions for block in region.blocks for child in walk(block))


def _defines(user: Operation | None, value: SSAValue) -> bool:
    """Return whether a value is the result of an operation in a region of `user`; False without a user."""
    if user is None or not isinstance(value, OpResult):
        return False
    return any(is_inside(value.op, block) for region in user.regions for block in region.blocks)
