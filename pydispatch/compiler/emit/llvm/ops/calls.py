"""Calls: helpers of the program, C functions that the linker resolves, and imports.

C conventions. A memref is passed as `ptr allocated, ptr aligned, i64 offset, i64 size..., i64 stride...`; with
`llvm.bareptr` as one pointer to its first element. MLIR's integers have no sign, C's have: narrow ones are passed
zero-extended for i1 (`bool`) and sign-extended for i8 and i16 (`int8_t`, `int16_t`); the argument or result attribute
`llvm.zeroext` is for a C function that takes or returns `uint8_t` or `uint16_t`.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering, helper_symbol
from pydispatch.compiler.emit.llvm.ops.memref import address
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.emit.llvm.values import MemRef, Value, components, unflatten
from pydispatch.compiler.kernel_ir.calls import (
    AVAILABLE,
    import_fields,
    import_symbol,
    is_declaration,
    is_import,
    is_set,
)
from pydispatch.compiler.kernel_ir.readers import attribute, quoted, symbol
from pydispatch.compiler.kernel_ir.types import bit_width, checked_memref, is_float, is_integer
from pydispatch.ir.functions import CALLS


class CArgument(NamedTuple):
    """Argument of a call of a C function that LLVM code makes.

    Attributes:
        type: LLVM type.
        operand: LLVM operand.
        scalar: Type in kernel IR of a scalar; None for a part of a memref, or a field of hal.import.fields.
    """

    type: str
    operand: str
    scalar: Attribute | None = None


def c_arguments(emitter: FunctionEmitter, callee: FuncOp, operands: list[Value]) -> list[CArgument]:
    """Return the arguments of a C call with the values `operands`, one for each parameter of the declaration `callee`.

    A scalar is one argument. A memref is one pointer if the callee has `llvm.bareptr`. Otherwise it is its two
    pointers, its offset, its sizes and its strides: memref<?x4xf32> is ptr, ptr and five i64. The last arguments are
    the values that `hal.import.fields` of the callee names, such as "processor_id", an i32.
    """
    passes_bare_pointers = is_set(callee, "llvm.bareptr")
    arguments: list[CArgument] = []
    for value, type_ in zip(operands, callee.function_type.inputs.data, strict=True):
        if not isinstance(value, MemRef):
            arguments.append(CArgument(scalar(type_), value, type_))
        elif passes_bare_pointers:
            arguments.append(CArgument("ptr", first_element(emitter, value)))
        else:
            checked_memref(type_)
            layout = (value.offset, *value.sizes, *value.strides)
            arguments += [CArgument("ptr", value.base), CArgument("ptr", value.aligned)]
            arguments += [CArgument("i64", str(part)) for part in layout]
    for name in import_fields(callee):
        arguments.append(CArgument(*emitter.platform.field(emitter, name)))
    return arguments


def first_element(emitter: FunctionEmitter, memref: MemRef) -> str:
    """Emit a pointer to the element of a memref at index 0."""
    return address(emitter, memref, [0] * len(memref.sizes))


def extension(emitter: FunctionEmitter, type_: Attribute | None, attributes: Attribute | None) -> str:
    """Return the LLVM attribute that extends a narrow integer in a C call, and a blank: "zeroext ", "signext " or "".

    C's conventions extend bool with zeros and int8_t, int16_t by their sign, RISC-V also int32_t.

    Args:
        emitter: Emitter of the function.
        type_: Type of the argument or result in kernel IR; None for a part of a memref.
        attributes: Dictionary of its attributes in kernel IR, or None; `llvm.zeroext` or `llvm.signext` in it decides.
    """
    if type_ is None or not is_integer(type_) or bit_width(type_) > 32:
        return ""
    attribute_table = attributes.data if isinstance(attributes, DictionaryAttr) else {}
    for word in ("zeroext", "signext"):
        if f"llvm.{word}" in attribute_table:
            return f"{word} "
    if bit_width(type_) == 32:
        return "signext " if emitter.platform.arch == "riscv64" else ""
    return "zeroext " if bit_width(type_) == 1 else "signext "


def _nth(attributes: Attribute | None, index: int) -> Attribute | None:
    """Return element `index` of an array of attributes; None if there is none."""
    return attributes.data[index] if isinstance(attributes, ArrayAttr) and index < len(attributes.data) else None


def linked_call(emitter: FunctionEmitter, callee: FuncOp, operands: list[Value], name: str) -> list[str]:
    """Emit a C call of the symbol `name`, declared by `callee`, and return the name of its result in a list, or [].

    A call with an i8 and with a result of i1 becomes `call zeroext i1 @"f"(i8 signext %x)`. On targets where C
    functions return a float of at most 16 bits as an integer (`_as_bits`), its bits are converted.

    Args:
        emitter: The function's emitter.
        callee: The declaration of the C function.
        operands: Values of the arguments.
        name: Symbol of the C function, which the linker resolves.
    """
    outputs = callee.function_type.outputs.data
    if len(outputs) > 1 or any(isinstance(type_, MemRefType) for type_ in outputs):
        raise emitter.error(
            f"function '{name}' returns {', '.join(map(str, outputs))}: C returns at most one scalar",
            "pass a memref<...> for it to write its results into",
        )
    arguments = _linked_arguments(emitter, callee, operands)
    result_type = _extended_result_type(emitter, callee)
    parameters = ", ".join(f"{argument.type} {argument.extension}".rstrip() for argument in arguments)
    emitter.module.declare(name, f"declare hidden {result_type} @{quoted(name)}({parameters})")
    operand_list = ", ".join(f"{argument.type} {argument.extension}{argument.operand}" for argument in arguments)
    call = f"call {result_type} @{quoted(name)}({operand_list})"
    if not outputs:
        emitter.body.emit(call)
        return []
    value = emitter.body.let(call)
    is_integer_type = scalar(outputs[0]).startswith("i")  # also of floats of 8 bits or less
    if _as_bits(emitter, outputs[0]) and not is_integer_type:
        value = emitter.body.let(f"bitcast i16 {value} to {scalar(outputs[0])}")
    return [value]


def _extended_result_type(emitter: FunctionEmitter, callee: FuncOp) -> str:
    """Return the LLVM type of the result of a C function, after the attribute that extends a small integer."""
    if not callee.function_type.outputs.data:
        return "void"
    (type_,) = callee.function_type.outputs.data
    if _as_bits(emitter, type_):
        return f"zeroext i{bit_width(type_)}"
    return extension(emitter, type_, _nth(attribute(callee, "res_attrs"), 0)) + scalar(type_)


class _ExtendedArgument(NamedTuple):
    """Argument of a C call in LLVM IR, with the attribute that extends a small integer.

    Attributes:
        type: LLVM type.
        extension: Attribute that extends a small integer, such as "zeroext ", with a blank at its end; or "".
        operand: Name of the value.
    """

    type: str
    extension: str
    operand: str


def _linked_arguments(emitter: FunctionEmitter, callee: FuncOp, operands: list[Value]) -> list[_ExtendedArgument]:
    """Return the arguments of a C call of `callee`: one for each scalar operand, several for a memref.

    On targets where C functions take f16 and bf16 as integers (`_as_bits`), their bits are passed, zero-extended.
    """
    arg_attrs = attribute(callee, "arg_attrs")
    arguments: list[_ExtendedArgument] = []
    # The attributes of each scalar operand, in order.
    attributes_of_scalars = iter(
        [_nth(arg_attrs, index) for index, value in enumerate(operands) if not isinstance(value, MemRef)]
    )
    # Each argument as (LLVM type, LLVM value, type in kernel IR of a scalar).
    for type_, operand, scalar_type in c_arguments(emitter, callee, operands):
        if scalar_type is None:  # a part of a memref, or a field of the environment
            arguments.append(_ExtendedArgument(type_, "", operand))
            continue
        attributes = next(attributes_of_scalars)
        if _as_bits(emitter, scalar_type):
            is_integer_type = type_.startswith("i")  # of floats of 8 bits or less; f16 and bf16 are floats in LLVM IR
            bits = operand if is_integer_type else emitter.body.let(f"bitcast {type_} {operand} to i16")
            arguments.append(_ExtendedArgument(f"i{bit_width(scalar_type)}", "zeroext ", bits))
        else:
            arguments.append(_ExtendedArgument(type_, extension(emitter, scalar_type, attributes), operand))
    return arguments


def _as_bits(emitter: FunctionEmitter, type_: Attribute | None) -> bool:
    """Return whether a value is a float of at most 16 bits that C functions of the target take as an integer."""
    return emitter.platform.halves_as_bits and type_ is not None and is_float(type_) and bit_width(type_) <= 16


def _helper_call(emitter: FunctionEmitter, callee: FuncOp, op: Operation) -> list[str]:
    """Emit a call of a function of the program, and return the names of its results.

    The platform's parameters are its first arguments. If the function returns a status first, a failure is passed on.
    """
    name = callee.sym_name.data
    emitter.module.need(name)
    arguments = list(emitter.platform.parameters)
    for operand in op.operands:
        parts = zip(components(operand.type), emitter.llvm_operands([operand]), strict=True)
        arguments += [f"{type_} {part}" for type_, part in parts]
    # The LLVM type of each returned value, a status first, and that of all together: a structure if there are several.
    types, return_type = emitter.returned_types(name), emitter.return_type(name)
    call = f"call {return_type} @{helper_symbol(name)}({', '.join(arguments)})"
    if not types:
        emitter.body.emit(call)
        return []
    returned = emitter.body.let(call)
    if len(types) == 1:
        values = [returned]
    else:
        values = [emitter.body.let(f"extractvalue {return_type} {returned}, {index}") for index in range(len(types))]
    if emitter.module.fallible(name):
        stop_on_failure(emitter, values.pop(0))
    return values


def stop_on_failure(emitter: FunctionEmitter, status: str) -> None:
    """Emit a return from the function with `status`, an i32, unless it is zero."""
    failed, fine = emitter.body.new_label("failed"), emitter.body.new_label("fine")
    bad = emitter.body.let(f"icmp ne i32 {status}, 0")
    # The metadata states that a failure is unlikely: 1 in 2^20.
    weights = emitter.once("unlikely", lambda: str(emitter.module.metadata('!{!"branch_weights", i32 1, i32 1048575}')))
    emitter.body.cond_br(bad, failed, fine, f", !prof !{weights}")
    emitter.body.start(failed)
    emitter.fail(status)
    emitter.body.start(fine)


def _callee(emitter: FunctionEmitter, op: Operation) -> FuncOp:
    """Return the function that a call names.

    Raises:
        CompileError: The function is not declared.
    """
    name = symbol(op, "callee")
    callee = emitter.module.functions.get(name)
    if callee is None:
        raise emitter.error(
            f"call of '{name}', which the executable does not declare", "declare it: func.func private @..."
        )
    return callee


def _is_available(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower the query whether a function is available: a test at run time for an import, else true: it is linked."""
    callee = _callee(emitter, op)
    emitter.define(op.results[0], emitter.platform.import_available(emitter, callee) if is_import(callee) else "true")


def _call(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `func.call` to a helper function, an import or a linked C function."""
    callee, name = _callee(emitter, op), symbol(op, "callee")
    operand_types = [operand.type for operand in op.operands]
    if operand_types != list(callee.function_type.inputs.data):
        raise emitter.error(
            f"call of '{name}' with ({', '.join(map(str, operand_types))}), declared is {callee.function_type}"
        )
    operands = [emitter.values[operand] for operand in op.operands]
    if not is_declaration(callee):
        values = _helper_call(emitter, callee, op)
    elif is_import(callee):
        values = emitter.platform.import_call(emitter, callee, operands)
    else:
        values = linked_call(emitter, callee, operands, import_symbol(callee))
    # A scalar result is one LLVM value; a memref is several: its pointers, offset, sizes and strides.
    remaining = iter(values)
    for result in op.results:
        emitter.define(result, unflatten([next(remaining) for _ in components(result.type)], result.type))


ROWS: dict[str, Lowering] = {**dict.fromkeys(CALLS, _call), AVAILABLE: _is_available}
"""Name of an operation → function that emits LLVM IR for it."""
