"""`iree_codegen` operations. Its attributes, and those of its sister dialects, are kept as text and ignored."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
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
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax


@irdl_op_definition
class ExtractStridedMetadataOp(IRDLOperation):
    """Base, offset, sizes and strides of a memref, offsets and strides in elements."""

    name = "iree_codegen.extract_strided_metadata"
    source = operand_def(MemRefType)
    base_buffer = result_def(MemRefType)
    offset = result_def(IndexType)
    metadata = var_result_def(IndexType)
    traits = traits_def(Pure())

    @property
    def rank(self) -> int:
        assert isinstance(self.source.type, MemRefType)
        return len(self.source.type.get_shape())

    @property
    def sizes(self) -> tuple[SSAValue, ...]:
        return tuple(self.metadata)[: self.rank]

    @property
    def strides(self) -> tuple[SSAValue, ...]:
        return tuple(self.metadata)[self.rank :]

    @classmethod
    def parse(cls, p: Parser) -> ExtractStridedMetadataOp:
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source = p.resolve_operand(name, p.parse_type())
        p.parse_punctuation("->")
        types = [p.parse_type()]
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
        if len(types) < 2:
            p.raise_error("expected the types of base, offset, sizes and strides")
        return cls(operands=[source], result_types=[types[0], types[1], types[2:]], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_list(self.results, lambda r: printer.print_attribute(r.type))

    def verify_(self) -> None:
        if len(self.metadata) != 2 * self.rank:
            raise VerifyException(
                f"a memref of rank {self.rank} has {self.rank} size(s) and stride(s): "
                f"{2 + 2 * self.rank} results in all, got {len(self.results)}"
            )


@irdl_op_definition
class UkernelGenericOp(IRDLOperation):
    """A call of a microkernel by name: ins, outs, then scalars.

    strided_dims[i] lists the dimensions whose strides are passed for shaped operand i (none: all);
    num_strided_outer_dims is the older way to say the same for every operand.
    """

    name = "iree_codegen.ukernel.generic"
    u_kernel_fn_name = prop_def(StringAttr)
    inputs = var_operand_def()
    outputs = var_operand_def()
    other_operands = var_operand_def()
    fn_def_attrs = opt_prop_def(DictionaryAttr)
    strided_dims = opt_prop_def(ArrayAttr)
    num_strided_outer_dims = opt_prop_def(IntegerAttr)
    results_ = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> UkernelGenericOp:
        attributes = p.parse_optional_attr_dict()
        properties: dict[str, Attribute | None] = {"u_kernel_fn_name": StringAttr(p.parse_str_literal())}
        groups: dict[str, list[SSAValue]] = {"ins": [], "outs": [], "": []}
        while (group := p.parse_optional_keyword_in(("ins", "outs"))) is not None:
            groups[group] = _typed_operands(p)
        if p._current_token.text == "(":
            groups[""] = _typed_operands(p)
        clauses = ("fn_def_attrs", "strided_dims", "strided_outer_dims")
        while (clause := p.parse_optional_keyword_in(clauses)) is not None:
            if clause == "fn_def_attrs":
                properties[clause] = DictionaryAttr(p.parse_optional_attr_dict())
                continue
            with p.in_parens():
                if clause == "strided_dims":
                    properties[clause] = p.parse_attribute()
                else:
                    properties["num_strided_outer_dims"] = syntax.parse_integer_attr(p, IndexType())
        attributes.update(p.parse_optional_attr_dict())
        types: list[Attribute] = []
        if p.parse_optional_punctuation("->") is not None:
            types = syntax.parse_types(p)
            while p.parse_optional_punctuation(",") is not None:
                types.append(p.parse_type())
        return cls(
            operands=[groups["ins"], groups["outs"], groups[""]],
            result_types=[types],
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" ")
        printer.print_attribute(self.u_kernel_fn_name)
        for keyword, group in (("ins", self.inputs), ("outs", self.outputs), ("", self.other_operands)):
            if group:
                printer.print_string(f" {keyword}(")
                printer.print_list(group, printer.print_ssa_value)
                printer.print_string(" : ")
                printer.print_list(group, lambda v: printer.print_attribute(v.type))
                printer.print_string(")")
        if self.fn_def_attrs is not None:
            printer.print_string(" fn_def_attrs")
            syntax.print_attributes(printer, self.fn_def_attrs.data, keyword=False)
        if self.strided_dims is not None:
            printer.print_string(" strided_dims(")
            printer.print_attribute(self.strided_dims)
            printer.print_string(")")
        if self.num_strided_outer_dims is not None:
            printer.print_string(f" strided_outer_dims({self.num_strided_outer_dims.value.data})")
        if self.results_:
            printer.print_string(" -> ")
            printer.print_list(self.results_, lambda r: printer.print_attribute(r.type))


def _typed_operands(p: Parser) -> list[SSAValue]:
    """`(%a, %b : T, U)`."""
    with p.in_parens():
        names = []
        while (name := p.parse_optional_unresolved_operand()) is not None:
            names.append(name)
            if p.parse_optional_punctuation(",") is None:
                break
        if not names:
            return []
        start = p.pos
        p.parse_punctuation(":")
        types = [p.parse_type()]
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
    return list(p.resolve_operands(names, types, start))


OPERATIONS: list[type[Operation]] = [ExtractStridedMetadataOp, UkernelGenericOp]
Codegen = Dialect("iree_codegen", OPERATIONS, [])
