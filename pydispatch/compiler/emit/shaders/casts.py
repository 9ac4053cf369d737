"""Conversions of arith, with one meaning in every shader language.

Floats become integers with saturation, and NaN becomes 0 (docs/kernel-ir.md, Numbers).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

from xdsl.dialects.builtin import IndexType, IntegerType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.integers import bits_of, width_of
from pydispatch.compiler.emit.shaders.registers import E, Registers, V
from pydispatch.compiler.emit.shaders.values import is_f32_or_f64, known, signed
from pydispatch.compiler.kernel_ir.readers import op_name
from pydispatch.compiler.kernel_ir.types import is_float

LEAST_INDEX, MOST_INDEX = -(1 << 31), (1 << 31) - 1
"""Range of indices of 32 bits."""


class Casts(Registers[E, V]):
    """Lowerings of conversions between integers, indices and floats for any shader language.

    A subclass for SPIR-V or WGSL emits the instructions; `rows` is its table of lowerings by operation. E is the type
    of the emitter of an entry point, V the type of a value in the language.
    """

    # Instructions of the language

    @abstractmethod
    def widened(self, emitter: E, value: V) -> V:
        """Convert a register of 32 bits to one of 64, extended with zeros."""

    @abstractmethod
    def float_to_int(self, emitter: E, value: V, source: Attribute, bits: int, width: int, is_signed: bool) -> V:
        """Emit the saturating conversion of an f32 or f64 to an integer of `bits` bits, rounded toward zero; NaN is 0.

        The result is a register of `width` bits, 32 or 64, not yet wrapped to `bits`.
        """

    @abstractmethod
    def int_to_float(self, emitter: E, value: V, width: int, is_signed: bool, target: Attribute) -> V:
        """Emit the conversion of an integer register of `width` bits, 32 or 64, to `target`, f32 or f64."""

    @abstractmethod
    def float_to_float(self, emitter: E, value: SSAValue, target: Attribute) -> V | None:
        """Emit the conversion of a float to the float type `target`; return None if the language has no instruction."""

    @abstractmethod
    def bitcast(self, emitter: E, op: Operation) -> None:
        """Lower `arith.bitcast`."""

    # Lowerings

    def truth_as_integer(self, emitter: E, value: V, width: int) -> V:
        """Emit 1 for true and 0 for false, in a register of `width` bits."""
        type_ = IntegerType(width)
        return self.select(emitter, type_, value, emitter.constant(1, type_), emitter.constant(0, type_))

    def unsigned_resized(self, emitter: E, value: V, bits: int, from_width: int, to_width: int) -> V:
        """Extend the low `bits` bits of a register with zeros, and return a register of `to_width` bits.

        from_width and to_width: Bits of the registers: 32 -> 32, 32 -> 64 or 64 -> 64. A truth value (from_width 1)
        becomes 0 or 1.
        """
        if from_width == 1:
            return self.truth_as_integer(emitter, value, to_width)
        extended = self.zero_extended(emitter, value, bits, from_width)
        return extended if from_width == to_width else self.widened(emitter, extended)  # from 32 to 64 bits

    def saturated_index(self, emitter: E, value: V) -> V:
        """Emit the 32-bit index that is nearest to a 64-bit integer."""
        for limit, is_beyond in ((LEAST_INDEX, "slt"), (MOST_INDEX, "sgt")):
            bound = emitter.constant(limit, i64)
            value = self.select(emitter, i64, self.compared(emitter, is_beyond, 64, value, bound), bound, value)
        return self.resized(emitter, value, from_width=64, to_width=32)

    def extended_with_sign(self, emitter: E, op: Operation) -> None:
        """Lower `arith.extsi`: registers hold integers sign-extended, so that at most the register gets wider."""
        (operand,), (result,) = op.operands, op.results
        constant = emitter.int_or_value(operand)
        if known(constant):  # numbers known while compiling are signed already
            emitter.define(result, constant)
            return
        from_width, to_width = width_of(emitter, operand.type), width_of(emitter, result.type)
        emitter.define(result, self.resized(emitter, emitter.get(operand), from_width, to_width))

    def extended_with_zeros(self, emitter: E, op: Operation) -> None:
        """Lower `arith.extui`."""
        (operand,), (result,) = op.operands, op.results
        bits = bits_of(emitter, operand.type)
        from_width, to_width = emitter.width(operand.type), emitter.width(result.type)
        constant = emitter.int_or_value(operand)
        if known(constant):
            emitter.define(result, constant & ((1 << bits) - 1))
            return
        emitter.define(result, self.unsigned_resized(emitter, emitter.get(operand), bits, from_width, to_width))

    def truncated(self, emitter: E, op: Operation) -> None:
        """Lower `arith.trunci`."""
        (operand,), (result,) = op.operands, op.results
        width, constant = emitter.width(result.type), emitter.int_or_value(operand)
        if known(constant):
            emitter.define(result, signed(constant, bits_of(emitter, result.type)))
            return
        value = self.resized(emitter, self.operands(emitter, [operand])[0], emitter.width(operand.type), width)
        # Registers hold integers sign-extended: the bits above those of the result become copies of its sign.
        emitter.define(result, self.sign_extended(emitter, value, bits=bits_of(emitter, result.type), width=width))

    def index_cast(self, emitter: E, op: Operation, is_signed: bool) -> None:
        """Lower an index cast.

        A wider integer saturates when it is cast to a 32-bit index, so that an out-of-bounds index stays out of bounds:
        2^32 + 4 becomes 2^31 - 1, while its low 32 bits are 4. Other casts keep the low bits.

        is_signed: whether an integer is extended with its sign when it is widened; otherwise with zeros.
        """
        (operand,), (result,) = op.operands, op.results
        # Integers of `from_bits` and `to_bits` bits are in registers of `from_width` and `to_width` bits.
        from_bits, to_bits = bits_of(emitter, operand.type), bits_of(emitter, result.type)
        from_width, to_width = emitter.width(operand.type), emitter.width(result.type)
        # 64 bits to a 32-bit index. An unsigned integer of 2^63 or more is stored as a negative one: it becomes -2^31,
        # which is out of bounds, too.
        saturates = isinstance(result.type, IndexType) and from_width > to_width
        constant = emitter.int_or_value(operand)
        if known(constant):
            if saturates:
                constant = max(LEAST_INDEX, min(constant, MOST_INDEX))
            elif not is_signed:  # known numbers are signed, whatever their type: 255 of i8 is -1
                constant &= (1 << from_bits) - 1
            emitter.define(result, signed(constant, to_bits))
            return
        value = emitter.get(operand)
        if saturates:
            value = self.saturated_index(emitter, value)
        elif not is_signed and to_bits > from_bits:
            value = self.unsigned_resized(emitter, value, from_bits, from_width, to_width)
        else:
            value = self.resized(emitter, value, from_width, to_width)
            value = self.sign_extended(emitter, value, bits=to_bits, width=to_width)
        emitter.define(result, value)

    def from_int(self, emitter: E, op: Operation, is_signed: bool) -> None:
        """Lower the conversion of an integer to a float.

        is_signed: whether the integer is signed; as a signed integer, a true i1 is -1, and otherwise 1.
        """
        (operand,), (result,) = op.operands, op.results
        if not is_f32_or_f64(result.type):
            self.expand(emitter, op)
            return
        bits, width = bits_of(emitter, operand.type), emitter.width(operand.type)  # `width`: of the register
        (value,) = self.operands(emitter, [operand])
        is_truth = width == 1
        if is_truth and is_signed:
            value = self.resized(emitter, value, from_width=1, to_width=32)
        elif is_truth:
            value = self.truth_as_integer(emitter, value, width=32)
        elif not is_signed:  # registers hold integers that are narrower than them sign-extended
            value = self.zero_extended(emitter, value, bits, width)
        emitter.define(result, self.int_to_float(emitter, value, max(width, 32), is_signed, result.type))

    def to_int(self, emitter: E, op: Operation, is_signed: bool) -> None:
        """Lower the conversion of a float to an integer, which saturates; NaN becomes 0.

        is_signed: whether the integer is signed: 300.0 becomes the i8 127, or 255 if it is unsigned.
        """
        (operand,), (result,) = op.operands, op.results
        if not is_f32_or_f64(operand.type):
            self.expand(emitter, op)
            return
        bits, width = bits_of(emitter, result.type), emitter.width(result.type)  # `width`: of the register
        (value,) = self.operands(emitter, [operand])
        # No conversion has a 1-bit result: that to i1 converts to 32 bits, and narrows the result.
        value = self.float_to_int(emitter, value, operand.type, bits, max(width, 32), is_signed)
        if width == 1:
            value = self.resized(emitter, value, from_width=32, to_width=1)
        else:
            value = self.sign_extended(emitter, value, bits=bits, width=width)
        emitter.define(result, value)

    def between_floats(self, emitter: E, op: Operation) -> None:
        """Lower `arith.extf` and `arith.truncf` to an instruction where the language has one, else expand them."""
        (operand,), (result,) = op.operands, op.results
        value = self.float_to_float(emitter, operand, result.type)
        if value is not None:
            emitter.define(result, value)
        elif is_float(operand.type) and is_float(result.type):
            self.expand(emitter, op)
        else:
            raise emitter.error(f"{op_name(op)} from {operand.type} to {result.type} cannot be compiled into a kernel")

    def rows(self) -> dict[str, Callable[[E, Operation], None]]:
        """Return the lowering of each operation that this class lowers, by the name of the operation."""
        return {
            "arith.extsi": self.extended_with_sign,
            "arith.extui": self.extended_with_zeros,
            "arith.trunci": self.truncated,
            "arith.index_cast": partial(self.index_cast, is_signed=True),
            "arith.index_castui": partial(self.index_cast, is_signed=False),
            "arith.fptosi": partial(self.to_int, is_signed=True),
            "arith.fptoui": partial(self.to_int, is_signed=False),
            "arith.sitofp": partial(self.from_int, is_signed=True),
            "arith.uitofp": partial(self.from_int, is_signed=False),
            "arith.extf": self.between_floats,
            "arith.truncf": self.between_floats,
            "arith.scaling_extf": self.expand,
            "arith.scaling_truncf": self.expand,
            "arith.bitcast": self.bitcast,
        }
