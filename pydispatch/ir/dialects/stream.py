"""The `stream` dialect as custom dispatch programs use it: executables over bindings."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, StringAttr, SymbolNameConstraint, SymbolRefAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.flow.parameter import StreamParameterAttr
from pydispatch.ir.dialects.hal.interface import WorkgroupOp
from pydispatch.ir.dialects.hal.region import check_children, check_region
from pydispatch.ir.dialects.hal.tiles import check_tiles


@irdl_attr_definition
class BindingType(ParametrizedAttribute, TypeAttribute):
    """Type of a kernel's argument: a buffer that a dispatch binds, without shape and offset."""

    name = "stream.binding"


class ExecutableLikeOp(IRDLOperation):
    """Base of `stream.executable` and `flow.executable`: exports, and one module with the functions they export."""

    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())
    assembly_format = "custom<Visibility>($sym_visibility) $sym_name attr-dict-with-keyword custom<SymbolBody>($body)"

    def verify_(self) -> None:
        """Verify that the body contains only exports, modules and terminators."""
        # Terminators of older releases are `flow.executable_end` and `stream.executable.end`.
        allowed = (f"{self.name}.export", "builtin.module", f"{self.name}_end", f"{self.name}.end")
        check_children(self, self.body, allowed)


@directive
class ExportedName(CustomDirective):
    """Directive for the name of an export and the function that it exports: `@name`, `@name(@function)`, or
    `@function as("name")`."""

    export: AttributeVariable  # name of the export
    function: AttributeVariable  # symbol of the function; absent if it has the name of the export

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `@export(@function)`, or `@function as("export")`."""
        name = parser.parse_symbol_name()
        if parser.parse_optional_punctuation("(") is not None:
            self.function.set(state, parser.parse_attribute())
            parser.parse_punctuation(")")
        if parser.parse_optional_keyword("as") is not None:  # the symbol before `as` was the function
            self.function.set(state, SymbolRefAttr(name))
            with parser.in_parens():
                name = StringAttr(parser.parse_str_literal())
        self.export.set(state, name)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the export's name `@name`, followed by `(@function)` if the attribute `function` is present."""
        self.export.print(printer, state, op)
        function = self.function.get(op)
        if function is not None:
            with printer.in_parens():
                printer.print_attribute(function)


class ExportLikeOp(IRDLOperation):
    """Base of exports, `@name workgroups(%size: index) -> (index, index, index) {...}`.

    A dispatch of @name passes its workload, here %size, to the region `workgroups`, which returns the number of
    workgroups to run in x, y and z. The attribute `pyd.tiles` may state the bytes of each binding that one workgroup
    accesses: with [256, 0], workgroup i accesses of binding 0 only bytes 256 * i to 256 * i + 255, and any bytes of
    binding 1.

    Attributes:
        function_ref: Symbol of the exported function; absent if it has the name of the export.
        count: Region that computes the workgroup counts in x, y and z from the workload; empty if it is omitted.
    """

    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    function_ref = opt_prop_def(Attribute)
    count = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    custom_directives = (ExportedName,)
    assembly_format = (
        "custom<Visibility>($sym_visibility) custom<ExportedName>($sym_name, $function_ref) (`workgroups` "
        "custom<Count>($count)^)? attr-dict-with-keyword"
    )

    def verify_(self) -> None:
        """Verify the region `workgroups` and the attribute `pyd.tiles`."""
        # Unlike the region of a hal.executable.export, that of a stream export takes no device.
        check_region(self.count, [IndexType()] * 3, "workgroups", has_device_argument=False, has_workload=True)
        check_tiles(self)


@op_definition
class ExecutableOp(ExecutableLikeOp):
    """Executable: exports and one module of kernels."""

    name = "stream.executable"


@op_definition
class ExecutableEndOp(IRDLOperation):
    """Terminator of an executable's body in older releases."""

    name = "stream.executable.end"
    assembly_format = "attr-dict"


@op_definition
class ExecutableExportOp(ExportLikeOp):
    """Export of an executable: the symbol by which dispatches call one of its kernels."""

    name = "stream.executable.export"


@op_definition
class BindingSubspanOp(IRDLOperation):
    """View of a binding as a value of the result type, starting at `byte_offset` bytes.

    `dynamic_dims` are the dynamic sizes of the result, in order.
    """

    name = "stream.binding.subspan"
    binding = operand_def(BindingType)
    byte_offset = operand_def(IndexType)
    dynamic_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(NoMemoryEffect())
    assembly_format = (
        "$binding `[` $byte_offset `]` attr-dict `:` type($binding) `->` custom<Typed>(type($result), $dynamic_dims)"
    )

    def verify_(self) -> None:
        """Check that there is one operand for each dynamic dimension of the result."""
        expected = syntax.dynamic_dims(self.result.type)
        if len(self.dynamic_dims) != expected:
            raise VerifyException(
                f"{self.result.type} has {expected} dynamic dimension(s), "
                f"but {len(self.dynamic_dims)} value(s) are given"
            )


@op_definition
class DispatchWorkgroupIDOp(WorkgroupOp):
    """Workgroup id along a dimension."""

    name = "stream.dispatch.workgroup.id"


@op_definition
class DispatchWorkgroupCountOp(WorkgroupOp):
    """Number of workgroups along a dimension."""

    name = "stream.dispatch.workgroup.count"


@op_definition
class DispatchWorkgroupSizeOp(WorkgroupOp):
    """Workgroup size along a dimension."""

    name = "stream.dispatch.workgroup.size"


@op_definition
class ReturnOp(IRDLOperation):
    """Terminator of the region `workgroups` of an export: it returns the numbers of workgroups in x, y and z."""

    name = "stream.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


Stream = Dialect(
    "stream",
    [
        ExecutableOp, ExecutableEndOp, ExecutableExportOp, BindingSubspanOp, DispatchWorkgroupIDOp,
        DispatchWorkgroupCountOp, DispatchWorkgroupSizeOp, ReturnOp,
    ],
    [BindingType, StreamParameterAttr],
)  # fmt: skip
