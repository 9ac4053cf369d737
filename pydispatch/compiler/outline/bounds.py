"""Host checks that the operations of a dispatch stay in bounds, for sizes that are known only at run time.

Kernels clamp computed offsets themselves. The rule of each operation states its other requirements on sizes. Sizes are
host values, so that a call fails before any dispatch runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, cf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from pydispatch.compiler.analysis.known_sizes import Sizes
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.requirements import Equal, NotNegative, Requirement, SliceFits, WindowFits
from pydispatch.compiler.tensor_ops.terms import Term
from pydispatch.errors import CompileError
from pydispatch.ir.affine_maps import has_exact_bounds
from pydispatch.ir.core.locations import location_of, set_location

OVERFLOW_GUARD = 1 << 40
"""A size that exceeds all memory. Larger sizes are clamped to it, so that products of sizes do not overflow."""

Number = int | SSAValue
"""Integer that is known at compile time, or a value of type index that the host computes."""


class Bounds:
    """Emitter of the bounds checks of one operation; they are inserted before it.

    `check_bounds` creates an emitter for each operation. Arithmetic on integers that are known at compile time is
    folded; otherwise operations are emitted.

    Args:
        op: The operation.
        sizes: Sizes of tensors in the block of the operation that are known, or known to be equal.
    """

    def __init__(self, op: Operation, sizes: Sizes) -> None:
        """Begin with no check emitted. For the arguments see the class."""
        self.op, self.sizes = op, sizes

    # -- arithmetic that folds

    def _emit(self, op: Operation) -> Operation:
        """Insert an operation before the checked one, and return it."""
        assert self.op.parent is not None
        set_location(op, self.op)
        self.op.parent.insert_op_before(op, self.op)
        return op

    def _value(self, n: Number) -> SSAValue:
        """Return a number as a value, for which a constant is emitted if necessary."""
        if isinstance(n, SSAValue):
            return n
        return self._emit(arith.ConstantOp.from_int_and_width(n, IndexType())).results[0]

    def _binary(
        self, kind: Callable[[SSAValue, SSAValue], Operation], fold: Callable[[int, int], int], lhs: Number, rhs: Number
    ) -> Number:
        """Return the result of a binary operation on two numbers.

        Args:
            kind: Class of the operation, which is emitted if an operand is known only at run time.
            fold: The same function of integers, which is called if both operands are known now.
            lhs, rhs: The operands.
        """
        if isinstance(lhs, int) and isinstance(rhs, int):
            return fold(lhs, rhs)
        return self._emit(kind(self._value(lhs), self._value(rhs))).results[0]

    def _plus(self, lhs: Number, rhs: Number) -> Number:
        """Return the sum of two numbers or values; nothing is emitted where one is 0."""
        if rhs == 0 or lhs == 0:
            return lhs if rhs == 0 else rhs
        return self._binary(arith.AddiOp, lambda x, y: x + y, lhs, rhs)

    def _times(self, lhs: Number, rhs: int) -> Number:
        """Return the product of a number and a constant; nothing is emitted if the constant is 1."""
        return lhs if rhs == 1 else self._binary(arith.MuliOp, lambda x, y: x * y, lhs, rhs)

    def _minimum(self, lhs: Number, rhs: Number) -> Number:
        """Return the smaller of two signed numbers."""
        return self._binary(arith.MinSIOp, min, lhs, rhs)

    def _maximum(self, lhs: Number, rhs: Number) -> Number:
        """Return the larger of two signed numbers."""
        return self._binary(arith.MaxSIOp, max, lhs, rhs)

    def _compare(self, predicate: str, lhs: Number, rhs: Number) -> SSAValue:
        """Emit the comparison `predicate`, such as "sle", of two numbers, and return its i1."""
        return self._emit(arith.CmpiOp(self._value(lhs), self._value(rhs), predicate)).results[0]

    def _term(self, term: Term) -> Number:
        """Return a size as a number: the integer if it is known, else a value that the host computes."""
        term = self.sizes.resolve(term)
        return term if isinstance(term, int) else self.sizes.value(term, self.op)

    def _require(self, holds: SSAValue | bool, problem: str) -> None:
        """Emit an assertion that `holds` is true. Emit nothing for True; raise CompileError for False.

        problem: the message, without the name of the operation.
        """
        message = f"'{self.op.name}', {problem}"
        if holds is False:
            raise CompileError(message, location_of(self.op))
        if isinstance(holds, SSAValue):
            self._emit(cf.AssertOp(holds, message))

    # -- requirements

    def check(self, requirement: Requirement) -> None:
        """Emit the run-time check of a requirement before the operation; raise CompileError if it can never hold.

        A requirement that is known to hold needs no check.
        """
        match requirement:
            case Equal():
                self._equal(requirement)
            case NotNegative(term, message):
                value = self._term(term)
                self._require(value >= 0 if isinstance(value, int) else self._compare("sge", value, 0), message)
            case SliceFits():
                self._slice(requirement)
            case WindowFits():
                self._window(requirement)

    def _equal(self, equal: Equal) -> None:
        """Emit the check that two sizes are equal, unless that is known; raise CompileError if they cannot be."""
        expected, actual = self.sizes.resolve(equal.expected), self.sizes.resolve(equal.actual)
        if expected == actual:
            return
        if isinstance(expected, int) and isinstance(actual, int):
            self._require(holds=False, problem=equal.message.format(f"{actual} {equal.unit} instead of {expected}"))
        else:
            # The message is text of the compiled program: it cannot state sizes that are known at run time only.
            holds = self._compare("eq", self._term(expected), self._term(actual))
            self._require(holds, equal.message.format(f"another number of {equal.unit}"))

    # -- slices

    def _slice(self, slice_: SliceFits) -> None:
        """Emit the check that a slice stays inside its axis, unless that is known; raise CompileError if it cannot."""
        offset, stride = slice_.offset, slice_.stride
        size, axis_size = self.sizes.resolve(slice_.size), self.sizes.resolve(slice_.axis_size)
        start = 0 if offset is None else offset  # kernels clamp a computed offset so that the slice fits
        where = f"axis {slice_.axis}"
        if start < 0:
            self._require(holds=False, problem=f"{where}: the slice begins at {start}")
        is_whole_axis = start == 0 and stride == 1 and size == axis_size
        if is_whole_axis:
            return
        most = self._most_elements(offset, stride, self._term(size), self._term(axis_size))
        count = self._term(size)
        if isinstance(count, int) and isinstance(most, int):
            self._require(0 <= count <= most, f"{where}: the slice of {count} elements ends outside")
        else:  # "ule" is an unsigned comparison: a negative number of elements is refused, too
            self._require(self._compare("ule", count, most), f"{where}: the slice ends outside")

    def _most_elements(self, offset: int | None, stride: int | SSAValue, size: Number, axis_size: Number) -> Number:
        """Return the maximum number of elements of a slice that stays in bounds. A computed stride of 0 counts as 1.

        A slice that runs forwards has the elements from `offset` to the end of the axis, one in `stride`; one that runs
        backwards those from `offset` down to 0, or none if `offset` is beyond the end. On an axis of 10 elements:

            offset 2, stride 3: 3, the elements 2, 5 and 8
            offset 7, stride -3: 3, the elements 7, 4 and 1
            offset 12, stride -3: 0
            computed offset, stride 3 or -3: 4, the most that fit anywhere

        Args:
            offset: First element of the slice; None for a computed one, which kernels clamp so that the slice fits.
            stride: Distance between two elements; negative for a slice that runs backwards.
            size: Number of elements that the program wants.
            axis_size: Number of elements of the axis.
        """
        # A number is an integer, or a value of the program for which code is emitted.
        start = 0 if offset is None else offset
        elements_from_start = self._maximum(self._plus(axis_size, -start), 0)
        if stride == 0:  # the same element any number of times: `size`, or 0 if the axis has no element at `start`
            has_elements = self._minimum(elements_from_start, 1)  # 1 or 0
            return self._binary(arith.MuliOp, lambda x, y: x * y, has_elements, self._maximum(size, 0))
        if not isinstance(stride, int):
            return self._most_of_computed_stride(offset, stride, elements_from_start)
        forwards = self._steps(elements_from_start, abs(stride))
        # A computed offset is clamped so that the slice fits: in either direction, it may use the whole axis.
        if stride > 0 or offset is None:
            return forwards
        # A backward slice has the elements start, start + stride, ... down to 0. It has none if `start` is outside of
        # the axis: `_elements_down_from` returns 0 for such a start, otherwise start + 1, which is at least `count`. So
        # the minimum of both is 0 or `count`.
        count = start // -stride + 1  # 7 // 3 + 1 = 3 for the elements 7, 4 and 1
        return self._minimum(count, self._elements_down_from(start, elements_from_start))

    def _most_of_computed_stride(self, offset: int | None, stride: SSAValue, elements_from_start: Number) -> Number:
        """Return the maximum number of elements of a slice that stays in bounds, for a stride known at run time only.

        The emitted code computes the numbers for a forward and for a backward slice, and selects one by the sign of the
        stride. On an axis of 10 elements, the offset 7 allows one element with the stride 3: 7. With the stride -3, it
        allows three elements: 7, 4 and 1.

        Args:
            offset: First element of the slice; None for a computed one, which kernels clamp, so that it may use the
                whole axis in either direction: then both numbers are the same.
            stride: Distance between two elements; 0 counts as 1.
            elements_from_start: Number of elements of the axis from `offset` to its end.
        """
        start = 0 if offset is None else offset
        negated = self._binary(arith.SubiOp, lambda x, y: x - y, 0, stride)
        absolute = self._maximum(stride, negated)
        size_of_step = self._maximum(absolute, 1)
        forwards = self._steps(elements_from_start, size_of_step)
        if offset is None:
            return forwards
        # A backward slice has every `size_of_step`-th of the elements start, ..., 0. It has none if `start` is outside
        # of the axis: `_elements_down_from` returns 0 for such a start, otherwise start + 1, which is at least `count`.
        # So the minimum of both is 0 or `count`.
        count = self._steps(self._plus(start, 1), size_of_step)
        backwards = self._minimum(count, self._elements_down_from(start, elements_from_start))
        is_forward = self._compare("sge", stride, 0)
        return self._emit(arith.SelectOp(is_forward, self._value(forwards), self._value(backwards))).results[0]

    def _elements_down_from(self, start: int, elements_from_start: Number) -> Number:
        """Return the number of elements from `start` down to 0: start + 1, or 0 if `start` is outside.

        elements_from_start: number of elements of the axis from `start` on; 0 if `start` is outside.
        """
        is_inside = self._minimum(elements_from_start, 1)  # 1 or 0
        return self._binary(arith.MuliOp, lambda x, y: x * y, is_inside, start + 1)

    def _steps(self, n: Number, step: Number) -> Number:
        """Return how many elements of a run of `n` a stride of `step` visits: n / step, rounded up."""
        return n if step == 1 else self._binary(arith.CeilDivUIOp, lambda x, y: -(-x // y), n, step)

    # -- windows

    def _window(self, window: WindowFits) -> None:
        """Require that sliding windows stay inside the axis that they index, if sizes are dynamic.

        The requirement is an assertion that the host checks before the dispatch. `window.loops` are the numbers of
        iterations, and `window.axis_size` is the number of elements of the axis.
        """
        # Each size is an integer, or a value of the program; that of a loop is None if it is unknown.
        loop_sizes = [None if n is None else self.sizes.resolve(n) for n in window.loops]
        axis_size = self.sizes.resolve(window.axis_size)
        index_sizes = [loop_sizes[d.position] for d in window.index.dfs() if isinstance(d, AffineDimExpr)]
        if any(n is None for n in index_sizes):
            return  # an unknown loop size is an error elsewhere
        if all(isinstance(n, int) for n in (*index_sizes, axis_size)):
            return  # static sizes are verified by the types
        if any(isinstance(n, int) and n < 1 for n in loop_sizes):
            return  # a loop has no iterations: no element is read
        holds = self._windows_fit(window.index, loop_sizes, axis_size)
        self._require(holds, f"operand {window.operand}, axis {window.axis}: the windows end outside")

    def _windows_fit(self, index: AffineExpr, loop_sizes: Sequence[Term | None], axis_size: Term) -> SSAValue:
        """Emit the condition `0 <= lowest index and highest index < axis_size, or a loop has no iterations`.

        A convolution of %n outputs with 3 taps has the index d0 + d1 of its input, for loops of %n and 3 iterations.
        The condition is `%n + 1 < axis_size or %n <= 0`, without the part that always holds.

        Args:
            index: Index of the axis as a function of the loops.
            loop_sizes: Number of iterations of each loop; None if unknown, for loops that the index does not depend on.
            axis_size: Number of elements of the axis.
        """
        # (0, 0): the kernel clamps an index whose range is not exact to the axis. So the axis only needs an element 0.
        low, high = self._index_range(index, loop_sizes) if has_exact_bounds(index) else (0, 0)
        holds = self._compare("slt", high, self._term(axis_size))
        is_low_inside = isinstance(low, int) and low >= 0
        if not is_low_inside:
            holds = self._emit(arith.AndIOp(holds, self._compare("sge", low, 0))).results[0]
        dynamic_sizes = list(dict.fromkeys(n for n in loop_sizes if n is not None and not isinstance(n, int)))
        if dynamic_sizes:  # a loop has no iterations if the minimum of the sizes is 0
            shortest = self._term(dynamic_sizes[0])
            for n in dynamic_sizes[1:]:
                shortest = self._minimum(shortest, self._term(n))
            holds = self._emit(arith.OrIOp(holds, self._compare("sle", shortest, 0))).results[0]
        return holds

    def _index_range(self, expr: AffineExpr, loop_sizes: Sequence[Term | None]) -> tuple[Number, Number]:
        """Return the least and the largest value of an index expression, whose range is exact (`has_exact_bounds`).

        With static sizes both are integers; otherwise operations that compute them are emitted. The index d0 * 2 + d1
        with loops of 5 and 3 iterations has the range (0, 10). A loop without iterations has no index: the returned
        range then means nothing.

        loop_sizes: number of iterations of each loop, a dimension of the expression.
        """
        if isinstance(expr, AffineConstantExpr):
            return expr.value, expr.value
        if isinstance(expr, AffineDimExpr):
            size = loop_sizes[expr.position]
            assert size is not None
            # A larger size is out of bounds in any case; capped, it cannot overflow the index computations.
            return 0, self._plus(self._minimum(self._term(size), OVERFLOW_GUARD), -1)
        assert isinstance(expr, AffineBinaryOpExpr)
        # If an operand is a constant, it becomes `b`.
        a, b = (expr.rhs, expr.lhs) if isinstance(expr.lhs, AffineConstantExpr) else (expr.lhs, expr.rhs)
        low, high = self._index_range(a, loop_sizes)
        if expr.kind is AffineBinaryOpKind.Add:
            other = self._index_range(b, loop_sizes)
            return self._plus(low, other[0]), self._plus(high, other[1])
        assert isinstance(b, AffineConstantExpr)
        return self._range_with_constant(expr.kind, low, high, b.value)

    def _range_with_constant(
        self, kind: AffineBinaryOpKind, low: Number, high: Number, n: int
    ) -> tuple[Number, Number]:
        """Return the range of `x KIND n` for an x from `low` to `high`; n is positive in divisions and remainders."""
        if kind is AffineBinaryOpKind.Mul:
            low, high = (low, high) if n >= 0 else (high, low)
            return self._times(low, n), self._times(high, n)
        if kind is AffineBinaryOpKind.Mod:  # x is a loop index (`has_exact_bounds`): it has all values from 0 to `high`
            return 0, self._minimum(high, n - 1)
        if kind is AffineBinaryOpKind.CeilDiv:  # ceil(x / n) is floor((x + n - 1) / n)
            low, high = self._plus(low, n - 1), self._plus(high, n - 1)
        return self._quotient(low, n), self._quotient(high, n)

    def _quotient(self, a: Number, n: int) -> Number:
        """Return the quotient of `a` by `n`, which is positive, rounded down."""
        return self._binary(arith.FloorDivSIOp, lambda x, y: x // y, a, n)


def check_bounds(group: Sequence[Operation], sizes: Sizes) -> None:
    """Emit the bounds checks of operations that are about to become a dispatch, each before its operation.

    Raises CompileError for a requirement that can never hold.

    Args:
        group: The operations.
        sizes: Sizes of tensors in their block that are known, or known to be equal.
    """
    for op in group:
        rule = rule_of(op)
        if rule is not None:
            bounds = Bounds(op, sizes)
            for requirement in rule.requirements(op):
                bounds.check(requirement)
