"""Float maxima and minima on x86, carried around loops as integers that compare like the floats.

`arith.maximumf` is NaN where an operand is, and +0 is above -0. x86 needs six instructions for that, each of which
waits for the one before, and every step of a loop waits for the step before.

With the bits of negative numbers flipped, floats have the order of integers, with NaN at both ends: -NaN, -inf, ...,
+inf, +NaN. For a maximum, the number of NaN of one sign is subtracted: the -NaN wrap around to the top, so that all NaN
are above infinity. For a minimum it is added: the +NaN wrap around to the bottom. A step is then one integer maximum or
minimum, the only instruction that waits for the step before.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, Region, SSAValue

from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.kernel_ir.readers import flags
from pydispatch.compiler.kernel_ir.types import bit_width

KINDS = {"arith.maximumf": "smax", "arith.minimumf": "smin"}
"""Operation -> the signed integer intrinsic that replaces it, llvm.smax or llvm.smin."""
SIMPLE_FLAGS = {"fast", "nnan", "nsz"}
"""Fast-math flags under which the float operation is one instruction, so that integers gain nothing."""
FEWEST_STEPS = 16
"""Minimum iterations of a loop that carries integers: with fewer, the conversions before and after the loop take
longer than the steps save."""


@dataclass(frozen=True)
class Order:
    """Rewrite of one maximum or minimum that a loop accumulates: the loop carries an integer instead of the float.

    Floats are mapped to integers of the same order, whose maximum LLVM computes in one instruction.

    Attributes:
        combine: The `arith.maximumf` or `arith.minimumf`.
        carried: The operand of `combine` that the loop carries.
        kind: LLVM's operation on the integers: smax or smin.
    """

    combine: Operation
    carried: SSAValue
    kind: str

    @property
    def float(self) -> str:
        """The LLVM type of the floats."""
        return scalar(self.combine.results[0].type)

    @property
    def width(self) -> int:
        """Number of bits of the floats, and of the integers."""
        return bit_width(self.combine.results[0].type)

    @property
    def integer(self) -> str:
        """The LLVM type of the integers."""
        return f"i{self.width}"

    def _flipped(self, emitter: FunctionEmitter, bits: str) -> str:
        """Emit the inversion of all bits but the sign if the sign is set; the operation is its own inverse.

        Without it, the bits of negative floats grow with their magnitudes. With it, they sort as integers like the
        floats: the f32 -0.0, 0x80000000, becomes 0xFFFFFFFF, which is -1.
        """
        type_ = self.integer
        # LLVM would compile the shorter form, a select by the sign, to mask registers, which few units compute.
        sign_mask = emitter.body.let(f"ashr {type_} {bits}, {self.width - 1}")  # all ones for a negative number
        flipped = emitter.body.let(f"xor {type_} {bits}, {sign_mask}")  # with the sign, which is restored below
        sign = emitter.body.let(f"and {type_} {bits}, {-1 << (self.width - 1)}")
        return emitter.body.let(f"xor {type_} {flipped}, {sign}")

    @property
    def _nan_offset(self) -> int:
        """The number that is added to the integers, so that NaN of both signs are at the same end of the order.

        The addition wraps around: subtracting the number of NaN moves those at the bottom to the top (smax), adding it
        moves those at the top to the bottom (smin).
        """
        fraction_bits = {32: 23, 64: 52}[self.width]
        nan_count = (1 << fraction_bits) - 1
        return -nan_count if self.kind == "smax" else nan_count

    def integer_of(self, emitter: FunctionEmitter, value: str) -> str:
        """Emit the conversion of a float to the integer that represents it in this order.

        `_nan_offset` moves NaN of both signs to the end that wins the maximum or minimum.
        """
        flipped = self._flipped(emitter, emitter.body.let(f"bitcast {self.float} {value} to {self.integer}"))
        return emitter.body.let(f"add {self.integer} {flipped}, {self._nan_offset}")

    def float_of(self, emitter: FunctionEmitter, value: str) -> str:
        """Emit the conversion of an integer of this order back to its float."""
        flipped = emitter.body.let(f"sub {self.integer} {value}, {self._nan_offset}")
        return emitter.body.let(f"bitcast {self.integer} {self._flipped(emitter, flipped)} to {self.float}")

    def emit_step(self, emitter: FunctionEmitter) -> str:
        """Emit one step of the minimum or maximum on integers, and return the integer that the loop carries on.

        `carried` is already such an integer; the other operand of `combine` is converted.
        """
        type_, (value,) = self.integer, (o for o in self.combine.operands if o is not self.carried)
        step = self.integer_of(emitter, emitter.get(value))
        return emitter.intrinsic(f"llvm.{self.kind}.{type_}", type_, (type_, emitter.get(self.carried)), (type_, step))


def order_of(emitter: FunctionEmitter, value: SSAValue) -> Order | None:
    """Return the order in which an `scf.for` carries a maximum or minimum of floats as integers.

    Return None if it carries the float itself. The order exists for a loop of this form only:

        %r = scf.for %i = ... iter_args(%max = %init) { %next = arith.maximumf %max, %x; scf.yield %next }

    The operation must be slow on floats (`_is_slow`) and the loop long (`_is_long`). `%max` must have no other use than
    the operation, and `%next` no other use than the yield: other users would need the float.

    Args:
        emitter: The function's emitter.
        value: `%max`, an argument of the loop's body, or `%next`, the result of the operation on it. Both have the same
            order.
    """
    # `%next` is defined by the operation; `%max` is a block argument, whose first user must be the operation.
    combine = value.owner if isinstance(value.owner, Operation) else next((u.operation for u in value.uses), None)
    if combine is None or not _is_slow(emitter, combine):
        return None
    loop, carried = combine.parent_op(), _carried_value(combine)
    if isinstance(loop, scf.ForOp) and carried is not None and value in (carried, combine.results[0]):
        return Order(combine, carried, KINDS[combine.name]) if _is_long(emitter, loop) else None
    return None


def _carried_value(combine: Operation) -> SSAValue | None:
    """Return the loop-carried value `%max` of an operation `%next = combine %max, %x` in an `scf.for`.

    Return None unless `%next` is only used as the next value of `%max`, and `%max` only by the operation.
    """
    block, next_value = combine.parent, combine.results[0]
    if not isinstance(combine.parent_op(), scf.ForOp) or block is None or next_value.uses.get_length() != 1:
        return None
    (use,) = next_value.uses
    if use.operation is not block.last_op:  # the yield
        return None
    carried = block.args[1 + use.index]  # the first argument is the index of the loop
    is_only_use = carried.uses.get_length() == 1 and carried in combine.operands
    return carried if is_only_use else None


def reduction_order(emitter: FunctionEmitter, region: Region) -> Order | None:
    """Return the order in which a loop carries the value of an `scf.reduce` region as an integer.

    Return None if it carries the float itself, because the region is not a single slow maximum or minimum. The caller
    ensures that the loop is long.
    """
    block = region.blocks[0]  # its arguments are the carried value and the value of the iteration
    combine, *others = block.ops
    is_single_operation = len(others) == 1 and set(combine.operands) == set(block.args)  # the other is the terminator
    if not is_single_operation or not _is_slow(emitter, combine):
        return None
    return Order(combine, carried=block.args[0], kind=KINDS[combine.name])


def _is_slow(emitter: FunctionEmitter, combine: Operation) -> bool:
    """Return whether an operation is a float maximum or minimum that is faster on integers.

    On x86 it is, since the float instructions neither propagate NaN nor order -0 and +0 as the operation does.
    """
    if combine.name not in KINDS or SIMPLE_FLAGS & set(flags(combine, "fastmath").split()):
        return False
    type_ = combine.results[0].type
    if isinstance(type_, Float64Type) and "avx512f" not in emitter.platform.features:
        return False  # older instructions do not compare vectors of i64
    return emitter.platform.arch == "x86_64" and isinstance(type_, Float32Type | Float64Type)


def _is_long(emitter: FunctionEmitter, loop: scf.ForOp) -> bool:
    """Return whether a loop has at least FEWEST_STEPS steps, or a dynamic number of steps."""
    lower, upper, step = (as_index(emitter.get(bound)) for bound in (loop.lb, loop.ub, loop.step))
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        return upper - lower >= FEWEST_STEPS * step
    return True
