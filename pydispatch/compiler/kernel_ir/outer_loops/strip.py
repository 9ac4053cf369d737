"""Emission of the body of a parallel loop for a strip: a block of iterations that run together as lanes of vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import TRUTH, Build, Index, constant_or_value
from pydispatch.compiler.kernel_ir.outer_loops.lane_loops import Copies, LaneLoops, Stores, inner_operations
from pydispatch.compiler.kernel_ir.outer_loops.lanes import Lanes


class Strip(LaneLoops):
    """Emitter of the body of a parallel loop for a strip: a block of consecutive iterations, its lanes.

    Sequential loops of the body are emitted once, around parallel loops over the lanes. A caller creates a `Strip`, and
    calls `emit_block` once, with the body of the parallel loop.
    """

    def __init__(self, lanes: Lanes, first: Index, copies: Copies, width: Index | None = None) -> None:
        """Create the emitter of the strip whose lane 0 is iteration `first`.

        Args:
            lanes: The analysis of the parallel loop.
            first: Iteration of lane 0.
            copies: Copies of the values from outside of the strip, such as counters of outer loops.
            width: Lanes of the strip; None for `lanes.width`. It may be a value if `lanes.is_streamed`.
        """
        super().__init__(lanes, first, copies, lanes.width if width is None else width)

    def emit_block(self, build: Build, block: Block, stores: Stores) -> None:
        """Emit the operations of a block of the original loop for all lanes, and at its end the stores `stores`.

        Operations between two sequential loops share one loop over lanes: `a; b; for j {c}; d` becomes

            for each lane {a; b}
            for j { for each lane {c} }
            for each lane {d; stores}

        An operation with equal results in all lanes is emitted once instead, before the loop over lanes that it would
        be in. The terminator is not emitted: its operands are among the stores.

        Args:
            build: The builder.
            block: The body of the parallel loop, or of a loop or branch in it.
            stores: Values that the block passes on, and the memory of each: the next carried values of a loop, or the
                results of a branch.
        """
        *operations, terminator = block.ops
        hoisted = self.lanes.hoisted.get(block, ())
        pending: list[Operation] = []  # of the next loop over lanes
        for op in operations:
            if op in self.lanes.ops_with_lane_loops:
                self._emit_loop(build, op, pending)
                pending = []
            elif self.lanes.is_uniform(op):
                build.insert(op.clone(self.copies))
            # Integers of the lane are rematerialized where they are used; hoisted loads were emitted before the loop.
            elif not self._is_lane_integer(op) and op not in hoisted:
                pending.append(op)
        # With `consumer`, a pending value that only the terminator reads is stored by `stores`, and in no other memory.
        self.over_lanes(build, pending, stores=stores, consumer=terminator)

    def _is_lane_integer(self, op: Operation) -> bool:
        """Return whether an operation computes integers from the number of the lane inexpensively.

        It is rematerialized in each loop over lanes that uses the results, which saves memory for each lane.
        """
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
        """Emit a sequential loop with loops over lanes inside, after the operations before it that are still `pending`.

        Carried values are in memory, which has an element for each lane:

        `t = for j in 0..n iter(s = a) { yield s + x[j, lane] }` becomes, with a memory `m` of 16 elements,

            for each lane { pending operations; m[lane] = a }
            for j in 0..n { for each lane { m[lane] = m[lane] + x[j, first + lane] } }

        and later code reads the result from `m`.
        """
        _, *carried = op.body.block.args
        # One memory has the initial values, the carried values and the results. The initial values are stored before
        # the loop, and the next ones at the end of each iteration.
        memories = [self.memory(build, value.type) for value in carried]
        # With `consumer`, a pending value that only the loop reads, as an initial value, gets no other memory.
        self.over_lanes(build, pending, stores=list(zip(op.iter_args, memories, strict=True)), consumer=op)
        self.memory_of.update(zip(carried, memories, strict=True))
        self.memory_of.update(zip(op.results, memories, strict=True))
        terminator = op.body.block.last_op
        assert terminator is not None
        stores = list(zip(terminator.operands, memories, strict=True))
        starts = self.lanes.unrolled_starts(op)
        if starts is not None:  # the first counter is the number of the lane
            self._emit_unrolled(build, op, starts)
        else:
            self._emit_counted(build, op, stores)

    def _emit_counted(self, build: Build, op: scf.ForOp, stores: Stores) -> None:
        """Emit a sequential loop whose counter is equal in all lanes, with the body of `op` for all lanes.

        stores: pairs (value, memory), stored at the end of an iteration. The emitted loop carries no SSA values.
        """

        def body(inner: Build, new_counter: SSAValue, _: list[SSAValue]) -> Sequence[SSAValue]:
            """Emit one iteration of the emitted loop, whose counter is `new_counter`, for all lanes."""
            self.copies[op.body.block.args[0]] = new_counter
            self.emit_block(inner, op.body.block, stores)
            return ()

        # The bounds are the same for all lanes: those that are computed in the parallel loop have copies.
        lower, upper, step = (constant_or_value(self.copies.get(bound, bound)) for bound in (op.lb, op.ub, op.step))
        hoisted = self.lanes.hoisted.get(op.body.block, ())
        if not hoisted:
            build.loop(lower, upper, step, (), body)
            return
        # Hoisted loads must not be executed if the loop has no iteration.
        inner = build.when(build.compare("slt", lower, upper))
        self._hoist(inner, hoisted)
        inner.loop(lower, upper, step, (), body)
        inner.end()

    def _emit_unrolled(self, build: Build, op: scf.ForOp, starts: Sequence[int]) -> None:
        """Emit, one after another, the steps of a loop whose first counter is the number of the lane.

        In a step, lane l has the counter start + l: in `for j = lane to 16 step 8`, lane 3 has 3 in the first step and
        11 in the second. A lane whose counter is not below the upper bound takes no step.

        starts: counter of lane 0 in each step.
        """
        upper = constant_or_value(op.ub)
        assert isinstance(upper, int)
        for start in starts:
            self.value_in_lane_0[op.body.block.args[0]] = start
            self.width = min(self.lanes.width, upper - start)  # lanes that take part
            self.emit_block(build, op.body.block, stores=())  # such a loop carries no values
        self.width = self.lanes.width  # code after the loop is for all lanes again

    def _hoist(self, build: Build, loads: Sequence[memref.LoadOp]) -> None:
        """Emit strided loads of the body of a sequential loop before that loop, and store their results for each lane.

        Each lane has its own copy of the loads, since LLVM does not vectorize a loop over lanes with strided loads.
        """
        for op in loads:
            self.memory_of[op.res] = self.memory(build, op.res.type)
        assert isinstance(self.width, int), "streamed loops hoist no loads"
        for index in range(self.width):
            lane = build.value(index)
            copies = self.copies_of(build, lane)  # `clone` adds the copies of the loads in this lane
            self.clone(build, loads, lane, copies)
            for op in loads:
                build.op(memref.StoreOp.get(copies[op.res], self.memory_of[op.res], [lane]))

    def _emit_if(self, build: Build, op: scf.IfOp, pending: Sequence[Operation]) -> None:
        """Emit an `scf.if` with sequential loops in it, after the operations before it that are still `pending`.

        A condition that is equal in all lanes is tested once. Otherwise the first region with loops runs for all lanes
        together if all take it. If one lane does not, each lane takes its own region, lane by lane:

            for each lane { pending operations; conditions[lane] = condition }
            if (any lane takes the other region) { for each lane { the original scf.if } }
            else { the region with loops, for all lanes together }
        """
        for result in op.results:
            self.memory_of[result] = self.memory(build, result.type)  # both regions store results, one for each lane
        # A condition that is equal in all lanes.
        if op.cond not in self.lanes.varying:
            self.over_lanes(build, pending, consumer=op)
            branches = [functools.partial(self._emit_branch, op, region) for region in op.regions]
            condition = self.copies.get(op.cond, op.cond)  # a value from outside of the loop has no copy
            self._choose(build, condition, *branches)
            return
        # A condition of each lane: store it, and test whether a lane takes the other region.
        # With `consumer`, a pending value that only the branch reads, as its condition, gets no other memory.
        conditions = self.memory(build, TRUTH)
        self.over_lanes(build, pending, stores=[(op.cond, conditions)], consumer=op)
        self.memory_of.setdefault(op.cond, conditions)
        # The first region with sequential loops; `_covers_if` requires that there is one.
        with_loops = next(
            r for r in op.regions if any(inner in self.lanes.ops_with_lane_loops for inner in r.block.ops)
        )
        any_takes_other = self._any_condition(build, conditions, is_wanted=with_loops is not op.true_region)
        lane_by_lane = functools.partial(self._lane_by_lane, op)
        together = functools.partial(self._emit_branch, op, with_loops)
        self._choose(build, any_takes_other, then=lane_by_lane, other=together)

    def _any_condition(self, build: Build, conditions: SSAValue, is_wanted: bool) -> SSAValue:
        """Emit whether the condition of any lane is `is_wanted`, an i1; `conditions` has that of each lane."""

        def has_condition(inner: Build, lane: SSAValue, _: Copies) -> SSAValue:
            """Emit whether the condition of one lane is `is_wanted`."""
            condition = inner.let(memref.LoadOp.get(conditions, [lane]))
            return condition if is_wanted else inner.let(arith.XOrIOp(condition, inner.entry.constant(1, TRUTH)))

        return self.any_lane(build, has_condition)

    def _emit_branch(self, op: scf.IfOp, region: Region, build: Build) -> None:
        """Emit one region of the branch `op` for all lanes; the values that it yields are stored in memory."""
        if region.blocks:
            terminator = region.block.last_op
            assert terminator is not None
            results = [self.memory_of[result] for result in op.results]
            self.emit_block(build, region.block, stores=list(zip(terminator.operands, results, strict=True)))

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

        The memories that the loop uses are copied before it, and its results are copied back after it: LLVM would not
        keep the values of other code in registers if single lanes read and wrote their memory. While the loop is
        emitted, `memory_of` maps values to the copies.
        """
        # New memories for the values in memory that the loop reads, and for its results.
        read = {operand for inner in (op, *inner_operations(op)) for operand in inner.operands}
        original_memories = self.memory_of
        self.memory_of = {
            value: self.memory(build, value.type) for value in original_memories if value in read or value in op.results
        }
        # Copy the values that the loop reads, emit the loop, and copy its results back.
        values_read = [value for value in self.memory_of if value in read]
        self._copy_memories(build, values_read, source=original_memories, target=self.memory_of)
        self.over_lanes(build, [op])
        self._copy_memories(build, op.results, source=self.memory_of, target=original_memories)
        self.memory_of = original_memories

    def _copy_memories(self, build: Build, values: Sequence[SSAValue], source: Copies, target: Copies) -> None:
        """Emit a loop over lanes that copies `values` from their memories in `source` to those in `target`."""

        def body(inner: Build, lane: SSAValue, _: Copies) -> None:
            """Copy one lane's element of `values` from the memories in `source` to those in `target`."""
            for value in values:
                loaded = inner.let(memref.LoadOp.get(source[value], [lane]))
                inner.op(memref.StoreOp.get(loaded, target[value], [lane]))

        if values:
            self.loop_over_lanes(build, body)

    def _emit_while(self, build: Build, op: scf.WhileOp, pending: Sequence[Operation]) -> None:
        """Emit an `scf.while` for all lanes, after the operations before it that are still `pending`.

        The emitted loop runs until the last lane has ended. An `scf.while` has two regions: `before` computes a
        condition and passes values on, `after` computes the next carried values from them:

            carried = initial values
            loop { condition, results = before(carried); if (!condition) break; carried = after(results) }

        It becomes, with `carried`, `results` and `active` in memory, which has an element for each lane,

            for each lane { pending operations; carried = initial values; active = true }
            loop {
                for each lane {
                    condition, passed = before(carried)
                    if (active) { results = passed; active = condition }
                }
                if (no lane is active) break
                for each lane { carried = after(results) }
            }

        A lane that has ended, whose `active` is false, still executes both regions, which have no effects. Its
        `results` do not change, and its `carried` values are not used.
        """
        before, after = op.before_region.block, op.after_region.block
        memories = self._begin_while(build, op, pending)
        # The emitted `scf.while` carries no values. Its first region continues if any lane does; its second region runs
        # `after` for each lane.
        head, body = Block(), Block()
        test_build, body_build = build.inside(head), build.inside(body)
        goes_on = self.any_lane(test_build, functools.partial(self._emit_test, before, memories))
        test_build.op(scf.ConditionOp(goes_on))
        *operations, repeat = after.ops
        next_stores = list(zip(repeat.operands, memories.carried, strict=True))
        self.over_lanes(body_build, operations, stores=next_stores, consumer=repeat)
        body_build.end()
        build.op(scf.WhileOp([], [], Region(head), Region(body)))

    def _begin_while(self, build: Build, op: scf.WhileOp, pending: Sequence[Operation]) -> _WhileMemories:
        """Emit the operations before an `scf.while` and the stores of its initial values; return its memories.

        Code that is emitted afterwards loads the arguments of both regions, and the results, from the memories:
        `before` passes the same values to `after` and to the code after the loop.
        """
        before, after = op.before_region.block, op.after_region.block
        memories = _WhileMemories(
            carried=[self.memory(build, value.type) for value in before.args],
            results=[self.memory(build, value.type) for value in op.results],
            active=self.memory(build, TRUTH),
        )
        # With `consumer`, a pending result that only the loop reads, as an initial value, gets no other memory.
        true = build.entry.constant(1, TRUTH)
        initial_stores = [*zip(op.arguments, memories.carried, strict=True), (true, memories.active)]
        self.over_lanes(build, pending, stores=initial_stores, consumer=op)
        self.memory_of.update(zip(before.args, memories.carried, strict=True))
        self.memory_of.update(zip(after.args, memories.results, strict=True))
        self.memory_of.update(zip(op.results, memories.results, strict=True))
        return memories

    def _emit_test(
        self, block: Block, memories: _WhileMemories, build: Build, lane: SSAValue, copies: Copies
    ) -> SSAValue:
        """Emit the first region of an `scf.while` in one lane, and return whether the lane continues, an i1.

        The region computes the condition and passes values on, the results. While the lane is active, they are stored;
        once its condition was false, its results stay as they are.

        `build` is inside the loop over lanes, and `copies` has the values of the original loop in this lane.
        """
        *operations, condition = block.ops
        assert isinstance(condition, scf.ConditionOp)
        self.clone(build, operations, lane, copies)
        was_active = build.let(memref.LoadOp.get(memories.active, [lane]))
        for value, memory in zip(condition.args, memories.results, strict=True):
            old = build.let(memref.LoadOp.get(memory, [lane]))
            new = self.resolve(build, value, lane, copies)
            build.op(memref.StoreOp.get(build.let(arith.SelectOp(was_active, new, old)), memory, [lane]))
        # A choice, not a conjunction: the condition of a lane that has ended may be undefined.
        holds, ended = self.resolve(build, condition.condition, lane, copies), build.entry.constant(0, TRUTH)
        goes_on = build.let(arith.SelectOp(was_active, holds, ended))
        build.op(memref.StoreOp.get(goes_on, memories.active, [lane]))
        return goes_on


@dataclass(frozen=True)
class _WhileMemories:
    """Memories of an `scf.while`, each with an element for each lane.

    Attributes:
        carried: The memories of the values that the first region takes.
        results: The memories of the values that the first region passes on.
        active: The memory of whether a lane has not left the loop.
    """

    carried: list[SSAValue]
    results: list[SSAValue]
    active: SSAValue
