"""The `util` dialect: functions, globals, assumptions and small host arithmetic."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir import syntax, util_scalar
from pydispatch.ir.hal_attrs import DEVICE_ATTRS, DeviceType


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A host function. A declaration has an empty body. `tied_operands[i]` is the argument of result i, or -1."""

    name = "util.func"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    tied_operands = opt_prop_def(DenseArrayBase)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @property
    def args(self) -> tuple[SSAValue, ...]:
        block = self.body.blocks.first
        return () if block is None else tuple(block.args)

    @property
    def is_declaration(self) -> bool:
        return not self.body.blocks

    @classmethod
    def parse(cls, p: Parser) -> FuncOp:
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        properties["sym_name"] = p.parse_symbol_name()
        arguments: list[Parser.Argument] = []
        types: list[Attribute] = []
        attrs: list[DictionaryAttr] = []

        def argument() -> None:
            parsed = p.parse_optional_argument()
            if parsed is None:
                types.append(p.parse_type())
            else:
                arguments.append(parsed)
                types.append(parsed.type)
            attrs.append(DictionaryAttr(p.parse_optional_attr_dict()))

        start = p.pos
        p.parse_comma_separated_list(p.Delimiter.PAREN, argument, " in function arguments")
        results: list[Attribute] = []
        tied: list[int] = []
        res_attrs: list[DictionaryAttr] = []
        if p.parse_optional_punctuation("->") is not None:
            _parse_results(p, arguments, types, results, tied, res_attrs)
        attributes = syntax.parse_attributes(p)
        body = Region()
        if p._current_token.text == "{":
            if len(arguments) != len(types):
                p.raise_error("the arguments of a function with a body have names", start, start + 1)
            body = p.parse_region(arguments)
        properties["function_type"] = FunctionType.from_lists(types, results)
        properties["tied_operands"] = syntax.tied_attr(tied)
        properties["arg_attrs"] = ArrayAttr(attrs) if any(a.data for a in attrs) else None
        properties["res_attrs"] = ArrayAttr(res_attrs) if any(a.data for a in res_attrs) else None
        return cls(properties=properties, attributes=attributes, regions=[body])

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        inputs = self.function_type.inputs.data
        # Without a body the arguments need names only to tie results to them.
        tied = syntax.tied_list(self.tied_operands)
        names = [f"%arg{i}" for i in range(len(inputs))] if self.is_declaration and tied else None
        printer.print_string("(")

        def argument(i: int) -> None:
            if self.is_declaration:
                printer.print_string(f"{names[i]}: " if names else "")
                printer.print_attribute(inputs[i])
            else:
                printer.print_ssa_value(self.args[i])
                printer.print_string(": ")
                printer.print_attribute(inputs[i])
            if self.arg_attrs is not None:
                syntax.print_attributes(printer, self.arg_attrs.data[i].data, keyword=False)

        printer.print_list(range(len(inputs)), argument)
        printer.print_string(")")
        if self.function_type.outputs.data:
            printer.print_string(" -> ")
            self._print_results(printer, tied, names)
        syntax.print_attributes(printer, self.attributes)
        if not self.is_declaration:
            printer.print_string(" ")
            printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def _print_results(self, printer: Printer, tied: tuple[int, ...] | None, names: list[str] | None) -> None:
        outputs, inputs = self.function_type.outputs.data, self.function_type.inputs.data

        def one(i: int) -> None:
            if tied is not None and tied[i] >= 0:
                if names:
                    printer.print_string(names[tied[i]])
                else:
                    printer.print_ssa_value(self.args[tied[i]])
                if inputs[tied[i]] != outputs[i]:
                    printer.print_string(" as ")
                    printer.print_attribute(outputs[i])
            else:
                printer.print_attribute(outputs[i])
            if self.res_attrs is not None:
                syntax.print_attributes(printer, self.res_attrs.data[i].data, keyword=False)

        if len(outputs) == 1 and self.res_attrs is None:
            one(0)
            return
        printer.print_string("(")
        printer.print_list(range(len(outputs)), one)
        printer.print_string(")")

    def verify_(self) -> None:
        if not self.is_declaration and tuple(a.type for a in self.args) != self.function_type.inputs.data:
            raise VerifyException("the entry block has other argument types than the function")
        for block in self.body.blocks:
            last = block.last_op
            if isinstance(last, ReturnOp) and tuple(o.type for o in last.operands) != self.function_type.outputs.data:
                got = ", ".join(str(o.type) for o in last.operands)
                want = ", ".join(str(t) for t in self.function_type.outputs)
                raise VerifyException(f"@{self.sym_name.data} returns ({got}), but is declared to return ({want})")


def _parse_results(
    p: Parser,
    arguments: list[Parser.Argument],
    types: list[Attribute],
    results: list[Attribute],
    tied: list[int],
    attrs: list[DictionaryAttr],
) -> None:
    """`T`, `%arg`, `%arg as T`, or a list of these with attributes."""
    names = [UnresolvedOperand(a.name, 0) for a in arguments]

    def one() -> None:
        name = p.parse_optional_unresolved_operand()
        if name is None:
            results.append(p.parse_type())
            tied.append(-1)
        else:
            known = [n.operand_name for n in names]
            if name.operand_name not in known:
                p.raise_error(f"result is tied to %{name.operand_name}, which is not an argument",
                              name.span.start, name.span.end)  # fmt: skip
            tied.append(known.index(name.operand_name))
            results.append(p.parse_type() if p.parse_optional_keyword("as") else types[tied[-1]])
        attrs.append(DictionaryAttr(p.parse_optional_attr_dict()) if in_list else syntax.EMPTY_DICT)

    in_list = p._current_token.text == "("
    if in_list:
        p.parse_comma_separated_list(p.Delimiter.PAREN, one, " in function results")
    else:
        one()


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a function, an initializer or a host region."""

    name = "util.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


@irdl_op_definition
class CallOp(IRDLOperation):
    """A call of a host function."""

    name = "util.call"
    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def()
    tied_operands = opt_prop_def(DenseArrayBase)
    results_ = var_result_def()

    @classmethod
    def parse(cls, p: Parser) -> CallOp:
        start = p.pos
        callee = p.parse_attribute()
        if not isinstance(callee, SymbolRefAttr):
            p.raise_error("expected the function to call: @name", start, p.pos)
        names = p.parse_op_args_list()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        signature = syntax.parse_shaped_signature(p, names, with_dims=False)
        return cls(
            operands=[signature.arguments],
            result_types=[signature.result_types],
            properties={"callee": callee, "tied_operands": syntax.tied_attr(signature.tied)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.callee)
        syntax.print_operands(printer, self.arguments)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        types = [r.type for r in self.results_]
        tied = syntax.tied_list(self.tied_operands)
        syntax.print_shaped_signature(printer, self.arguments, [], types, [], tied)


@irdl_op_definition
class InitializerOp(IRDLOperation):
    """Runs once when a program is loaded."""

    name = "util.initializer"
    body = region_def()
    traits = traits_def(IsolatedFromAbove())

    @classmethod
    def parse(cls, p: Parser) -> InitializerOp:
        attributes = syntax.parse_attributes(p)
        return cls(attributes=attributes, regions=[p.parse_region()])

    def print(self, printer: Printer) -> None:
        syntax.print_attributes(printer, self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body)


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
        attributes = syntax.parse_attributes(p)
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


OPERATIONS: list[type[Operation]] = [
    FuncOp, ReturnOp, CallOp, InitializerOp, GlobalOp, GlobalLoadOp, GlobalStoreOp, AssumeIntOp,
]  # fmt: skip

Util = Dialect("util", [*OPERATIONS, *util_scalar.OPERATIONS], [*util_scalar.ATTRIBUTES])
