"""arith without conversions (`conversions.py`): one row per operation.

Integers are two's complement; `kernel_ir/expand/integers.py` has guarded shifts and divisions. Floats follow IEEE 754
without contraction, unless the op has fast-math flags.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.definitions import natively, only_plain
from pydispatch.compiler.emit.llvm.extremes import order_of
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.types import float_constant, int_constant, scalar
from pydispatch.compiler.emit.llvm.values import MemRef, components, flatten, unflatten
from pydispatch.compiler.kernel_ir.kernel import UNPREDICTABLE
from pydispatch.compiler.kernel_ir.readers import FLOAT_PREDICATES, INT_PREDICATES, attribute, flags, integer, op_name
from pydispatch.compiler.kernel_ir.types import bit_width, is_float, is_integer

FLOAT_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}
"""LLVM type of a float -> its suffix in the names of intrinsics."""


def fast(op: Operation) -> str:
    """Return the fast-math flags of an operation as LLVM text that ends with a space; "" for none."""
    fast_flags = flags(op, "fastmath")
    return "fast " if len(fast_flags.split()) == 7 else fast_flags  # LLVM has 7 flags, and "fast" for all of them


def int_type(emitter: FunctionEmitter, type_: Attribute) -> str:
    """Return the LLVM type of an integer; raise the error of `unsupported_type` for another type."""
    if not is_integer(type_):
        raise unsupported_type(emitter, type_)
    return scalar(type_)


def float_type(emitter: FunctionEmitter, type_: Attribute) -> str:
    """Return the LLVM type of a float; raise the error of `unsupported_type` for another type."""
    if not is_float(type_):
        raise unsupported_type(emitter, type_)
    return scalar(type_)


def unsupported_type(emitter: FunctionEmitter, type_: Attribute) -> Exception:
    """Return the error for an operation on a type that kernels do not compute with."""
    return emitter.error(
        f"operation '{op_name(emitter.op)}' on {type_} cannot be compiled into a kernel",
        "kernel IR computes on scalars; vectors come from parallel loops",
    )


def _constant(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.constant` of a scalar to the literal that LLVM IR has for it."""
    value, type_ = attribute(op, "value"), op.results[0].type
    if isinstance(value, IntegerAttr):
        int_type(emitter, type_)  # raises for another type
        emitter.define(op.results[0], int_constant(int(value.value.data), type_))
    elif isinstance(value, FloatAttr):
        float_type(emitter, type_)  # raises for another type
        emitter.define(op.results[0], float_constant(float(value.value.data), type_))
    else:
        raise unsupported_type(emitter, type_)


def _int(instruction: str, fold: Callable[[int, int], int] | None = None) -> Lowering:
    """Return the lowering to the LLVM integer instruction of this name.

    `fold` computes the result, before it is wrapped, if both operands are constants; None: constants are not folded.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Define the result by `instruction`, or as a constant if `fold` computes it from two constants."""
        type_ = int_type(emitter, op.results[0].type)
        a, b = emitter.get(op.operands[0]), emitter.get(op.operands[1])
        constant_a, constant_b = as_index(a), as_index(b)  # an int if it is a constant
        if fold and isinstance(constant_a, int) and isinstance(constant_b, int):
            emitter.define(op.results[0], int_constant(fold(constant_a, constant_b), op.results[0].type))
            return
        overflow = flags(op, "overflowFlags")  # with a blank after each flag
        emitter.define(op.results[0], emitter.body.let(f"{instruction} {overflow}{type_} {a}, {b}"))

    return lower


def _float(instruction: str) -> Lowering:
    """Return the lowering of a float instruction; types that the target lacks are computed in f32 (`natively`)."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Emit `instruction` on the operands, with the operation's fast-math flags."""
        operands, type_ = ", ".join(emitter.get(o) for o in op.operands), scalar(op.results[0].type)
        emitter.define(op.results[0], emitter.body.let(f"{instruction} {fast(op)}{type_} {operands}"))

    return natively(lower)


def _remf(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an exact float remainder to frem, for which LLVM calls C's fmod on CPUs.

    On NVIDIA GPUs, LLVM compiles frem to inexact instructions, so that C's fmod is called explicitly.
    """
    if emitter.platform.arch != "nvptx64":
        _FREM(emitter, op)
        return
    type_ = scalar(op.results[0].type)
    symbol = emitter.platform.math_call("fmod" if type_ == "double" else "fmodf")
    emitter.define(op.results[0], emitter.intrinsic(symbol, type_, *((type_, emitter.get(o)) for o in op.operands)))


_FREM = _float("frem")
"""Lowering to frem, which CPUs compile to a call of C's fmod."""


def _negf(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a float negation."""
    type_, operand = scalar(op.results[0].type), emitter.get(op.operands[0])
    emitter.define(op.results[0], emitter.body.let(f"fneg {fast(op)}{type_} {operand}"))


def _intrinsic_int(name: str) -> Lowering:
    """Return the lowering of an operation on integers to the intrinsic `llvm.NAME`."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Call the intrinsic `llvm.NAME` of the result's type."""
        type_ = int_type(emitter, op.results[0].type)
        arguments = [(type_, emitter.get(operand)) for operand in op.operands]
        emitter.define(op.results[0], emitter.intrinsic(f"llvm.{name}.{type_}", type_, *arguments))

    return lower


def _intrinsic_float(name: str) -> Lowering:
    """Return the lowering of a float operation to an intrinsic; types that the target lacks are computed in f32."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Call the intrinsic `llvm.NAME` of the result's type, with the operation's fast-math flags."""
        type_ = scalar(op.results[0].type)
        operands = ((type_, emitter.get(o)) for o in op.operands)
        emitter.define(
            op.results[0], emitter.intrinsic(f"llvm.{name}.{FLOAT_SUFFIX[type_]}", type_, *operands, flags=fast(op))
        )

    return natively(lower)


def _extreme(name: str) -> Lowering:
    """Return the lowering of a maximum or minimum of floats that propagates NaN.

    x86 needs six instructions for that. So a long loop there carries the float as an integer of the same order
    (`extremes.py`), and each step is one integer maximum or minimum.
    """
    lower_as_float = _intrinsic_float(name)

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Emit the float intrinsic (`lower_as_float`), or an integer maximum or minimum if the loop carries an integer.

        An Order represents the floats by integers that sort like them.
        """
        order = order_of(emitter, op.results[0])  # None if no loop carries an integer instead
        if order is None:
            lower_as_float(emitter, op)
        else:
            emitter.define(op.results[0], order.emit_step(emitter))

    return lower


def _wide_product(extension: str) -> Lowering:
    """Return the lowering of a product with two results, its low and its high half.

    `extension` is how factors are extended: "sext" for a signed product, "zext" for an unsigned one.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Emit a multiplication in twice the width, of factors that `extension` ("sext" or "zext") extends.

        Define the results as the low and the high half of the product.
        """
        width = bit_width(op.results[0].type)
        type_, wide = int_type(emitter, op.results[0].type), f"i{2 * width}"
        factors = [emitter.body.let(f"{extension} {type_} {emitter.get(o)} to {wide}") for o in op.operands]
        product = emitter.body.let(f"mul {wide} {factors[0]}, {factors[1]}")
        emitter.define(op.results[0], emitter.body.let(f"trunc {wide} {product} to {type_}"))
        upper = emitter.body.let(f"lshr {wide} {product}, {width}")
        emitter.define(op.results[1], emitter.body.let(f"trunc {wide} {upper} to {type_}"))

    return lower


def _addui_extended(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.addui_extended`: a sum and its carry."""
    type_ = int_type(emitter, op.results[0].type)
    pair = f"{{ {type_}, i1 }}"
    both = emitter.intrinsic(f"llvm.uadd.with.overflow.{type_}", pair, *((type_, emitter.get(o)) for o in op.operands))
    emitter.define(op.results[0], emitter.body.let(f"extractvalue {pair} {both}, 0"))
    emitter.define(op.results[1], emitter.body.let(f"extractvalue {pair} {both}, 1"))


def _cmpi(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.cmpi`."""
    predicate = INT_PREDICATES[integer(op, "predicate")]
    type_ = int_type(emitter, op.operands[0].type)
    a, b = (emitter.get(operand) for operand in op.operands)
    emitter.define(op.results[0], emitter.body.let(f"icmp {predicate} {type_} {a}, {b}"))


def _cmpf(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.cmpf`."""
    predicate, type_ = FLOAT_PREDICATES[integer(op, "predicate")], scalar(op.operands[0].type)
    a, b = (emitter.get(o) for o in op.operands)
    emitter.define(op.results[0], emitter.body.let(f"fcmp {fast(op)}{predicate} {type_} {a}, {b}"))


def _select(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `arith.select` of scalars or memrefs by a condition of type i1.

    A scalar takes one LLVM select. A memref takes one for each pointer, dynamic size, offset or stride that differs.
    """
    condition, (then, other) = emitter.get(op.operands[0]), op.operands[1:]
    if scalar(op.operands[0].type) != "i1":
        raise unsupported_type(emitter, op.operands[0].type)
    result = op.results[0]
    a, b = emitter.values[then], emitter.values[other]
    metadata = ""
    if attribute(op, UNPREDICTABLE) is not None:  # makes LLVM prefer a conditional move to a branch
        metadata = f", !unpredictable !{emitter.once('empty', lambda: str(emitter.module.metadata('!{}')))}"
    types, left_parts, right_parts = components(result.type), flatten(a, result.type), flatten(b, result.type)
    parts = [
        left if left == right else emitter.body.let(f"select i1 {condition}, {type_} {left}, {type_} {right}{metadata}")
        for type_, left, right in zip(types, left_parts, right_parts, strict=True)
    ]
    emitter.define(result, unflatten(parts, result.type))
    # `unflatten` returns a memref of unknown storage. If both memrefs are in one storage, the result is in it too, and
    # its accesses have the alias scope of that storage.
    if isinstance(a, MemRef) and isinstance(b, MemRef) and a.root == b.root:
        selected = emitter.memref(result)
        emitter.define(result, selected.rooted(a.root, a.read_only and b.read_only))


ROWS: dict[str, Lowering] = {
    "arith.constant": _constant,
    "arith.addi": _int("add", lambda a, b: a + b),
    "arith.subi": _int("sub", lambda a, b: a - b),
    "arith.muli": _int("mul", lambda a, b: a * b),
    "arith.andi": _int("and"),
    "arith.ori": _int("or"),
    "arith.xori": _int("xor"),
    "arith.shli": _int("shl"),
    "arith.shrsi": _int("ashr"),
    "arith.shrui": _int("lshr"),
    "arith.minsi": _intrinsic_int("smin"),
    "arith.maxsi": _intrinsic_int("smax"),
    "arith.minui": _intrinsic_int("umin"),
    "arith.maxui": _intrinsic_int("umax"),
    "arith.mulsi_extended": _wide_product("sext"),
    "arith.mului_extended": _wide_product("zext"),
    "arith.addui_extended": _addui_extended,
    "arith.addf": _float("fadd"),
    "arith.subf": _float("fsub"),
    "arith.mulf": _float("fmul"),
    "arith.divf": _float("fdiv"),
    "arith.remf": natively(_remf),
    "arith.negf": only_plain(_negf),
    "arith.maximumf": _extreme("maximum"),
    "arith.minimumf": _extreme("minimum"),
    "arith.maxnumf": _intrinsic_float("maxnum"),
    "arith.minnumf": _intrinsic_float("minnum"),
    "arith.cmpi": _cmpi,
    "arith.cmpf": natively(_cmpf),
    "arith.select": _select,
}
"""Name of an operation → function that emits LLVM IR for it."""
