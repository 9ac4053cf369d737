"""`hal` operations that hold executables: sources, variants, binaries."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr
from pydispatch.ir.dialects.hal.export import ExecutableExportOp
from pydispatch.ir.dialects.hal.object import ExecutableObjectsAttr, parse_object_list
from pydispatch.ir.dialects.hal.region import check_children, parse_body, print_body


@irdl_op_definition
class ExecutableOp(IRDLOperation):
    """A set of variants of the same exports."""

    name = "hal.executable"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableOp:
        visibility = p.parse_optional_visibility_keyword()
        name = p.parse_symbol_name()
        attributes = syntax.parse_attributes(p)
        body = parse_body(p)
        return cls(
            properties={"sym_name": name, "sym_visibility": visibility}, attributes=attributes, regions=[body]
        )

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        syntax.print_attributes(printer, self.attributes)
        print_body(printer, self.body)

    def verify_(self) -> None:
        check_children(self, self.body, ("hal.executable.variant", "hal.executable.binary", "hal.executable_end"))


@irdl_op_definition
class ExecutableEndOp(IRDLOperation):
    """Older releases end the body of an executable with this; it has no meaning."""

    name = "hal.executable_end"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExecutableSourceEndOp(IRDLOperation):
    """The same in a source."""

    name = "hal.executable.source_end"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExecutableVariantEndOp(IRDLOperation):
    """The same in a variant."""

    name = "hal.executable.variant_end"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExecutableSourceOp(IRDLOperation):
    """An executable without a target: one variant is made of it for each target that has objects."""

    name = "hal.executable.source"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    objects = opt_prop_def(ExecutableObjectsAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableSourceOp:
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        properties["sym_name"] = p.parse_symbol_name()
        start = p.pos
        if p.parse_optional_punctuation(",") is not None:
            p.parse_keyword("objects")
            p.parse_punctuation("=")
            properties["objects"] = syntax.parse_attr_of(p, ExecutableObjectsAttr)
        elif p.parse_optional_keyword("objects") is not None:
            with p.in_parens():
                properties["objects"] = syntax.parse_attr_of(p, ExecutableObjectsAttr)
        attributes = syntax.parse_attributes(p)
        for key in ("objects", "hal.executable.objects"):
            if key in attributes:
                properties["objects"] = attributes.pop(key)
        if not isinstance(properties.get("objects"), ExecutableObjectsAttr | None):
            p.raise_error("the objects of a source are #hal.executable.objects<{#target = [...]}>", start, p.pos)
        return cls(properties=properties, attributes=attributes, regions=[parse_body(p)])

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.objects is not None:
            printer.print_string(" objects(")
            printer.print_attribute(self.objects)
            printer.print_string(")")
        syntax.print_attributes(printer, self.attributes)
        print_body(printer, self.body)


@irdl_op_definition
class ExecutableVariantOp(IRDLOperation):
    """An executable for one target: exports, condition, constants and a module (none when objects define all)."""

    name = "hal.executable.variant"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    target = prop_def(ExecutableTargetAttr)
    objects = opt_prop_def(ArrayAttr)
    sources = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableVariantOp:
        start = p.pos
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        properties["sym_name"] = p.parse_symbol_name()
        while True:  # `target(#t) objects([...])` or `, target = #t, objects = [...]`
            comma = p.parse_optional_punctuation(",") is not None
            at = p.pos
            clause = p.parse_optional_keyword_in(("target", "objects", "sources"))
            if clause is None:
                if comma:
                    p.raise_error("expected target, objects or sources")
                break
            if clause in properties:
                p.raise_error(f"'{clause}' is given twice", at, at + len(clause))
            if p.parse_optional_punctuation("=") is None:
                with p.in_parens():
                    properties[clause] = _parse_clause(p, clause)
            else:
                properties[clause] = _parse_clause(p, clause)
        if "target" not in properties:
            p.raise_error("a variant needs a target: target(#hal.executable.target<...>)", start, p.pos)
        attributes = syntax.parse_attributes(p)
        return cls(properties=properties, attributes=attributes, regions=[parse_body(p)])

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        for clause in ("target", "objects", "sources"):
            value = self.properties.get(clause)
            if value is not None:
                printer.print_string(f" {clause}(")
                printer.print_attribute(value)
                printer.print_string(")")
        syntax.print_attributes(printer, self.attributes)
        print_body(printer, self.body)

    def verify_(self) -> None:
        check_children(self, self.body, (
            "hal.executable.condition", "hal.executable.constant.block", "hal.executable.export", "builtin.module",
            "hal.executable.variant_end", "func.func",  # the contract of a generated kernel
        ))  # fmt: skip
        ordinals: set[int] = set()
        for export in self.body.ops:
            if isinstance(export, ExecutableExportOp) and export.ordinal is not None:
                if (ordinal := export.ordinal.value.data) in ordinals:
                    raise VerifyException(f"ordinal {ordinal} is given to two exports of @{self.sym_name.data}")
                ordinals.add(ordinal)


def _parse_clause(p: Parser, clause: str) -> Attribute:
    if clause == "objects":
        return parse_object_list(p)
    if clause == "target":
        return syntax.parse_attr_of(p, ExecutableTargetAttr)
    return p.parse_attribute()


@irdl_op_definition
class ExecutableBinaryOp(IRDLOperation):
    """A compiled executable; kept so that printed programs parse."""

    name = "hal.executable.binary"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    attrs = attr_def(DictionaryAttr, attr_name="attributes")

    @classmethod
    def parse(cls, p: Parser) -> ExecutableBinaryOp:
        visibility = p.parse_optional_visibility_keyword()
        name = p.parse_symbol_name()
        attributes = DictionaryAttr(syntax.parse_attributes(p))
        properties: dict[str, Attribute | None] = {"sym_name": name, "sym_visibility": visibility}
        return cls(properties=properties, attributes={"attributes": attributes})

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")


OPERATIONS: list[type[Operation]] = [
    ExecutableOp, ExecutableEndOp, ExecutableSourceOp, ExecutableSourceEndOp, ExecutableVariantOp,
    ExecutableVariantEndOp, ExecutableExportOp, ExecutableBinaryOp,
]  # fmt: skip
