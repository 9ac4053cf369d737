"""Lowering of scalar operations of host code to instructions of the host program: one row per operation.

Registers have 64 bits. Integers are stored sign-extended, floats as their bits, and `index` has 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.ir.affine import AffineSymExpr as AffineSymbolExpr

from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.host.scalar_table import (
    AFFINE,
    BF16,
    BINARY,
    EQ,
    F16,
    F32,
    F64,
    MATH,
    OEQ,
    OGE,
    OLT,
    QUERY_PRESENCE,
    SLT,
    ULT,
    UNARY,
    UNO,
    constant_bits,
    float_bits,
    width_or_format,
)
from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import buffer_bytes
from pydispatch.formats.program.program import Opcode, ProgramFunction
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.op_info import SHOWS_VALUES, listed

Registers = dict[SSAValue, int]
"""Scalar of host code → index of the register of the host program that has its value."""


class ScalarLowering:
    """Lowering of scalar operations into one function of the host program.

    Callers call `lower` for each operation in order; it selects the method of the operation. Methods receive an
    operation and `registers`, which has the registers of its operands; they emit instructions and add the registers of
    its results. Callers may add entries (block arguments, sizes).
    """

    def __init__(self, function: ProgramFunction) -> None:
        """Append instructions to `function`."""
        self.function = function

    def lower(self, op: Operation, registers: Registers) -> bool:
        """Emit `op` and record the registers of its results; return False if it is no scalar operation of host code.

        Operations of several instructions have a method of their own in ROWS. Others become one instruction on the type
        of their result. Raises CompileError for types that host code does not compute with.
        """
        lower_with_method = ROWS.get(op.name)
        if lower_with_method is not None:
            lower_with_method(self, op, registers)
            return True
        if op.name not in BINARY and op.name not in UNARY and op.name not in MATH:
            return False
        modifier = width_or_format(op.results[0].type, op)  # bits of integers; a code of `FORMATS` for floats
        operands = [registers[v] for v in op.operands]
        if op.name in BINARY:
            register = self.function.binary(BINARY[op.name], operands[0], operands[1], modifier)
        elif op.name in UNARY:
            register = self.function.unary(UNARY[op.name], operands[0], modifier)
        else:
            register = self._math(op.name, operands[0], modifier)
        registers[op.results[0]] = register
        return True

    def _math(self, name: str, operand: int, format: int) -> int:
        """Emit a function of one float, such as `math.sin`, and return the register of its value."""
        return self.function.emit(Opcode.FMATH, operand, b=MATH[name], modifier=format)

    def _convert(self, opcode: Opcode, operand: int, *, source: int, target: int) -> int:
        """Emit a conversion of a register, and return the register of its value.

        Args:
            opcode: FCVT, SITOFP, UITOFP, FPTOSI or FPTOUI.
            operand: The register.
            source, target: Width or format of the operand and of the result, as `width_or_format` encodes them.
        """
        return self.function.emit(opcode, operand, b=source, modifier=target)

    def affine(self, expression: AffineExpr, dims: list[int], symbols: list[int]) -> int:
        """Emit an affine expression in 64 bits, and return the register of its value.

        dims, symbols: registers of the values of its dimensions and symbols.
        """
        if isinstance(expression, AffineConstantExpr):
            return self.function.constant(expression.value)
        if isinstance(expression, AffineDimExpr):
            return dims[expression.position]
        if isinstance(expression, AffineSymbolExpr):
            return symbols[expression.position]
        assert isinstance(expression, AffineBinaryOpExpr)
        a = self.affine(expression.lhs, dims, symbols)
        b = self.affine(expression.rhs, dims, symbols)
        return self.function.binary(AFFINE[expression.kind], a, b)

    # -- rows

    def constant(self, op: Operation, registers: Registers) -> None:
        """Emit a constant into a register."""
        value = op.properties.get("value", op.attributes.get("value"))
        assert value is not None
        registers[op.results[0]] = self.function.constant(constant_bits(value, op))

    def compare(self, op: Operation, registers: Registers) -> None:
        """Lower arith.cmpi or arith.cmpf; the instructions have the same predicates."""
        a, b = (registers[v] for v in op.operands)
        predicate = cast("IntegerAttr[Any]", op.properties["predicate"]).value.data
        opcode = Opcode.FCMP if op.name == "arith.cmpf" else Opcode.CMP
        bits = width_or_format(op.operands[0].type, op)
        registers[op.results[0]] = self.function.compare(opcode, predicate, a, b, bits)

    def select(self, op: Operation, registers: Registers) -> None:
        """Emit the choice between two registers by a condition."""
        condition, a, b = (registers[v] for v in op.operands)
        registers[op.results[0]] = self.function.emit(Opcode.SELECT, condition, a, b)

    def extend(self, op: Operation, registers: Registers) -> None:
        """Lower an extension, truncation or index cast of integers.

        Registers have 64 bits, and integers are sign-extended in them: each of these operations extends from the
        narrower of its two widths, with zeros if it is unsigned.
        """
        source_bits, result_bits = width_or_format(op.operands[0].type, op), width_or_format(op.results[0].type, op)
        extends_with_zeros = op.name in ("arith.extui", "arith.index_castui") and source_bits < result_bits
        opcode = Opcode.ZEXT if extends_with_zeros else Opcode.SEXT
        register = registers[op.operands[0]]
        bits = min(source_bits, result_bits)
        registers[op.results[0]] = register if bits == 64 else self.function.unary(opcode, register, bits)

    def convert(self, op: Operation, registers: Registers) -> None:
        """Lower a conversion between floats and integers, or between float types."""
        opcode = {
            "arith.extf": Opcode.FCVT,
            "arith.truncf": Opcode.FCVT,
            "arith.sitofp": Opcode.SITOFP,
            "arith.uitofp": Opcode.UITOFP,
            "arith.fptosi": Opcode.FPTOSI,
            "arith.fptoui": Opcode.FPTOUI,
        }[op.name]
        source, target = width_or_format(op.operands[0].type, op), width_or_format(op.results[0].type, op)
        registers[op.results[0]] = self._convert(opcode, registers[op.operands[0]], source=source, target=target)

    def bitcast(self, op: Operation, registers: Registers) -> None:
        """Lower `arith.bitcast` to an extension of the low bits, which stay the same, to the 64 bits of a register.

        Registers hold integers sign-extended, and the bits of floats zero-extended.
        """
        type = op.results[0].type
        register = registers[op.operands[0]]
        bits = type.width.data if isinstance(type, IntegerType) else cast(Any, type).bitwidth
        opcode = Opcode.SEXT if isinstance(type, IntegerType) else Opcode.ZEXT
        registers[op.results[0]] = register if bits == 64 else self.function.unary(opcode, register, bits)

    def apply(self, op: Operation, registers: Registers) -> None:
        """Lower affine.apply, affine.min or affine.max."""
        attribute = op.properties.get("map", op.attributes.get("map"))
        map = cast(AffineMapAttr, attribute).data
        operands = [registers[v] for v in op.operands]
        dims, symbols = operands[: map.num_dims], operands[map.num_dims :]
        values = [self.affine(e, dims, symbols) for e in map.results]
        # A map of affine.min or affine.max has several results, which are combined; a map of affine.apply has one.
        combine = {"affine.min": Opcode.MINS, "affine.max": Opcode.MAXS}.get(op.name)
        result = values[0]
        for value in values[1:]:
            assert combine is not None
            result = self.function.binary(combine, result, value)
        registers[op.results[0]] = result

    def query(self, op: Operation, registers: Registers) -> None:
        """Lower hal.device.query to two results: whether the device has the key, and its value or else the default."""
        category = cast(Any, op.properties["category"]).data
        key = cast(Any, op.properties["key"]).data
        default = op.properties.get("default_value")
        fallback = constant_bits(default, op) if default is not None else 0
        index = self.function.program.add_query(category, key, fallback)
        registers[op.results[0]] = self.function.emit(Opcode.QUERY, index, modifier=QUERY_PRESENCE)
        registers[op.results[1]] = self.function.emit(Opcode.QUERY, index)

    def add_extended(self, op: Operation, registers: Registers) -> None:
        """Lower an addition with an overflow flag: the sum, and whether it wrapped as an unsigned integer.

        It wrapped if and only if the sum is less than an operand.
        """
        a, b = (registers[v] for v in op.operands)
        bits = width_or_format(op.results[0].type, op)
        total = self.function.binary(Opcode.ADD, a, b, bits)
        registers[op.results[0]] = total
        registers[op.results[1]] = self.function.compare(Opcode.CMP, ULT, total, a, bits)

    def multiply_extended(self, op: Operation, registers: Registers) -> None:
        """Lower a multiplication with an extended result: the low and the high half of the product."""
        a, b = (registers[v] for v in op.operands)
        bits = width_or_format(op.results[0].type, op)
        upper = Opcode.MULHU if op.name == "arith.mului_extended" else Opcode.MULHS
        registers[op.results[0]] = self.function.binary(Opcode.MUL, a, b, bits)
        registers[op.results[1]] = self.function.binary(upper, a, b, bits)

    def fused(self, op: Operation, registers: Registers) -> None:
        """Lower math.fma: a * b + c, rounded once."""
        a, b, c = (registers[v] for v in op.operands)
        format = width_or_format(op.results[0].type, op)
        registers[op.results[0]] = self.function.emit(Opcode.FMA, a, b, c, modifier=format)

    def sincos(self, op: Operation, registers: Registers) -> None:
        """Lower math.sincos to a sine and a cosine."""
        format = width_or_format(op.results[0].type, op)
        for result, name in zip(op.results, ("math.sin", "math.cos"), strict=True):
            registers[result] = self._math(name, registers[op.operands[0]], format)

    def clamp(self, op: Operation, registers: Registers) -> None:
        """Lower math.clampf to min(max(value, lower), upper)."""
        value, low, high = (registers[v] for v in op.operands)
        bits = width_or_format(op.results[0].type, op)
        raised = self.function.binary(Opcode.FMAX, value, low, bits)
        registers[op.results[0]] = self.function.binary(Opcode.FMIN, raised, high, bits)

    def classify(self, op: Operation, registers: Registers) -> None:
        """Lower math.isnan, isinf, isfinite or isnormal.

        With the magnitude |x|: x is NaN if it is unordered with itself, infinite if |x| equals infinity, finite if |x|
        is less, and normal if |x| is also at least the least normal number of the format.
        """
        format, function = width_or_format(op.operands[0].type, op), self.function
        value = registers[op.operands[0]]
        magnitude = self._math("math.absf", value, format)
        infinite = function.constant(float_bits(float("inf"), format))
        least_normal = {F16: 2.0**-14, BF16: 2.0**-126, F32: 2.0**-126, F64: 2.0**-1022}[format]
        if op.name == "math.isnan":  # UNO: unordered
            result = function.compare(Opcode.FCMP, UNO, value, value, format)
        elif op.name == "math.isinf":
            result = function.compare(Opcode.FCMP, OEQ, magnitude, infinite, format)
        else:  # isfinite, and isnormal, which has a second condition
            result = function.compare(Opcode.FCMP, OLT, magnitude, infinite, format)
        if op.name == "math.isnormal":
            least = function.constant(float_bits(least_normal, format))
            is_not_less = function.compare(Opcode.FCMP, OGE, magnitude, least, format)
            result = function.binary(Opcode.AND, result, is_not_less, width=1)
        registers[op.results[0]] = result

    def power_of_integers(self, op: Operation, registers: Registers) -> None:
        """Lower math.ipowi by repeated squaring: multiply the powers base^(2^i) for each bit i of the exponent.

        For a negative exponent the result is the integer quotient 1 / base^n: 1 for base 1, 1 or -1 for base -1, else
        0.
        """
        base, exponent = (registers[v] for v in op.operands)
        bits = width_or_format(op.results[0].type, op)
        function = self.function
        one, zero = function.constant(1), function.constant(0)
        # `factor` is base^(2^bit), which is multiplied into the result where the exponent has this bit.
        result, factor = one, base
        for bit in range(bits):
            shifted = function.binary(Opcode.SHRU, exponent, function.constant(bit), bits)
            is_bit_set = function.binary(Opcode.AND, shifted, one, bits)
            product = function.binary(Opcode.MUL, result, factor, bits)
            result = function.emit(Opcode.SELECT, is_bit_set, product, result)
            factor = function.binary(Opcode.MUL, factor, factor, bits)
        # The quotient 1 / base^n for negative exponents: base 1 → 1, base -1 → -1 for odd n, else 1; other bases → 0.
        minus_one = function.constant(-1)
        is_odd = function.binary(Opcode.AND, exponent, one, bits)
        is_one = function.compare(Opcode.CMP, EQ, base, one, bits)
        quotient = function.emit(Opcode.SELECT, is_one, one, zero)
        of_minus_one = function.emit(Opcode.SELECT, is_odd, minus_one, one)
        is_minus_one = function.compare(Opcode.CMP, EQ, base, minus_one, bits)
        quotient = function.emit(Opcode.SELECT, is_minus_one, of_minus_one, quotient)
        is_negative = function.compare(Opcode.CMP, SLT, exponent, zero, bits)
        registers[op.results[0]] = function.emit(Opcode.SELECT, is_negative, quotient, result)

    def power_of_float(self, op: Operation, registers: Registers) -> None:
        """Lower math.fpowi: compute the power in f64, with the exponent as a float, and convert it to the type."""
        base, exponent = (registers[v] for v in op.operands)
        format = width_or_format(op.results[0].type, op)
        wide = self._convert(Opcode.FCVT, base, source=format, target=F64)
        count = self._convert(Opcode.SITOFP, exponent, source=width_or_format(op.operands[1].type, op), target=F64)
        power = self.function.binary(Opcode.FPOW, wide, count, F64)
        if format != F64:
            power = self._convert(Opcode.FCVT, power, source=F64, target=format)
        registers[op.results[0]] = power

    def align(self, op: Operation, registers: Registers) -> None:
        """Lower util.align: round an unsigned integer up to a multiple of another one."""
        value, alignment = (registers[v] for v in op.operands)
        bits = width_or_format(op.results[0].type, op)
        count = self.function.binary(Opcode.CEILDIVU, value, alignment, bits)
        registers[op.results[0]] = self.function.binary(Opcode.MUL, count, alignment, bits)

    def sizeof(self, op: Operation, registers: Registers) -> None:
        """Lower util.sizeof to a constant: the size of a type in bytes."""
        dtype = dtype_of(op.properties["sized_type"], location_of(op))
        registers[op.results[0]] = self.function.constant(buffer_bytes(1, dtype))

    def forward(self, op: Operation, registers: Registers) -> None:
        """Define each result as the operand with its index; further operands, such as sizes, are ignored."""
        for operand, result in zip(op.operands, op.results, strict=False):
            registers[result] = registers[operand]

    def cast_signedness(self, op: Operation, registers: Registers) -> None:
        """Lower builtin.unrealized_conversion_cast between signed, unsigned and signless integers of one width.

        Their registers are the same.
        """
        types = [v.type for v in (*op.operands, *op.results)]
        are_same_width = all(isinstance(t, IntegerType) and t.width == types[0].width for t in types)
        if len(types) != 2 or not are_same_width:
            raise CompileError(
                f"'{op.name}' of {', '.join(map(str, types[: len(op.operands)]))} is not supported in host code",
                location_of(op), "it changes the sign of an integer, ui32 to i32, or the type of a tensor",
            )  # fmt: skip
        registers[op.results[0]] = registers[op.operands[0]]

    def check(self, op: Operation, registers: Registers) -> None:
        """Lower cf.assert to a check that makes the call fail.

        If the operation has the attribute SHOWS_VALUES, its condition is an equality, and the message shows the two
        compared values in place of its {a} and {b}.
        """
        message, location = cast(Any, op.properties["msg"]).data, location_of(op)
        where = f" ({location})" if location else ""
        # The operands of the comparison that computes the condition; a block argument has none.
        compared = [registers.get(value) for value in getattr(op.operands[0].owner, "operands", ())]
        if SHOWS_VALUES in op.attributes and len(compared) == 2 and None not in compared:
            a, b = cast(list[int], compared)
            self.function.check_equal(a, b, f"{message}{_without_braces(where)}")
        else:
            self.function.check(registers[op.operands[0]], _without_braces(f"{message}{where}"))


def _without_braces(text: str) -> str:
    """Return a message with parentheses in place of braces, since checks replace `{a}` and `{b}` by values."""
    return text.replace("{", "(").replace("}", ")")


ROWS: dict[str, Callable[[ScalarLowering, Operation, Registers], None]] = {
    **dict.fromkeys(listed(lambda info: info.constant), ScalarLowering.constant),
    **dict.fromkeys(listed(lambda info: info.forwards), ScalarLowering.forward),
    "arith.cmpi": ScalarLowering.compare,
    "arith.cmpf": ScalarLowering.compare,
    "arith.select": ScalarLowering.select,
    "arith.bitcast": ScalarLowering.bitcast,
    "arith.addui_extended": ScalarLowering.add_extended,
    "arith.mului_extended": ScalarLowering.multiply_extended,
    "arith.mulsi_extended": ScalarLowering.multiply_extended,
    "affine.apply": ScalarLowering.apply,
    "affine.min": ScalarLowering.apply,
    "affine.max": ScalarLowering.apply,
    "math.fma": ScalarLowering.fused,
    "math.sincos": ScalarLowering.sincos,
    "math.clampf": ScalarLowering.clamp,
    "math.ipowi": ScalarLowering.power_of_integers,
    "math.fpowi": ScalarLowering.power_of_float,
    "hal.device.query": ScalarLowering.query,
    "util.align": ScalarLowering.align,
    "util.sizeof": ScalarLowering.sizeof,
    "builtin.unrealized_conversion_cast": ScalarLowering.cast_signedness,
    "cf.assert": ScalarLowering.check,
    **dict.fromkeys(("math.isnan", "math.isinf", "math.isfinite", "math.isnormal"), ScalarLowering.classify),
    **dict.fromkeys(
        ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui"), ScalarLowering.extend
    ),
    **dict.fromkeys(
        ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui"),
        ScalarLowering.convert,
    ),
}
"""Name of an operation → method that lowers it. Arithmetic with one instruction is in BINARY, UNARY and MATH."""
