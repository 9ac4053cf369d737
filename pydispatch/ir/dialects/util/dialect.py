"""The `util` dialect: functions, globals, assumptions and small host arithmetic."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface

from pydispatch.ir.core import syntax
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


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """A value that lives as long as the program."""

    name = "util.global"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    is_mutable = opt_prop_def(UnitAttr)
    type = prop_def(Attribute)
    initial_value = opt_prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> GlobalOp:
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        if p.parse_optional_keyword("mutable") is not None:
            properties["is_mutable"] = UnitAttr()
        properties["sym_name"] = p.parse_symbol_name()
        attributes = syntax.parse_attributes(p) | p.parse_optional_attr_dict()
        if p.parse_optional_punctuation(":") is not None:
            properties["type"] = p.parse_type()
        if p.parse_optional_punctuation("=") is not None:
            start = p.pos
            value = p.parse_attribute()
            properties["initial_value"] = value
            if "type" not in properties and p.parse_optional_punctuation(":") is not None:
                properties["type"] = p.parse_type()
            if "type" not in properties:
                properties["type"] = _type_of(value)
            if properties["type"] is None:
                p.raise_error("the type of this value is not clear: write ': type' after it", start, p.pos)
        if properties.get("type") is None:
            p.raise_error("a global needs a type or an initial value")
        return cls(properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" " if self.is_mutable is None else " mutable ")
        printer.print_symbol_name(self.sym_name.data)
        syntax.print_attributes(printer, self.attributes)
        value = self.initial_value
        if value is None or _type_of(value) != self.type:
            printer.print_string(" : ")
            printer.print_attribute(self.type)
        if value is not None:
            printer.print_string(" = ")
            printer.print_attribute(value)


def _type_of(value: Attribute) -> Attribute | None:
    if isinstance(value, DEVICE_ATTRS):
        return DeviceType()
    type = getattr(value, "type", None)
    return type if isinstance(type, Attribute) else None


@irdl_op_definition
class GlobalLoadOp(IRDLOperation):
    name = "util.global.load"
    is_immutable = opt_prop_def(UnitAttr)
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()
    assembly_format = "(`immutable` $is_immutable^)? $global attr-dict `:` type($result)"


@irdl_op_definition
class GlobalStoreOp(IRDLOperation):
    name = "util.global.store"
    value = operand_def()
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    assembly_format = "$value `,` $global attr-dict `:` type($value)"


@irdl_op_definition
class AssumeIntOp(IRDLOperation):
    """Passes integers on with what is known of them: `%a<umin = 0, udiv = 8>` or `%a[<...>, <...>]` per call site.

    assumptions[i] is an array of dictionaries for operand i.
    """

    name = "util.assume.int"
    operands_ = var_operand_def()
    assumptions = prop_def(ArrayAttr)
    results_ = var_result_def()

    @classmethod
    def parse(cls, p: Parser) -> AssumeIntOp:
        names: list[UnresolvedOperand] = []
        rows: list[Attribute] = []
        while True:
            names.append(p.parse_unresolved_operand())
            if p._current_token.text == "[":
                rows.append(ArrayAttr(p.parse_comma_separated_list(p.Delimiter.SQUARE, lambda: _assumption(p))))
            else:
                rows.append(ArrayAttr([_assumption(p)]))
            if p.parse_optional_punctuation(",") is None:
                break
        attributes = p.parse_optional_attr_dict()
        start = p.pos
        p.parse_punctuation(":")
        types = [p.parse_type()]
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
        operands = p.resolve_operands(names, types, start)
        return cls(
            operands=[operands], result_types=[types], properties={"assumptions": ArrayAttr(rows)},
            attributes=attributes,
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        rows = list(zip(self.operands_, self.assumptions, strict=True))

        def one(row: tuple[SSAValue, Attribute]) -> None:
            printer.print_ssa_value(row[0])
            assert isinstance(row[1], ArrayAttr)
            if len(row[1]) == 1:
                _print_assumption(printer, row[1].data[0])
            else:
                printer.print_string("[")
                printer.print_list(row[1], lambda a: _print_assumption(printer, a))
                printer.print_string("]")

        printer.print_list(rows, one)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_list(self.results_, lambda r: printer.print_attribute(r.type))


def _assumption(p: Parser) -> DictionaryAttr:
    values: dict[str, Attribute] = {}
    with p.in_angle_brackets():
        while p._current_token.text != ">":
            start = p.pos
            key = p.parse_identifier(" in an assumption")
            if key not in ("umin", "umax", "udiv"):
                p.raise_error(f"unknown assumption '{key}', expected umin, umax or udiv", start, p.pos)
            p.parse_punctuation("=")
            values[key] = IntegerAttr(p.parse_integer(), IndexType())
            if p.parse_optional_punctuation(",") is None:
                break
    return DictionaryAttr(values)


def _print_assumption(printer: Printer, assumption: Attribute) -> None:
    assert isinstance(assumption, DictionaryAttr)
    parts = [f"{k} = {v.value.data}" for k, v in assumption.data.items() if isinstance(v, IntegerAttr)]
    printer.print_string(f"<{', '.join(parts)}>")


OPERATIONS: list[type[Operation]] = [GlobalOp, GlobalLoadOp, GlobalStoreOp, AssumeIntOp]

Util = Dialect("util", [*functions.OPERATIONS, *OPERATIONS, *scalars.OPERATIONS], [*scalars.ATTRIBUTES])
