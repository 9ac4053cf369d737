"""The `flow` dialect: dispatches of named exports and operations on whole tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IndexType, SymbolRefAttr
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.flow import slices, tensors
from pydispatch.ir.dialects.flow.base import DispatchLikeOp, dispatch_properties
from pydispatch.ir.dialects.flow.parameter import FlowParameterAttr
from pydispatch.ir.dialects.hal.interface import WorkgroupOp
from pydispatch.ir.dialects.hal.region import check_region, parse_host_region
from pydispatch.ir.dialects.stream import ExecutableLikeOp, ExportLikeOp


@irdl_op_definition
class DispatchOp(DispatchLikeOp):
    """Launches an export over the grid that its count region makes of `workload`."""

    name = "flow.dispatch"
    entry_points = prop_def(ArrayAttr[SymbolRefAttr])

    @property
    def entry_point(self) -> SymbolRefAttr:
        """The first entry point; `@executable::@export` or `@executable::@variant::@export`."""
        return self.entry_points.data[0]

    @classmethod
    def parse(cls, p: Parser) -> DispatchOp:
        start = p.pos
        if p._current_token.text == "{":
            entries = p.parse_comma_separated_list(p.Delimiter.BRACES, p.parse_attribute, " in entry points")
        else:
            entry = p.parse_optional_attribute()
            entries = [] if entry is None else [entry]
        if not entries or not all(isinstance(e, SymbolRefAttr) and e.nested_references.data for e in entries):
            p.raise_error("expected @executable::@export", start, max(p.pos, start + 1))
        workload = syntax.parse_index_operands(p)
        names = p.parse_op_args_list()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":", " in front of the types of a dispatch")
        signature = syntax.parse_shaped_signature(p, names)
        return cls(
            operands=[workload, signature.arguments, signature.argument_dims, signature.result_dims],
            result_types=[signature.result_types],
            properties={"entry_points": ArrayAttr(entries), **dispatch_properties(signature)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if len(self.entry_points) == 1:
            printer.print_attribute(self.entry_point)
        else:
            printer.print_string("{")
            printer.print_list(self.entry_points, printer.print_attribute)
            printer.print_string("}")
        self.print_call(printer)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        self.print_types(printer)


@irdl_op_definition
class DispatchWorkgroupsOp(DispatchLikeOp):
    """A dispatch with its kernel in place; `count` is empty when it is not given."""

    name = "flow.dispatch.workgroups"
    body = region_def()
    count = region_def()

    @classmethod
    def parse(cls, p: Parser) -> DispatchWorkgroupsOp:
        workload = syntax.parse_index_operands(p)
        names = p.parse_op_args_list()
        p.parse_punctuation(":", " in front of the types of a dispatch")
        signature = syntax.parse_shaped_signature(p, names)
        attributes = syntax.parse_attributes(p)
        p.parse_punctuation("=", " in front of the kernel of a dispatch")
        body = p.parse_region(syntax.parse_signature_args(p))
        return cls(
            operands=[workload, signature.arguments, signature.argument_dims, signature.result_dims],
            result_types=[signature.result_types],
            properties=dispatch_properties(signature),
            attributes=attributes,
            regions=[body, parse_optional_count(p)],
        )

    def print(self, printer: Printer) -> None:
        self.print_call(printer)
        printer.print_string(" : ")
        self.print_types(printer)
        syntax.print_attributes(printer, self.attributes)
        printer.print_string(" =")
        printer.print_string(" ")
        syntax.print_region_signature(printer, self.body, None)
        print_optional_count(printer, self.count)

    def verify_(self) -> None:
        super().verify_()
        check_region(self, self.count, [IndexType()] * 3, "count", device=False)


def parse_optional_count(p: Parser) -> Region:
    if p.parse_optional_keyword("count") is None:
        return Region()
    return parse_host_region(p, [IndexType()] * 3)


def print_optional_count(printer: Printer, count: Region) -> None:
    if count.blocks:
        printer.print_string(" count")
        syntax.print_region_signature(printer, count, [IndexType()] * 3)


@irdl_op_definition
class DispatchRegionOp(IRDLOperation):
    """Tensor operations that run as one dispatch; `count` is empty when it is not given."""

    name = "flow.dispatch.region"
    workload = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    results_ = var_result_def()
    body = region_def()
    count = region_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> DispatchRegionOp:
        workload = syntax.parse_index_operands(p)
        types: list[Attribute] = []
        dims: list[SSAValue] = []
        if p._current_token.text not in ("{", "attributes"):
            p.parse_punctuation("->", " in front of the result types")
            types, dims, _ = syntax.parse_tied_results(p, [], [], with_dims=True)
        attributes = syntax.parse_attributes(p)
        body = p.parse_region()
        count = parse_optional_count(p)
        return cls(operands=[workload, dims], result_types=[types], attributes=attributes, regions=[body, count])

    def print(self, printer: Printer) -> None:
        if self.workload:
            syntax.print_operands(printer, self.workload, "[", "]")
        printer.print_string(" -> (")
        types = [r.type for r in self.results_]
        groups = syntax.split_dims(types, self.result_dims)

        def one(i: int) -> None:
            printer.print_attribute(types[i])
            syntax.print_dims(printer, groups[i])

        printer.print_list(range(len(types)), one)
        printer.print_string(")")
        syntax.print_attributes(printer, self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body)
        print_optional_count(printer, self.count)

    def verify_(self) -> None:
        check_region(self, self.count, [IndexType()] * 3, "count", device=False)


@irdl_op_definition
class ExecutableOp(ExecutableLikeOp):
    name = "flow.executable"


@irdl_op_definition
class ExecutableEndOp(IRDLOperation):
    """Older releases end the body of an executable with this; it has no meaning."""

    name = "flow.executable_end"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExecutableExportOp(ExportLikeOp):
    name = "flow.executable.export"


@irdl_op_definition
class DispatchWorkgroupIDOp(WorkgroupOp):
    name = "flow.dispatch.workgroup.id"


@irdl_op_definition
class DispatchWorkgroupCountOp(WorkgroupOp):
    name = "flow.dispatch.workgroup.count"


@irdl_op_definition
class DispatchWorkgroupSizeOp(WorkgroupOp):
    name = "flow.dispatch.workgroup.size"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a region of the dialect."""

    name = "flow.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


OPERATIONS: list[type[Operation]] = [
    DispatchOp, DispatchWorkgroupsOp, DispatchRegionOp, ExecutableOp, ExecutableEndOp, ExecutableExportOp,
    DispatchWorkgroupIDOp, DispatchWorkgroupCountOp, DispatchWorkgroupSizeOp, ReturnOp,
]  # fmt: skip

Flow = Dialect("flow", [*OPERATIONS, *tensors.OPERATIONS, *slices.OPERATIONS], [FlowParameterAttr])
