"""The `math` dialect of xDSL with operations of MLIR that it lacks."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import math
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import AnyFloat, IntegerType, container_of
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, VarConstraint, operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure, SameOperandsAndResultType

from pydispatch.ir.core.assembly import op_definition

_FLOAT = container_of(AnyFloat)
"""Constraint of a float, or of a vector or tensor of floats."""
_FASTMATH = "(`fastmath` `` $fastmath^)? attr-dict"
"""Optional flags of float arithmetic, and attributes: `fastmath<fast> {key = 1}`."""


@op_definition
class ErfcOp(IRDLOperation):
    """Complementary error function, 1 - erf."""

    name = "math.erfc"
    T: ClassVar = VarConstraint("T", _FLOAT)
    operand = operand_def(T)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    result = result_def(T)
    traits = traits_def(Pure(), SameOperandsAndResultType())
    assembly_format = f"$operand {_FASTMATH} `:` type($operand)"


class ClassifyOp(IRDLOperation):
    """Base of tests of floats, such as `math.isnan`; the result is i1 in the shape of the operand.

    The text has only the type of the operand; `custom<TruthOf>` derives the type of the result from it.
    """

    operand = operand_def(_FLOAT)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    result = result_def(container_of(IntegerType(1)))
    traits = traits_def(Pure())
    assembly_format = f"$operand {_FASTMATH} `:` type($operand) custom<TruthOf>(type($result), ref(type($operand)))"


@op_definition
class IsNaNOp(ClassifyOp):
    """Test for NaN."""

    name = "math.isnan"


@op_definition
class IsInfOp(ClassifyOp):
    """Test for infinity."""

    name = "math.isinf"


@op_definition
class IsFiniteOp(ClassifyOp):
    """Test for a finite number."""

    name = "math.isfinite"


@op_definition
class IsNormalOp(ClassifyOp):
    """Test for a normal number: neither 0, subnormal, infinite nor NaN."""

    name = "math.isnormal"


@op_definition
class ClampFOp(IRDLOperation):
    """Clamp of `value` to the range from `min` to `max`, both inclusive."""

    name = "math.clampf"
    T: ClassVar = VarConstraint("T", _FLOAT)
    value = operand_def(T)
    min = operand_def(T)
    max = operand_def(T)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    result = result_def(T)
    traits = traits_def(Pure(), SameOperandsAndResultType())
    assembly_format = f"$value `to` ` ` `[` $min `,` $max `]` {_FASTMATH} `:` type($result)"


@op_definition
class SinCosOp(IRDLOperation):
    """Sine and cosine of one operand."""

    name = "math.sincos"
    T: ClassVar = VarConstraint("T", _FLOAT)
    operand = operand_def(T)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    sin = result_def(T)
    cos = result_def(T)
    traits = traits_def(Pure(), SameOperandsAndResultType())
    assembly_format = f"$operand {_FASTMATH} `:` type($operand)"


_EXTRA: list[type[Operation]] = [ErfcOp, IsNaNOp, IsInfOp, IsFiniteOp, IsNormalOp, ClampFOp, SinCosOp]
"""Operations of MLIR that xDSL lacks."""
Math = Dialect("math", [*math.Math.operations, *_EXTRA], [*math.Math.attributes])
