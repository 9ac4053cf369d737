"""The `util` dialect: functions, globals, assumptions and small host arithmetic."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.hal.device import DEVICE_ATTRS, DeviceType
from pydispatch.ir.dialects.util import functions, scalars
from pydispatch.ir.dialects.util.functions import CallOp, FuncOp, InitializerOp, ReturnOp

__all__ = [
    "AssumeIntOp",
    "CallOp",
    "FuncOp",
    "GlobalLoadOp",
    "GlobalOp",
    "GlobalStoreOp",
    "InitializerOp",
    "ReturnOp",
    "Util",
]


@directive
class TypeAndValue(CustomDirective):
    """Directive for the type and the initial value of a global: `: T`, `= value` or both. The type is omitted if the
    value states it."""

    type: AttributeVariable
    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the type and initial value of a global: `: type`, `= value`, or `: type = value`."""
        type: Attribute | None = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else None
        if parser.parse_optional_punctuation("=") is not None:
            start = parser.pos
            value = parser.parse_attribute()
            self.value.set(state, value)
            if type is None and parser.parse_optional_punctuation(":") is not None:  # `= value : type`
                type = parser.parse_type()
            type = type or _type_of(value)
            if type is None:
                message = "the type of this value is not clear: write ': type' after it"
                parser.raise_error(message, start, parser.pos)
        if type is None:
            parser.raise_error("a global needs a type or an initial value")
        self.type.set(state, type)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the type, unless the value has it, and the initial value."""
        type, value = self.type.get(op), self.value.get(op)
        assert type is not None
        if value is None or _type_of(value) != type:
            printer.print_string(" : ")
            printer.print_attribute(type)
        if value is not None:
            printer.print_string(" = ")
            printer.print_attribute(value)


@op_definition
class GlobalOp(IRDLOperation):
    """Variable of the program, which lives as long as the loaded program. Only a `mutable` one is stored to after its
    initialization."""

    name = "util.global"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    is_mutable = opt_prop_def(UnitAttr)
    type = prop_def(Attribute)
    initial_value = opt_prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())
    custom_directives = (TypeAndValue,)
    assembly_format = (
        "custom<Visibility>($sym_visibility) (`mutable` $is_mutable^)? $sym_name attr-dict-with-keyword "
        "custom<TypeAndValue>($type, $initial_value)"
    )


def _type_of(value: Attribute) -> Attribute | None:
    """Return the type of a value as an attribute states it; None if it states none."""
    if isinstance(value, DEVICE_ATTRS):
        return DeviceType()
    type = getattr(value, "type", None)
    return type if isinstance(type, Attribute) else None


@op_definition
class GlobalLoadOp(IRDLOperation):
    """Load of a global. `is_immutable` repeats that the global never changes after its initialization."""

    name = "util.global.load"
    is_immutable = opt_prop_def(UnitAttr)
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()
    assembly_format = "(`immutable` $is_immutable^)? $global attr-dict `:` type($result)"


@op_definition
class GlobalStoreOp(IRDLOperation):
    """Store to a global."""

    name = "util.global.store"
    value = operand_def()
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    assembly_format = "$value `,` $global attr-dict `:` type($value)"


@directive
class Assumed(CustomDirective):
    """Directive for integers with assumptions, `%a<umin = 0>, %b[<umin = 0>, <udiv = 8>]`.

    `assumptions` has a list for each of `values`, with one dictionary for each `<...>`.
    """

    values: VariadicOperandVariable
    assumptions: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `%a<umin = 0>, %b[<umin = 0>, <udiv = 8>]`: values, each with one or several sets of assumptions.

        A single set has no brackets. `values` gets the values, `assumptions` a list of sets for each of them.
        """
        rows: list[Attribute] = []  # for each value its list of sets

        def parse_value() -> UnresolvedOperand:
            """Parse `%a<umin = 0>` or `%b[<umin = 0>, <udiv = 8>]`: add the sets to `rows`, return the value."""
            name = parser.parse_unresolved_operand()
            if parser._current_token.text == "[":
                assumptions = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: _parse_assumption(parser)
                )
            else:
                assumptions = [_parse_assumption(parser)]
            rows.append(ArrayAttr(assumptions))
            return name

        self.values.set(state, parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_value))
        self.assumptions.set(state, ArrayAttr(rows))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print each value, followed without a space by its sets of assumptions; a single set has no brackets.

        Example: `%a<umin = 0>, %b[<umin = 0>, <udiv = 8>]`. `assumptions` of `op` has a list of sets for each value.
        """
        rows = self.assumptions.get(op)
        assert isinstance(rows, ArrayAttr)

        def print_value(row: tuple[SSAValue, Attribute]) -> None:
            """Print `%b[<umin = 0>, <udiv = 8>]`, or `%a<umin = 0>` if there is exactly one set of assumptions."""
            value, assumptions = row
            assert isinstance(assumptions, ArrayAttr)
            open, close = ("", "") if len(assumptions) == 1 else ("[", "]")
            printer.print_ssa_value(value)
            printer.print_string(open)
            printer.print_list(assumptions, lambda a: _print_assumption(printer, a))
            printer.print_string(close)

        state.print_whitespace(printer)
        printer.print_list(list(zip(self.values.get(op), rows, strict=True)), print_value)


@op_definition
class AssumeIntOp(IRDLOperation):
    """Identity on integers that attaches assumptions about their values.

    Syntax: `%a<umin = 0, umax = 64, udiv = 8>` for a multiple of 8 from 0 to 64, or `%a[<...>, <...>]` with one set of
    assumptions per call site. `assumptions[i]` is the list of these sets, as dictionaries, for operand i.
    """

    name = "util.assume.int"
    operands_ = var_operand_def()
    assumptions = prop_def(ArrayAttr)
    results_ = var_result_def()
    custom_directives = (Assumed,)
    assembly_format = (
        "custom<Assumed>($operands_, $assumptions) attr-dict `:` type($operands_) "
        "custom<SameTypes>(type($results_), ref(type($operands_)))"
    )


def _parse_assumption(parser: Parser) -> DictionaryAttr:
    """Parse one set of assumptions, `<umin = 0, umax = 64, udiv = 8>`: inclusive bounds, and a divisor."""
    values: dict[str, Attribute] = {}
    with parser.in_angle_brackets():
        while parser._current_token.text != ">":
            start = parser.pos
            key = parser.parse_identifier(context_msg=" in an assumption")
            if key not in ("umin", "umax", "udiv"):
                parser.raise_error(f"unknown assumption '{key}', expected umin, umax or udiv", start, parser.pos)
            parser.parse_punctuation("=")
            values[key] = IntegerAttr(parser.parse_integer(), IndexType())
            if parser.parse_optional_punctuation(",") is None:
                break
    return DictionaryAttr(values)


def _print_assumption(printer: Printer, assumption: Attribute) -> None:
    """Print what is assumed of an integer: `<umin = 1, umax = 8>`."""
    assert isinstance(assumption, DictionaryAttr)
    parts = [f"{k} = {v.value.data}" for k, v in assumption.data.items() if isinstance(v, IntegerAttr)]
    printer.print_string(f"<{', '.join(parts)}>")


OPERATIONS: list[type[Operation]] = [GlobalOp, GlobalLoadOp, GlobalStoreOp, AssumeIntOp]

Util = Dialect("util", [*functions.OPERATIONS, *OPERATIONS, *scalars.OPERATIONS], [*scalars.ATTRIBUTES])
