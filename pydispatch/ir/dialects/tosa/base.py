"""Common base of TOSA operations: value operands, results and attributes in one shared syntax."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    opt_prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.tosa.attributes import NanMode, ResizeMode, RoundingMode, ShapeType, ZeroPoints

VALUE = BaseAttr(TensorType) | BaseAttr(UnrankedTensorType) | BaseAttr(ShapeType)
"""Constraint of an operand or result: a tensor, or the type of a list of sizes."""

ANY = BaseAttr(Attribute)
"""Constraint of a property that may be any attribute; the constraints below admit one kind each."""
NUMBER = BaseAttr(IntegerAttr)  # an integer or truth value
NUMBERS = BaseAttr(DenseArrayBase) | BaseAttr(ArrayAttr)  # a list of integers, in both forms that releases write
TEXT = BaseAttr(StringAttr)  # a string
NAN = BaseAttr(NanMode)
ROUNDING = BaseAttr(RoundingMode)
RESIZE = BaseAttr(ResizeMode) | BaseAttr(StringAttr)  # a mode of `tosa.resize`; older programs write a string
ZERO_POINTS = BaseAttr(ZeroPoints)  # releases before 1.0: `quantization_info`
MANY = 1 << 30
"""Greatest number of operands that stands for no limit."""


@directive
class PropertyClauses(CustomDirective):
    """Directive for properties `name(value)`, such as `min_val(1.0 : f32) max_val(4.0 : f32)`.

    A program may write properties so, or as entries of the attribute dictionary. They are printed as entries.
    """

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse any number of properties `name(value)`, in any order."""
        known = state.op_type.get_irdl_definition().properties
        start = parser.pos
        while (name := parser.parse_optional_identifier()) is not None:
            if name not in known:
                parser.raise_error(f"'{name}' is not a property of '{state.op_type.name}'", start, parser.pos)
            if name in state.properties:
                parser.raise_error(f"'{name}' of '{state.op_type.name}' is given twice", start, parser.pos)
            with parser.in_parens():
                state.properties[name] = parser.parse_attribute()
            start = parser.pos

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: the properties are printed in the attribute dictionary."""

    def is_present(self, op: IRDLOperation) -> bool:
        """Return False, so that `name(value)` is never printed: the attribute dictionary has the properties."""
        return False


class TosaOp(IRDLOperation):
    """Base of TOSA operations, `tosa.name %a, %b key(value) {key = value} : (T, U) -> V`.

    Attributes:
        COUNTS: Least and greatest number of operands; `MANY` if there is no limit.
        RESULTS: Number of results; None for any number.
    """

    COUNTS: ClassVar[tuple[int, int]] = (0, MANY)
    RESULTS: ClassVar[int | None] = 1

    inputs = var_operand_def(VALUE)
    outputs = var_result_def(VALUE)
    irdl_options = (ParsePropInAttrDict(),)
    custom_directives = (PropertyClauses,)
    assembly_format = "$inputs custom<PropertyClauses>() attr-dict `:` functional-type($inputs, $outputs)"

    def verify_(self) -> None:
        """Check that the numbers of operands and results are those of `COUNTS` and `RESULTS`."""
        least, most = self.COUNTS
        if not least <= len(self.inputs) <= most:
            wanted = f"{least} to {most}"
            if least == most:
                wanted = str(least)
            elif most == MANY:
                wanted = f"at least {least}"
            raise VerifyException(f"{len(self.inputs)} operand(s) are given, expected {wanted}")
        if self.RESULTS is not None and len(self.outputs) != self.RESULTS:
            raise VerifyException(f"{len(self.outputs)} result(s) are given, expected {self.RESULTS}")


def operation(
    mnemonic: str, operands: int | tuple[int, int], *, results: int | None = 1, pure: bool = True, **properties: Any
) -> type[TosaOp]:
    """Create the class of an operation: a TosaOp, whose verifier compares the numbers of operands and results.

    For example `operation("add", 2)` returns a class `AddOp` for `tosa.add`, with two operands and one result.

    Args:
        mnemonic: Name without the dialect.
        operands: Number of operands, or the least and the greatest number, which is `MANY` for no limit.
        results: Number of results; None for any number.
        pure: Whether the operation has no side effects.
        properties: Constraints of the properties by name; all properties are optional.
    """
    counts = operands if isinstance(operands, tuple) else (operands, operands)
    fields: dict[str, Any] = {name: opt_prop_def(kind) for name, kind in properties.items()}
    fields |= {"name": f"tosa.{mnemonic}", "__module__": __name__}
    if pure:
        fields["traits"] = traits_def(Pure())
    op_class: type[TosaOp] = op_definition(type(f"{mnemonic.title().replace('_', '')}Op", (TosaOp,), fields))
    op_class.COUNTS, op_class.RESULTS = counts, results
    return op_class
