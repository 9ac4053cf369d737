"""arith: conversions between element types, one row per operation."""

from __future__ import annotations

from functools import partial

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.definitions import expand, native_floats, natively
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.arith import FLOAT_SUFFIX, float_type, int_type
from pydispatch.compiler.emit.llvm.types import int_constant, scalar
from pydispatch.compiler.kernel_ir.types import bit_width


def _cast(emitter: FunctionEmitter, op: Operation, instruction: str) -> None:
    """Lower a conversion to an LLVM instruction, such as "sext"."""
    source, target = scalar(op.operands[0].type), scalar(op.results[0].type)
    operand = emitter.get(op.operands[0])
    emitter.define(op.results[0], emitter.body.let(f"{instruction} {source} {operand} to {target}"))


def _index_cast(emitter: FunctionEmitter, op: Operation, extension: str) -> None:
    """Lower a conversion between an index and an integer.

    A constant is converted while compiling, and equal widths need no instruction. For a narrower result, the value is
    truncated; for a wider one, `extension` is the instruction: "sext" or "zext".
    """
    source, target = int_type(emitter, op.operands[0].type), int_type(emitter, op.results[0].type)
    from_width, to_width = bit_width(op.operands[0].type), bit_width(op.results[0].type)
    operand = emitter.get(op.operands[0])
    constant = as_index(operand)
    if isinstance(constant, int):
        if extension == "zext":  # literals are signed: -1 of i8 is 255
            constant &= (1 << from_width) - 1
        emitter.define(op.results[0], int_constant(constant, op.results[0].type))
    elif from_width == to_width:
        emitter.define(op.results[0], operand)
    else:
        instruction = "trunc" if to_width < from_width else extension
        emitter.define(op.results[0], emitter.body.let(f"{instruction} {source} {operand} to {target}"))


LIMIT_IS_NO_FLOAT = {("float", "i32"), ("float", "i64"), ("double", "i64")}
"""(float type, integer type) of conversions for which the integer's greatest value is not exact as a float, so that
floats cannot be clamped to the range of the integer."""


def _saturated(emitter: FunctionEmitter, instruction: str, type_: str, operand: str, target: str) -> str:
    """Emit a saturating conversion of a float to an integer by selects, and return its result; NaN becomes 0.

    It replaces LLVM's own saturating conversion on x86, which converts each lane of a vector by itself, with branches
    if the limits of the integer are not exact as floats.

    Args:
        emitter: The function's emitter.
        instruction: fptosi or fptoui.
        type_, operand: LLVM type and name of the float.
        target: LLVM type of the integer.
    """
    bits, signed = int(target[1:]), instruction == "fptosi"
    lowest, limit = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)  # limit: exclusive
    # The conversion of a float out of range is poison, which `freeze` turns into some number; it is not selected.
    converted = emitter.body.let(f"freeze {target} {emitter.body.let(f'{instruction} {type_} {operand} to {target}')}")
    is_above = emitter.body.let(f"fcmp oge {type_} {operand}, {limit}.0")
    value = emitter.body.let(f"select i1 {is_above}, {target} {limit - 1}, {target} {converted}")
    if signed:
        is_below = emitter.body.let(f"fcmp olt {type_} {operand}, {lowest}.0")
        value = emitter.body.let(f"select i1 {is_below}, {target} {lowest}, {target} {value}")
        becomes_zero = emitter.body.let(f"fcmp uno {type_} {operand}, {operand}")  # NaN
    else:
        # NaN, or at most -1. A float between -1 and 0 is in range: fptoui truncates it to 0.
        becomes_zero = emitter.body.let(f"fcmp ule {type_} {operand}, -1.0")
    return emitter.body.let(f"select i1 {becomes_zero}, {target} 0, {target} {value}")


def _clamped(emitter: FunctionEmitter, instruction: str, type_: str, operand: str, target: str) -> str:
    """Emit a saturating conversion of a float that is clamped to the integer's range first; NaN becomes 0.

    To i8, 300.0 becomes 127 and -1000.0 becomes -128. The code replaces LLVM's own saturating conversion on x86, which
    converts each lane of a vector by itself.

    Args:
        emitter: The function's emitter.
        instruction: fptosi or fptoui.
        type_, operand: LLVM type and name of the float.
        target: LLVM type of the integer, of at most 32 bits. Both of its limits must be exact as floats (see
            `LIMIT_IS_NO_FLOAT`), so that the clamped float truncates to an integer in range.
    """
    bits, is_signed = int(target[1:]), instruction == "fptosi"
    lowest, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    value = operand
    # Comparisons with NaN are false, so that the first select replaces NaN by the lowest value.
    for predicate, limit in (("ogt", lowest), ("olt", greatest)):
        is_inside = emitter.body.let(f"fcmp {predicate} {type_} {value}, {limit}.0")
        value = emitter.body.let(f"select i1 {is_inside}, {type_} {value}, {type_} {limit}.0")
    if bits < 32:  # vectors of i32 are what x86 converts to
        wide = emitter.body.let(f"fptosi {type_} {value} to i32")
        value = emitter.body.let(f"trunc i32 {wide} to {target}")
    else:
        value = emitter.body.let(f"{instruction} {type_} {value} to {target}")
    if not is_signed:  # the lowest value, which NaN has become, is 0
        return value
    is_nan = emitter.body.let(f"fcmp uno {type_} {operand}, {operand}")
    return emitter.body.let(f"select i1 {is_nan}, {target} 0, {target} {value}")


def _float_to_int(emitter: FunctionEmitter, op: Operation, instruction: str) -> None:
    """Lower a conversion to an integer, `instruction` "fptosi" or "fptoui", so that it saturates.

    A float out of range becomes the greatest or lowest integer, NaN becomes 0. LLVM has intrinsics for that, such as
    `llvm.fptosi.sat.i32.f32`, but its code for x86 converts the lanes of a vector one by one. Selects replace them
    there: `_saturated` if the greatest integer is not exact as a float, `_clamped` for other integers of up to 32 bits.
    """
    type_, operand = scalar(op.operands[0].type), emitter.get(op.operands[0])
    target = int_type(emitter, op.results[0].type)
    converted_type = "i32" if target == "i1" else target  # LLVM's code for one bit is wrong on GPUs
    is_x86 = emitter.platform.arch == "x86_64"
    if type_ == "half" and is_x86:  # LLVM's code with AVX512-FP16 makes the least i16 of NaN
        type_, operand = "float", emitter.body.let(f"fpext half {operand} to float")
    if (type_, converted_type) in LIMIT_IS_NO_FLOAT and is_x86:
        value = _saturated(emitter, instruction, type_, operand, converted_type)
    elif is_x86 and int(converted_type[1:]) <= 32:
        value = _clamped(emitter, instruction, type_, operand, converted_type)
    else:
        value = emitter.intrinsic(
            f"llvm.{instruction}.sat.{converted_type}.{FLOAT_SUFFIX[type_]}", converted_type, (type_, operand)
        )
    # One bit from the saturated i32. A signed one holds -1 or 0: it is set for negative integers. An unsigned one
    # holds 0 or 1: it is set for all integers but 0.
    if target == "i1":
        value = emitter.body.let(f"icmp {'slt' if instruction == 'fptosi' else 'ne'} i32 {value}, 0")
    emitter.define(op.results[0], value)


def _int_to_float(emitter: FunctionEmitter, op: Operation, instruction: str) -> None:
    """Lower a conversion from an integer to a float, `instruction` "sitofp" or "uitofp".

    A conversion to a float that the platform does not compute with, such as an f8, is expanded into other operations.
    """
    source, target = int_type(emitter, op.operands[0].type), op.results[0].type
    if int(source[1:]) > 64 and emitter.platform.arch == "nvptx64":  # NVPTX has no such conversion
        raise emitter.error(f"a float of {source} cannot be made in a kernel for this target", "use 64 bits at most")
    if type(target) in native_floats(emitter.platform).arithmetic:
        operand = emitter.get(op.operands[0])
        emitter.define(op.results[0], emitter.body.let(f"{instruction} {source} {operand} to {scalar(target)}"))
    else:
        expand(emitter, op)


def _convert_float(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.extf` and `arith.truncf` to an instruction if the target has one, else to operations on bits."""
    source, target, native_types = op.operands[0].type, op.results[0].type, native_floats(emitter.platform).conversions
    for type_ in (source, target):
        float_type(emitter, type_)  # raises if it is no float
    if type(source) in native_types and type(target) in native_types:
        instruction = "fpext" if bit_width(target) > bit_width(source) else "fptrunc"
        operand = emitter.get(op.operands[0])
        emitter.define(op.results[0], emitter.body.let(f"{instruction} {scalar(source)} {operand} to {scalar(target)}"))
    else:
        expand(emitter, op)


def _bitcast(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.bitcast`."""
    source, target = scalar(op.operands[0].type), scalar(op.results[0].type)
    value = emitter.get(op.operands[0])
    if source != target:  # i8 and f8 are one type in LLVM
        value = emitter.body.let(f"bitcast {source} {value} to {target}")
    emitter.define(op.results[0], value)


ROWS: dict[str, Lowering] = {
    "arith.extsi": partial(_cast, instruction="sext"),
    "arith.extui": partial(_cast, instruction="zext"),
    "arith.trunci": partial(_cast, instruction="trunc"),
    "arith.index_cast": partial(_index_cast, extension="sext"),
    "arith.index_castui": partial(_index_cast, extension="zext"),
    "arith.fptosi": natively(partial(_float_to_int, instruction="fptosi")),
    "arith.fptoui": natively(partial(_float_to_int, instruction="fptoui")),
    "arith.sitofp": partial(_int_to_float, instruction="sitofp"),
    "arith.uitofp": partial(_int_to_float, instruction="uitofp"),
    "arith.extf": _convert_float,
    "arith.truncf": _convert_float,
    "arith.scaling_extf": expand,
    "arith.scaling_truncf": expand,
    "arith.bitcast": _bitcast,
}
"""Name of an operation → function that emits LLVM IR for it."""
