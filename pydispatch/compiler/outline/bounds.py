"""Host checks that the operations of a dispatch stay in bounds, where sizes are known only at run time.

Kernels clamp computed offsets themselves; they rely on slices that fit, windows that end inside their input, and
reshapes that keep the number of elements. All of these depend on sizes, which are host values: the call fails before
anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.known_sizes import Sizes
from pydispatch.compiler.analysis.sizes import kept_dims, reassociation, size_of, term_of
from pydispatch.compiler.tensor_ops.terms import Term, multiply
from pydispatch.errors import CompileError
from pydispatch.ir.affine_maps import is_exact
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.structured import structured
from pydispatch.ir.values import constant_index, shape_of

LARGEST = 1 << 40
"""A size beyond all memory: larger sizes are clamped to it, so that their products do not overflow."""

Number = int | SSAValue


class Bounds:
    """Emits the checks of one operation before it."""

    def __init__(self, op: Operation, sizes: Sizes) -> None:
        self.op, self.sizes = op, sizes

    # -- arithmetic that folds

    def _put(self, op: Operation) -> Operation:
        assert self.op.parent is not None
        set_location(op, self.op)
        self.op.parent.insert_op_before(op, self.op)
        return op

    def _value(self, n: Number) -> SSAValue:
        if isinstance(n, SSAValue):
            return n
        return self._put(arith.ConstantOp.from_int_and_width(n, IndexType())).results[0]

    def _binary(
        self, kind: Callable[[SSAValue, SSAValue], Operation], fold: Callable[[int, int], int], a: Number, b: Number
    ) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return fold(a, b)
        return self._put(kind(self._value(a), self._value(b))).results[0]

    def _plus(self, a: Number, b: Number) -> Number:
        if b == 0 or a == 0:
            return a if b == 0 else b
        return self._binary(arith.AddiOp, lambda x, y: x + y, a, b)

    def _times(self, a: Number, b: int) -> Number:
        return a if b == 1 else self._binary(arith.MuliOp, lambda x, y: x * y, a, b)

    def _least(self, a: Number, b: Number) -> Number:
        return self._binary(arith.MinSIOp, min, a, b)

    def _most(self, a: Number, b: Number) -> Number:
        return self._binary(arith.MaxSIOp, max, a, b)

    def _compare(self, predicate: str, a: Number, b: Number) -> SSAValue:
        return self._put(arith.CmpiOp(self._value(a), self._value(b), predicate)).results[0]

    def _term(self, term: Term) -> Number:
        term = self.sizes.resolve(term)
        return term if isinstance(term, int) else self.sizes.value(term, self.op)

    def _require(self, holds: SSAValue | bool, what: str) -> None:
        what = f"'{self.op.name}', {what}"
        if holds is False:
            raise CompileError(what, location_of(self.op))
        if isinstance(holds, SSAValue):
            self._put(cf.AssertOp(holds, what))

    # -- slices

    def slice(self) -> None:
        """Sizes fit: at a constant offset, or at any computed one."""
        insert = self.op.name == "tensor.insert_slice"
        whole = self.op.operands[1 if insert else 0]
        part = slice_of(self.op)
        for axis, (offset, size, stride) in enumerate(zip(part.offsets, part.sizes, part.strides, strict=True)):
            known = _known(stride)
            step = stride if known is None else known
            self._slice_axis(axis, _known(offset), self._mixed(size), step, size_of(whole, axis))
        if not insert:
            return
        source = self.op.operands[0]
        kept = kept_dims(self.op, shape_of(source))
        for place, axis in enumerate(kept or ()):
            self._same(size_of(source, place), self._mixed(part.sizes[axis]), f"axis {place}: the slice has {{}}")

    def _mixed(self, n: int | SSAValue) -> Term:
        return n if isinstance(n, int) else term_of(n)

    def _slice_axis(self, axis: int, offset: int | None, size: Term, stride: int | SSAValue, whole: Term) -> None:
        size, whole = self.sizes.resolve(size), self.sizes.resolve(whole)
        start = 0 if offset is None else offset  # a computed offset is moved to where the slice fits
        where = f"axis {axis}"
        if start < 0:
            self._require(False, f"{where}: the slice begins at {start}")
        if start == 0 and stride == 1 and size == whole:
            return
        room = self._room(offset, stride, self._term(size), self._term(whole))
        n = self._term(size)
        if isinstance(n, int) and isinstance(room, int):
            self._require(0 <= n <= room, f"{where}: the slice of {n} elements ends outside")
        else:
            self._require(self._compare("ule", n, room), f"{where}: the slice ends outside")

    def _room(self, offset: int | None, stride: int | SSAValue, size: Number, whole: Number) -> Number:
        """How many elements a slice may have at most. A computed stride of 0 counts as 1."""
        start = 0 if offset is None else offset
        rest = self._most(self._plus(whole, -start), 0)
        if stride == 0:  # the size of the slice, when there is one
            return self._binary(arith.MuliOp, lambda x, y: x * y, self._least(rest, 1), self._most(size, 0))
        if isinstance(stride, int):
            ahead = self._steps(rest, abs(stride))
            if stride > 0 or offset is None:
                return ahead
            return self._least(start // -stride + 1, self._after(rest, start))
        size_of_step = self._most(self._most(stride, self._binary(arith.SubiOp, lambda x, y: x - y, 0, stride)), 1)
        ahead = self._steps(rest, size_of_step)
        if offset is None:
            return ahead
        steps = self._steps(self._plus(start, 1), size_of_step)
        past = self._least(steps, self._after(rest, start))
        forward = self._compare("sge", stride, 0)
        return self._put(arith.SelectOp(forward, self._value(ahead), self._value(past))).results[0]

    def _after(self, rest: Number, start: int) -> Number:
        """Elements from `start` down to 0, none where it lies outside."""
        return self._binary(arith.MuliOp, lambda x, y: x * y, self._least(rest, 1), start + 1)

    def _steps(self, n: Number, step: Number) -> Number:
        return n if step == 1 else self._binary(arith.CeilDivUIOp, lambda x, y: -(-x // y), n, step)

    def _same(self, a: Term, b: Term, what: str) -> None:
        a, b = self.sizes.resolve(a), self.sizes.resolve(b)
        if a == b:
            return
        if isinstance(a, int) and isinstance(b, int):
            self._require(False, what.format(f"{b} elements instead of {a}"))
        else:
            self._require(self._compare("eq", self._term(a), self._term(b)), what.format("another number of elements"))

    # -- reshapes

    def expand(self) -> None:
        for axis, group in enumerate(reassociation(self.op)):
            self._same(
                size_of(self.op.operands[0], axis), multiply([size_of(self.op.results[0], d) for d in group]),
                f"axis {axis}: the dimensions {group} that it becomes have {{}}",
            )  # fmt: skip

    def reshape(self) -> None:
        whole = [multiply([size_of(v, d) for d in range(len(shape_of(v)))])
                 for v in (self.op.operands[0], self.op.results[0])]  # fmt: skip
        self._same(whole[0], whole[1], "the result has {}")

    def cast(self) -> None:
        shapes = zip(shape_of(self.op.operands[0]), shape_of(self.op.results[0]), strict=True)
        for axis, (n, known) in enumerate(shapes):
            if n < 0 <= known:
                self._same(size_of(self.op.operands[0], axis), known, f"axis {axis}: the result has {{}}")

    def pad(self) -> None:
        """Padding adds elements; taking some away is what slices are for."""
        assert isinstance(self.op, tensor.PadOp)
        for amounts, given in ((self.op.static_low, self.op.low), (self.op.static_high, self.op.high)):
            rest = iter(given)
            for axis, amount in enumerate(amounts.get_values()):
                if amount == DYNAMIC_INDEX:
                    holds = self._compare("sge", next(rest), 0)
                    self._require(holds, f"axis {axis}: the result is smaller than what is padded")

    # -- windows

    def windows(self) -> None:
        """Computed positions of a linalg.generic lie inside what it reads, unless one of its loops is empty."""
        g = structured(self.op)
        loops = [next((self.sizes.resolve(size_of(*place)) for place in places), None) for places in g.places]
        for number, (value, map_) in enumerate(zip(g.operands, g.maps, strict=True)):
            if not shape_of(value) or not g.block.args[number].uses:
                continue
            for axis, e in enumerate(map_.results):
                if not isinstance(e, AffineDimExpr):
                    self._window(number, axis, e, loops, self.sizes.resolve(size_of(value, axis)))

    def _window(self, number: int, axis: int, e: AffineExpr, loops: Sequence[Term | None], whole: Term) -> None:
        steps = [loops[d.position] for d in e.dfs() if isinstance(d, AffineDimExpr)]
        if any(n is None for n in steps) or all(isinstance(n, int) for n in (*steps, whole)):
            return  # the first is refused elsewhere, the second stands in the types
        open_ = list(dict.fromkeys(n for n in loops if n is not None and not isinstance(n, int)))
        if any(isinstance(n, int) and n < 1 for n in loops):
            return
        # what has no exact range is moved inside by the kernel, where there is an inside
        low, high = self._range(e, loops) if is_exact(e) else (0, 0)
        ends = self._compare("slt", high, self._term(whole))
        if not (isinstance(low, int) and low >= 0):
            ends = self._put(arith.AndIOp(ends, self._compare("sge", low, 0))).results[0]
        if open_:
            shortest = self._term(open_[0])
            for n in open_[1:]:
                shortest = self._least(shortest, self._term(n))
            ends = self._put(arith.OrIOp(ends, self._compare("sle", shortest, 0))).results[0]
        self._require(ends, f"operand {number}, axis {axis}: the windows end outside")

    def _range(self, e: AffineExpr, loops: Sequence[Term | None]) -> tuple[Number, Number]:
        """The least and the largest value of an expression over its loops."""
        if isinstance(e, AffineConstantExpr):
            return e.value, e.value
        if isinstance(e, AffineDimExpr):
            steps = loops[e.position]
            assert steps is not None
            return 0, self._plus(self._least(self._term(steps), LARGEST), -1)
        assert isinstance(e, AffineBinaryOpExpr)
        a, b = (e.rhs, e.lhs) if isinstance(e.lhs, AffineConstantExpr) else (e.lhs, e.rhs)
        low, high = self._range(a, loops)
        if e.kind is AffineBinaryOpKind.Add:
            other = self._range(b, loops)
            return self._plus(low, other[0]), self._plus(high, other[1])
        assert isinstance(b, AffineConstantExpr)
        n = b.value
        if e.kind is AffineBinaryOpKind.Mul:
            low, high = (low, high) if n >= 0 else (high, low)
            return self._times(low, n), self._times(high, n)
        if e.kind is AffineBinaryOpKind.Mod:
            return 0, self._least(high, n - 1)
        if e.kind is AffineBinaryOpKind.CeilDiv:
            low, high = self._plus(low, n - 1), self._plus(high, n - 1)
        return self._quotient(low, n), self._quotient(high, n)

    def _quotient(self, a: Number, n: int) -> Number:
        return self._binary(arith.FloorDivSIOp, lambda x, y: x // y, a, n)


def _known(n: int | SSAValue) -> int | None:
    return n if isinstance(n, int) else constant_index(n)


_RULES: dict[str, Callable[[Bounds], None]] = {
    "linalg.generic": Bounds.windows,
    "tensor.extract_slice": Bounds.slice,
    "tensor.insert_slice": Bounds.slice,
    "tensor.expand_shape": Bounds.expand,
    "tensor.reshape": Bounds.reshape,
    "flow.tensor.reshape": Bounds.reshape,
    "tensor.cast": Bounds.cast,
    "tensor.pad": Bounds.pad,
}


def check_bounds(group: Sequence[Operation], sizes: Sizes) -> None:
    """Writes the checks of a group of operations that is about to become a dispatch. CompileError for what can never
    hold."""
    for op in group:
        rule = _RULES.get(op.name)
        if rule is not None:
            rule(Bounds(op, sizes))
