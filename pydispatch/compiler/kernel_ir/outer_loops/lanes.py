"""Analysis of a parallel loop: which values differ between its lanes, and which loops in it can be interchanged.

Lanes are the iterations that run together as elements of vectors. A strip is a block of consecutive lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.build import constant_or_value
from pydispatch.compiler.kernel_ir.outer_loops.interleaved import interleaved_loads
from pydispatch.compiler.kernel_ir.readers import counts_indices
from pydispatch.compiler.kernel_ir.stack import MOST_OPTIMIZED_BYTES
from pydispatch.ir.core.walk import is_defined_outside, is_inside, walk
from pydispatch.ir.op_info import Cost, info_of

LANES = 16
"""Number of iterations of a strip, a block of iterations that run together: the widest vector of x86 has 16 elements of
32 bits. With more iterations, values leave registers."""

STREAMED_LANES = 64
"""Number of iterations of a strip, in place of `LANES`, if the loops in it carry no values. All lanes then write 256
contiguous bytes of f32 in each iteration of such a loop. With `LANES` they would access a single cache line of a row,
which prefetchers do not follow."""

MOST_BYTES = 32 << 10
"""Maximum bytes of the values of all lanes of one loop on the stack. It leaves room for those of other loops."""

MOST_STRIPS = 2
"""Maximum number of strips of a short loop, one that ends at min(n, c) where the constant c is at most so many strips.
LLVM would run most of its iterations in the scalar rest of a vector loop. See `_ends_at_small_minimum`."""

MOST_UNROLLED = 4
"""Maximum iterations of a sequential loop whose first index is the number of the lane. It is unrolled, and each
iteration has its own number of lanes: in `for j = lane to 10 step 8`, only lanes 0 and 1 have a second iteration."""


_WORKGROUP_ID = "hal.interface.workgroup.id"
"""Operation whose result is the same in all lanes."""
_ACCESSES_AND_TERMINATORS = (
    memref.LoadOp, memref.StoreOp, memref.AtomicRMWOp, scf.YieldOp, scf.ConditionOp, scf.ReduceOp
)  # fmt: skip
"""Operations with effects, and terminators, that an iteration may have. Of these, only an `scf.reduce` that combines
results of a reduction has regions."""

MOST_BYTES_OF_VALUE = 8
"""Size in bytes of a lane's value in the estimate of stack memory: no value is larger than 64 bits."""


class Lanes:
    """Analysis of one parallel loop, whose iterations along the last axis are lanes: can they run in strips?

    A strip is a block of consecutive iterations that take each step of the sequential loops in the body together. The
    loop is interchanged with these: they contain loops over the lanes of the strip, which fill vectors.

    Attributes:
        loop: The loop.
        lane: Its counter along the last axis.
        varying: Values that may differ between lanes.
        lane_integers: Varying integers that are inexpensive to compute from `lane` alone; they are rematerialized where
            they are used, and take no memory.
        width: Lanes of a strip: all iterations if an inner loop starts at a different counter in each lane, at most
            `STREAMED_LANES` if `is_streamed`, otherwise `LANES`.
        is_streamed: Whether the loops of a strip carry no values, so that they only write memory.
        ops_with_lane_loops: The sequential loops that are interchanged, and so contain loops over lanes, and the
            branches that contain them.
        hoisted: Body of an inner loop -> strided loads in it that are executed before that loop.
        refusal: The operation because of which the loop stays as it is, and why; None if it is interchanged.
    """

    def __init__(self, loop: scf.ParallelOp, read_only: frozenset[SSAValue], most_bytes: int) -> None:
        """Create an analysis in which only the counter of the loop differs between lanes; `of` then analyzes the body.

        Lanes are the iterations along the last axis that run together in a strip, as elements of vectors.

        Args:
            loop: The loop.
            read_only: Memrefs that nothing in the function writes.
            most_bytes: Bytes of the stack that the values of all lanes may take.
        """
        self.loop = loop
        self.lane: SSAValue = loop.body.block.args[-1]
        self._read_only, self._most_bytes = read_only, most_bytes
        self.varying: set[SSAValue] = {self.lane}  # values that may differ between lanes
        self.lane_integers: set[SSAValue] = {self.lane}  # varying integers that are inexpensive to compute from `lane`
        self.ops_with_lane_loops: set[Operation] = set()  # sequential loops, and branches that contain them
        self.hoisted: dict[Block, list[memref.LoadOp]] = {}  # body of a sequential loop -> loads executed before it
        self.refusal: tuple[Operation, str] | None = None  # operation that prevents strips, and why
        high = constant_or_value(loop.upperBound[-1])
        # Iterations along the last axis: the upper bound, since `of` refuses loops that do not run from 0 by 1. 0 if it
        # is not a constant.
        self._iterations = high if isinstance(high, int) else 0
        self.width = LANES  # lanes of a strip
        self.is_streamed = False  # whether strips are wider, since no sequential loop carries values

    @classmethod
    def of(cls, loop: scf.ParallelOp, read_only: frozenset[SSAValue], allocated_bytes: int = 0) -> Lanes:
        """Analyze a parallel loop, and return the analysis; its `refusal` is set if the loop is to stay as it is.

        A strip is a block of `LANES` consecutive iterations that take each step of the sequential loops in the body
        together. The last axis must count from 0 by 1 and may not be known to have fewer than `LANES` iterations.
        Strips pay if there is a sequential loop in the body: LLVM vectorizes innermost loops alone. Without one they
        pay only if the upper bound is a minimum with a small constant: LLVM would run most of these few iterations one
        by one.

        Args:
            loop: The loop.
            read_only: Memrefs that nothing in the function writes.
            allocated_bytes: Bytes of the stack that the function allocates without strips of this loop.
        """
        lanes = cls(loop, read_only, min(MOST_BYTES, MOST_OPTIMIZED_BYTES - allocated_bytes))
        low, high, step = (constant_or_value(side[-1]) for side in (loop.lowerBound, loop.upperBound, loop.step))
        if isinstance(high, int) and high < LANES:
            lanes._refuse(loop, f"there are fewer than {LANES} invocations along axis 0")
        elif loop.initVals or low != 0 or step != 1:
            lanes._refuse(loop, "the loop is a reduction, or does not begin at 0")
        # `_covers` walks the body, fills `varying` and the other attributes, and records refusals itself.
        elif lanes._covers(loop.body.block):
            if lanes.ops_with_lane_loops:
                lanes._widen_streams()
            elif not lanes._pays_without_loops(loop.body.block):
                lanes._refuse(loop, "there is no loop in it")
        if not lanes._has_stack_for(lanes.width):
            lanes._refuse(loop, "there are too many variables for the stack")
        return lanes

    def _widen_streams(self) -> None:
        """Make strips wider if the sequential loops carry no values, and the stack has room for the wider strips.

        Each step then writes several successive cache lines, which prefetchers follow.
        """
        width = min(STREAMED_LANES, self._iterations or STREAMED_LANES)
        if self._only_streams() and self._has_stack_for(width):
            self.is_streamed, self.width = True, width

    def _has_stack_for(self, width: int) -> bool:
        """Return whether the stack has room for the values of strips with `width` lanes.

        Lane integers take none: they are computed at each use.
        """
        variables = self.varying - self.lane_integers
        return len(variables) * MOST_BYTES_OF_VALUE * width <= self._most_bytes

    def _pays_without_loops(self, block: Block) -> bool:
        """Return whether strips of lanes pay for a loop whose body has no sequential loops.

        LLVM vectorizes such a loop itself, unless its upper bound is a minimum with a small constant.
        """
        return _ends_at_small_minimum(self.loop) and self._fills_vectors(block)

    def _only_streams(self) -> bool:
        """Return whether the sequential loops in the body need no memory for each lane, so that strips may be wide.

        No sequential loop may carry values or have loads hoisted out of it, and its first counter must be the same for
        all lanes.
        """
        # `_covers_for` changes the width for a loop whose first counter is the number of the lane.
        has_common_counters = self.width == LANES
        return has_common_counters and all(
            isinstance(op, scf.ForOp) and not op.results and op.body.block not in self.hoisted
            for op in self.ops_with_lane_loops
        )

    def _refuse(self, op: Operation, reason: str) -> bool:
        """Record why the loop is not interchanged, unless a reason is recorded already, and return False.

        Args:
            op: The operation that prevents it.
            reason: A clause for the report of `vectorize_outer_loops`.
        """
        self.refusal = self.refusal or (op, reason)
        return False

    def is_uniform(self, op: Operation) -> bool:
        """Return whether an operation has one result for all lanes, and no effect.

        A load is uniform if nothing writes its memory and its indices are the same for all lanes. An `scf.if` is
        uniform if all operations in it are.
        """
        if not self.varying.isdisjoint(op.operands):
            return False
        if isinstance(op, scf.IfOp):
            inner_operations = (inner for region in op.regions for block in region.blocks for inner in block.ops)
            return all(self.is_uniform(inner) for inner in inner_operations)
        is_load = isinstance(op, memref.LoadOp) and op.memref in self._read_only
        has_no_effect = is_load or info_of(op).is_pure or isinstance(op, scf.YieldOp) or op.name == _WORKGROUP_ID
        return has_no_effect and not op.regions

    def unrolled_starts(self, op: scf.ForOp) -> list[int] | None:
        """Return the counters of lane 0 in a loop whose first counter is the number of the lane; None for other loops.

        In `for j = lane to 16 step 8`, lane 0 has the counters 0 and 8, lane 3 has 3 and 11. Return None, too, if there
        are more than `MOST_UNROLLED`, if the loop carries values, or if its bounds or the number of lanes are unknown.
        """
        upper, step = constant_or_value(op.ub), constant_or_value(op.step)
        is_known = isinstance(upper, int) and isinstance(step, int) and self._iterations != 0
        begins_at_lane = op.lb is self.lane
        if not begins_at_lane or not is_known or op.results:
            return None
        counters = list(range(0, upper, step))  # type: ignore[arg-type]
        return counters if len(counters) <= MOST_UNROLLED else None

    def _covers(self, block: Block) -> bool:
        """Record the values and loops of a block, and return whether lanes can run all of it together."""
        return all(self._covers_operation(op) for op in block.ops)

    def _covers_operation(self, op: Operation) -> bool:
        """Return whether lanes can run an operation together; record its results that differ between lanes as
        `varying`.

        Lanes run a sequential loop together if each of its iterations is executed for all lanes before the next one. If
        an operation does not allow that order, the reason is recorded as the refusal.

        Integers that are inexpensive to compute from the lane, such as `2 * lane + n`, are recorded in `lane_integers`,
        too: they are computed at each use instead of being stored for each lane.
        """
        if isinstance(op, scf.ForOp):
            return self._covers_for(op)
        if isinstance(op, scf.WhileOp):
            return self._covers_while(op)
        if isinstance(op, scf.IfOp):
            return self._covers_if(op)
        if isinstance(op, _ACCESSES_AND_TERMINATORS):
            # A loaded value varies, also of equal indices, if something in the function writes the memory.
            if not self.is_uniform(op):
                self.varying.update(op.results)
            combines_results = bool(op.regions)  # an `scf.reduce` with results
            return not combines_results or self._refuse(op, "it is a reduction")  # _refuse() returns False
        return self._covers_pure(op)

    def _covers_pure(self, op: Operation) -> bool:
        """Return whether lanes can run an operation that is no loop, branch or access: whether it has no effects.

        Record its results as `varying` if one of its operands varies, or record the refusal.
        """
        info = info_of(op)
        if op.regions or not (info.is_pure or op.name == _WORKGROUP_ID):
            return self._refuse(op, f"'{op.name}' has effects")
        operands = self.varying.intersection(op.operands)
        if operands:
            self.varying.update(op.results)
            is_integer = all(isinstance(result.type, IndexType | IntegerType) for result in op.results)
            if is_integer and info.cost <= Cost.SHORT and operands <= self.lane_integers:
                self.lane_integers.update(op.results)
        return True

    def _covers_if(self, op: scf.IfOp) -> bool:
        """Return whether lanes can run an `scf.if` together, and record its results if they differ between lanes.

        If there are loops over lanes in it, its results are stored in memory for each lane. Lanes cannot run it
        together if the type of a result cannot be stored.
        """
        blocks = [block for region in op.regions for block in region.blocks]
        if not all(map(self._covers, blocks)):
            return False
        if self.is_uniform(op):  # its results are the same for all lanes
            return True
        self.varying.update(op.results)
        if any(inner in self.ops_with_lane_loops for block in blocks for inner in block.ops):
            self.ops_with_lane_loops.add(op)
            return self._fits_lane_memory(op, op.results)
        return True

    def _fits_lane_memory(self, op: Operation, values: Sequence[SSAValue]) -> bool:
        """Return whether values that `op` defines can be stored in memory with an element for each lane; refuse `op` if
        not.
        """
        refused_type = next((value.type for value in values if not _fits(value.type)), None)
        # _refuse() records the reason, and returns False.
        return refused_type is None or self._refuse(op, f"values of {refused_type} cannot be stored for each lane")

    def _covers_for(self, op: scf.ForOp) -> bool:
        """Return whether lanes can run an `scf.for` together, and record the values that differ between lanes as
        `varying`.

        There are two forms: a loop whose bounds are equal in all lanes, and a loop such as `for j = lane to 16 step 8`,
        whose counter begins at the number of the lane (`unrolled_starts`). The carried values and results vary, even if
        all lanes begin with equal ones. The loop is recorded in `ops_with_lane_loops`.
        """
        # The two forms; other loops are refused.
        counter, *carried = op.body.block.args
        if not counts_indices(op):
            return self._refuse(op, "the counter of the loop is no signed index")
        if self.unrolled_starts(op) is not None:
            self.varying.add(counter)
            self.lane_integers.add(counter)
            self.width = self._iterations  # one strip of all lanes: the unrolled steps are for lanes from 0 on
        elif not self.varying.isdisjoint((op.lb, op.ub, op.step)):
            return self._refuse(op, "the bounds of the loop differ between invocations")
        # The values of the loop, and then the operations of its body.
        self.varying.update(carried)
        self.varying.update(op.results)
        self.ops_with_lane_loops.add(op)
        body = op.body.block
        if not (self._covers(body) and self._fills_vectors(body) and self._fits_lane_memory(op, op.results)):
            return False
        # `_fills_vectors` has recorded strided loads of the body in `hoisted`: they are executed before the loop. In an
        # unrolled loop some lanes may take no step, and must not load.
        # _refuse() records the reason, and returns False.
        may_hoist = self.unrolled_starts(op) is None
        return may_hoist or body not in self.hoisted or self._refuse(op, "it reads memory with a stride")

    def _covers_while(self, op: scf.WhileOp) -> bool:
        """Return whether lanes can run an `scf.while` together, and record the values that differ between lanes as
        `varying`.

        The loop runs until the last lane has left it. Its regions are executed for lanes that have left it, too, so
        that all operations in them must be pure and must not trap.
        """
        blocks = [region.blocks[0] for region in op.regions]
        for inner in (inner for block in blocks for inner in walk(block)):
            is_pure = info_of(inner).is_pure and not info_of(inner).traps and not inner.regions
            # Branches and terminators are accepted: `walk` also visits the operations inside of branches.
            if not is_pure and not isinstance(inner, scf.IfOp | scf.YieldOp | scf.ConditionOp):
                return self._refuse(inner, "a loop that may end early has memory or loops in it")
        for block in blocks:
            self.varying.update(block.args)
        self.varying.update(op.results)
        self.ops_with_lane_loops.add(op)
        arguments = [value for block in blocks for value in block.args]
        return self._fits_lane_memory(op, arguments) and all(map(self._covers, blocks))

    def _fills_vectors(self, block: Block) -> bool:
        """Return whether LLVM can vectorize the memory accesses of a loop body across the lanes; refuse them if not.

        The last index of an access decides, while the others must be equal in all lanes. In a loop over k:

        - `x[k, lane]` is contiguous, and `x[lane, k]` is strided, which prevents vectorization.
        - A load of `x[k]` is the same for all lanes.
        - A strided load of read-only memory that is the same in all iterations, such as `x[lane, 0]`, is recorded in
          `hoisted`: it is executed before the loop.
        - Strided loads are accepted if they form interleaved groups, such as `x[2 * lane]` and `x[2 * lane + 1]`, see
          `interleaved_loads`.

        An innermost loop with atomic operations is refused, because LLVM does not vectorize it.
        """
        interleaved = interleaved_loads(block, self._stride)
        is_innermost = self.ops_with_lane_loops.isdisjoint(block.ops)
        for op in walk(block):
            if isinstance(op, memref.AtomicRMWOp) and is_innermost:
                return self._refuse(op, "the innermost loop has atomic operations")
            if not isinstance(op, memref.LoadOp | memref.StoreOp):
                continue
            # Difference of each index between a lane and the next. An outer one that is no constant, None, counts as 0:
            # the access is then slower, not wrong.
            strides = [self._stride(index) for index in op.indices]
            is_contiguous = bool(strides) and strides[-1] == 1 and not any(strides[:-1])
            if is_contiguous or (isinstance(op, memref.LoadOp) and all(stride == 0 for stride in strides)):
                continue
            # A strided load can be executed before the loop if every iteration executes it, with equal indices.
            is_invariant = op.parent is block and all(self._is_invariant(index, block) for index in op.indices)
            if isinstance(op, memref.LoadOp) and op.memref in self._read_only and is_invariant:
                self.hoisted.setdefault(block, []).append(op)
            elif op not in interleaved:
                verb = "writes" if isinstance(op, memref.StoreOp) else "reads"
                return self._refuse(op, f"it {verb} memory with a stride")
        return True

    def _is_invariant(self, value: SSAValue, block: Block) -> bool:
        """Return whether a value is the same in all iterations of a loop with this body, and may be computed before.

        A value that the loop computes is invariant, too, if it is rematerialized (a pure, inexpensive operation that is
        repeated at each use) and all its operands are invariant.
        """
        if is_defined_outside(value, block):
            return True
        if not isinstance(value, OpResult) or not self.is_rematerialized(value):
            return False
        return all(self._is_invariant(operand, block) for operand in value.op.operands)

    def is_rematerialized(self, value: OpResult) -> bool:
        """Return whether a value of the loop is computed again at each use, instead of being stored for each lane."""
        is_cheap = value in self.lane_integers or self.is_uniform(value.op)
        return is_cheap and is_inside(value.op, self.loop.body.block)

    def _stride(self, index: SSAValue) -> int | None:
        """Return the difference of an index between a lane and the next; None if it is not a constant.

        Lanes are consecutive iterations of the parallel loop: the index 2 * lane + n has the stride 2, and n the stride
        0.
        """
        if index not in self.varying:
            return 0
        if not isinstance(index, OpResult):
            return 1 if index in self.lane_integers else None  # the lane, or the counter of a loop that begins at it
        # Casts, sums, differences and products of such indices.
        op = index.op
        if isinstance(op, arith.IndexCastOp):
            return self._stride(op.operands[0])
        if not isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
            return None
        left, right = (self._stride(operand) for operand in op.operands)
        if left is None or right is None:
            return None
        if isinstance(op, arith.AddiOp):
            return left + right
        if isinstance(op, arith.SubiOp):
            return left - right
        lhs, rhs = map(constant_or_value, op.operands)  # the stride of a product is constant if one factor is
        if isinstance(lhs, int):
            return lhs * right
        return left * rhs if isinstance(rhs, int) else None


def _ends_at_small_minimum(loop: scf.ParallelOp) -> bool:
    """Return whether the upper bound of a loop is `min(n, constant)`, such as min(n, 64), with a small constant.

    The constant is small if it is at most `MOST_STRIPS` strips of `LANES` iterations. The number of iterations is then
    variable and small: LLVM would run most of them in the scalar rest of its vector loop. A constant below `LANES` does
    not count, since no strip would be full.
    """
    end = loop.upperBound[-1].owner
    limits = map(constant_or_value, end.operands) if isinstance(end, arith.MinSIOp) else ()
    return any(isinstance(limit, int) and LANES <= limit <= MOST_STRIPS * LANES for limit in limits)


def _fits(type_: Attribute) -> bool:
    """Return whether values of a type can be stored in an array of memory with an element for each lane."""
    if isinstance(type_, IntegerType):
        return type_.width.data in (1, 8, 16, 32, 64)
    return isinstance(type_, Float16Type | Float32Type | Float64Type | IndexType)
