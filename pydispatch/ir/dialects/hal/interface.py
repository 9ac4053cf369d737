"""`hal` operations inside kernels: bindings, constants, the grid."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.hal.layout import (
    BINDING_FLAGS,
    BINDING_TYPES,
    PipelineLayoutAttr,
    parse_flags,
    parse_layout,
)


@irdl_op_definition
class InterfaceBindingSubspanOp(IRDLOperation):
    """A binding from `byte_offset` (bytes, default 0) on. `layout` is none in the form of older releases."""

    name = "hal.interface.binding.subspan"
    layout = opt_prop_def(PipelineLayoutAttr)
    binding = prop_def(IntegerAttr)
    type = opt_prop_def(StringAttr)
    alignment = opt_prop_def(IntegerAttr)
    flags = opt_prop_def(ArrayAttr[StringAttr])
    byte_offset = opt_operand_def(IndexType)
    dynamic_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoMemoryEffect())

    @classmethod
    def parse(cls, p: Parser) -> InterfaceBindingSubspanOp:
        start = p.pos
        properties: dict[str, Attribute | None] = {}
        offset: list[SSAValue] = []
        clauses = ("layout", "set", "binding", "type", "alignment", "offset", "flags")
        while (clause := p.parse_optional_keyword_in(clauses)) is not None:
            with p.in_parens():
                _parse_subspan_clause(p, clause, properties, offset)
        if "binding" not in properties:
            p.raise_error("a subspan needs binding(N)", start, p.pos)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":", " in front of the type of the binding")
        result = p.parse_type()
        dims = syntax.parse_dims(p, result)
        return cls(operands=[offset, dims], result_types=[result], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        if self.layout is not None:
            printer.print_string(" layout(")
            printer.print_attribute(self.layout)
            printer.print_string(")")
        printer.print_string(f" binding({self.binding.value.data})")
        if self.type is not None:
            printer.print_string(f" type({self.type.data})")
        if self.alignment is not None:
            printer.print_string(f" alignment({self.alignment.value.data})")
        if self.byte_offset is not None:
            printer.print_string(" offset(")
            printer.print_ssa_value(self.byte_offset)
            printer.print_string(")")
        if self.flags is not None and self.flags.data:
            text = "|".join(f.data for f in self.flags)
            printer.print_string(f' flags("{text}")' if len(self.flags) > 1 else f" flags({text})")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
        syntax.print_dims(printer, self.dynamic_dims)

    def verify_(self) -> None:
        ordinal = self.binding.value.data
        if self.layout is not None and not 0 <= ordinal < len(self.layout.bindings):
            raise VerifyException(
                f"binding({ordinal}) is not in the layout, which has {len(self.layout.bindings)} binding(s)"
            )
        if self.alignment is not None:
            alignment = self.alignment.value.data
            if alignment <= 0 or alignment & (alignment - 1):
                raise VerifyException(f"alignment({alignment}) is not a power of two")
        if len(self.dynamic_dims) != syntax.dynamic_dims(self.result.type):
            raise VerifyException(
                f"{self.result.type} has {syntax.dynamic_dims(self.result.type)} dynamic dimension(s), "
                f"but {len(self.dynamic_dims)} value(s) are given"
            )


def _parse_subspan_clause(
    p: Parser, clause: str, properties: dict[str, Attribute | None], offset: list[SSAValue]
) -> None:
    start = p.pos
    if clause == "layout":
        properties["layout"] = parse_layout(p)
    elif clause == "offset":
        offset.append(p.parse_operand(IndexType()))
    elif clause == "flags":
        properties["flags"] = syntax.strings(parse_flags(p, BINDING_FLAGS))
    elif clause == "type":
        type = p.parse_identifier(" for the type of a binding")
        if type not in BINDING_TYPES:
            p.raise_error(f"unknown binding type '{type}', expected {' or '.join(BINDING_TYPES)}", start, p.pos)
        properties["type"] = StringAttr(type)
    else:
        value = syntax.parse_integer_attr(p, IndexType())
        if clause != "set":
            properties[clause] = value
        elif value.value.data != 0:
            p.raise_error(f"descriptor set {value.value.data} cannot be used, there is one set: write set(0)",
                          start, p.pos)  # fmt: skip


@irdl_op_definition
class InterfaceConstantLoadOp(IRDLOperation):
    """Reads the push constant word `ordinal`; `layout` is none in the form `[0]` of older releases."""

    name = "hal.interface.constant.load"
    layout = opt_prop_def(PipelineLayoutAttr)
    ordinal = prop_def(IntegerAttr)
    alignment = opt_prop_def(IntegerAttr)
    values = opt_prop_def(ArrayAttr)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> InterfaceConstantLoadOp:
        start = p.pos
        properties: dict[str, Attribute | None] = {}
        if p.parse_optional_punctuation("[") is not None:
            properties["ordinal"] = syntax.parse_integer_attr(p, IndexType())
            p.parse_punctuation("]")
        while (clause := p.parse_optional_keyword_in(("layout", "ordinal", "alignment", "values"))) is not None:
            with p.in_parens():
                if clause == "layout":
                    properties[clause] = parse_layout(p)
                elif clause == "values":
                    properties[clause] = p.parse_attribute()
                else:
                    properties[clause] = syntax.parse_integer_attr(p, IndexType())
        if "ordinal" not in properties:
            p.raise_error("a constant load needs ordinal(N)", start, p.pos)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":", " in front of the type of the constant")
        return cls(result_types=[p.parse_type()], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        if self.layout is None:
            printer.print_string(f"[{self.ordinal.value.data}]")
        else:
            printer.print_string(" layout(")
            printer.print_attribute(self.layout)
            printer.print_string(f") ordinal({self.ordinal.value.data})")
        if self.alignment is not None:
            printer.print_string(f" alignment({self.alignment.value.data})")
        if self.values is not None:
            printer.print_string(" values(")
            printer.print_attribute(self.values)
            printer.print_string(")")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        ordinal = self.ordinal.value.data
        if self.layout is None or self.layout.constants.data == 0:
            return  # A layout that counts no constants has as many as the dispatch gives.
        if not 0 <= ordinal < self.layout.constants.data:
            raise VerifyException(
                f"ordinal({ordinal}) is not in the layout, which has {self.layout.constants.data} constant(s)"
            )


class WorkgroupOp(IRDLOperation):
    """`[dimension] upper_bound N : index`, the syntax of all operations that read the grid."""

    dimension = prop_def(IntegerAttr)
    upper_bound = opt_prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        with p.in_square_brackets():
            start = p.pos
            dimension = syntax.parse_integer_attr(p, IndexType())
            if not 0 <= dimension.value.data <= 2:
                p.raise_error(f"dimension {dimension.value.data} is out of range, expected 0, 1 or 2", start, p.pos)
        properties: dict[str, Attribute | None] = {"dimension": dimension}
        if p.parse_optional_keyword("upper_bound") is not None:
            properties["upper_bound"] = IntegerAttr(p.parse_integer(allow_boolean=False), IndexType())
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        return cls(result_types=[p.parse_type()], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f"[{self.dimension.value.data}]")
        if self.upper_bound is not None:
            printer.print_string(f" upper_bound {self.upper_bound.value.data}")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class InterfaceWorkgroupIDOp(WorkgroupOp):
    name = "hal.interface.workgroup.id"


@irdl_op_definition
class InterfaceWorkgroupCountOp(WorkgroupOp):
    name = "hal.interface.workgroup.count"


@irdl_op_definition
class InterfaceWorkgroupSizeOp(WorkgroupOp):
    name = "hal.interface.workgroup.size"


OPERATIONS: list[type[Operation]] = [
    InterfaceBindingSubspanOp, InterfaceConstantLoadOp,
    InterfaceWorkgroupIDOp, InterfaceWorkgroupCountOp, InterfaceWorkgroupSizeOp,
]  # fmt: skip
