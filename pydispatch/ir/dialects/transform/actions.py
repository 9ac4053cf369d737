"""`transform` operations that change the program: calls that replace what matched, imports, clean-up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    RegionVariable,
    TypeDirective,
    VariadicOperandVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.transform.syntax import ATTRIBUTES_AND_TYPES, RegionOp, TransformOp


class ImportSymbolLike(TransformOp):
    """Transform that copies a symbol of the spec, the module with the transform operations, into the program.

    Syntax: `@kernel into %module if undefined : (T) -> T`. If the program has a symbol of that name, `if_undefined`
    uses it and `force_import` replaces it; without either it is an error.
    """

    symbol = prop_def(SymbolRefAttr)
    if_undefined = opt_prop_def(UnitAttr)
    force_import = opt_prop_def(UnitAttr)
    assembly_format = (
        "$symbol `into` custom<OneOperand>($handles) (`if` `undefined` $if_undefined^)? (`force` $force_import^)? "
        + ATTRIBUTES_AND_TYPES
    )


@op_definition
class ImportSymbolOp(ImportSymbolLike):
    """Import of a symbol, under the current name of the operation."""

    name = "transform.util.import_symbol"


@op_definition
class IreeImportSymbolOp(ImportSymbolLike):
    """Import of a symbol, under the name of older releases."""

    name = "transform.iree.import_symbol"


@directive
class Call(CustomDirective):
    """Directive for `%function(%inputs) -> %outputs after %insertion_point { conversions }`, which replaces the values
    of the outputs by the results of a call.
    """

    function: VariadicOperandVariable  # handle of the function; empty if `function_name` is set
    function_name: AttributeVariable  # symbol of the function; absent if `function` is set
    inputs: VariadicOperandVariable  # handles of the values that are passed to the function
    outputs: VariadicOperandVariable  # handles of the values that its results replace
    is_after: AttributeVariable  # unit attribute, set for `after`, absent for `before`
    insertion_point: VariadicOperandVariable  # handle of the operation before or after which the call is inserted
    conversions: RegionVariable  # conversion operations; empty if the text omits them

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `@function(%inputs) -> %outputs before %op {conversions}`; all names with `%` are handles.

        `%function`, a handle of the function, may be written instead of `@function`, and `after` instead of `before`.
        The inputs, the outputs, and the region of type conversions may be absent.
        """
        # The function: a handle, else a symbol.
        function = parser.parse_optional_unresolved_operand()
        self.function.set(state, () if function is None else (function,))
        if function is None:
            start = parser.pos
            symbol = parser.parse_attribute()
            if not isinstance(symbol, SymbolRefAttr):
                parser.raise_error("expected @function or a handle of one", start, parser.pos)
            self.function_name.set(state, symbol)
        # Inputs, outputs, the operation before or after which the call is inserted, and conversions.
        parse_handle = parser.parse_unresolved_operand
        inputs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parse_handle, " in inputs")
        self.inputs.set(state, inputs or ())
        has_outputs = parser.parse_optional_punctuation("->") is not None
        outputs = parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_handle) if has_outputs else ()
        self.outputs.set(state, outputs)
        start = parser.pos
        if parser.parse_optional_keyword("after") is not None:
            self.is_after.set(state, UnitAttr())
        elif parser.parse_optional_keyword("before") is None:
            parser.raise_error("expected 'before' or 'after' and an operation", start, start + 1)
        self.insertion_point.set(state, (parse_handle(),))
        self.conversions.set(state, parser.parse_optional_region() or Region())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `@function(%inputs) -> %outputs before %op {conversions}`."""
        assert isinstance(op, CastAndCallLike)
        state.print_whitespace(printer)
        if op.function_name is not None:
            printer.print_attribute(op.function_name)
        else:
            printer.print_ssa_value(op.function[0])
        syntax.print_operands(printer, op.inputs)
        if op.outputs:
            printer.print_string(" -> ")
            printer.print_list(op.outputs, printer.print_ssa_value)
        printer.print_string(" after " if op.insert_after is not None else " before ")
        printer.print_ssa_value(op.insertion_point[0])
        if op.conversions.blocks:
            printer.print_string(" ")
            printer.print_region(op.conversions)


def _operands_of(types: TypeDirective, state: ParsingState) -> Sequence[Any]:
    """Return the operands, parsed before, whose types the directive `types` stands for."""
    operand_variable: Any = types.inner
    return state.operands[operand_variable.index] or ()


@directive
class CallTypes(CustomDirective):
    """Directive for the types of a `cast_and_call`, `(types of all operands) -> type of the handle to the new call`.

    `%f(%x) -> %a, %b after %op` has the types `(!F, !X, !A, !B, !OP) -> !CALL`. With a symbol, `@kernel(%x) -> ...`,
    there is no operand for the function, and the list begins with !X. The directive `Call`, which is parsed before,
    has stored the operands; their numbers determine how the types are distributed.
    """

    function: TypeDirective  # no type, or one
    inputs: TypeDirective
    outputs: TypeDirective
    insertion_point: TypeDirective  # one type
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `(types of the operands) -> type`: the operands are function, inputs, outputs and insertion point."""
        start = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type, " in operand types")
        groups = (self.function, self.inputs, self.outputs, self.insertion_point)
        counts = [len(_operands_of(group, state)) for group in groups]
        if sum(counts) != len(types):
            message = f"{sum(counts)} operand(s) are given, but {len(types)} operand type(s)"
            parser.raise_error(message, start, parser.pos)
        remaining = iter(types)
        for group, count in zip(groups, counts, strict=True):
            group.set(state, list(islice(remaining, count)))
        parser.parse_punctuation("->")
        self.result.set(state, syntax.parse_types(parser))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `(types of the operands) -> type`: the operands are function, inputs, outputs and insertion point."""
        state.print_whitespace(printer)
        with printer.in_parens():
            groups = (self.function, self.inputs, self.outputs, self.insertion_point)
            printer.print_list([type for group in groups for type in group.get(op)], printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_list(self.result.get(op), printer.print_attribute)


class CastAndCallLike(IRDLOperation):
    """Base of replacements of values by the results of a call.

    Syntax: `%function(%inputs) -> %outputs after %insertion_point { conversions }`.

    Attributes:
        inputs: Handles of values that are passed to the function.
        outputs: Handles of values that the results replace.
        insertion_point: Handle of one operation, before which the call is inserted; after it with `insert_after`.
        function: Handle of the function; absent if `function_name` is its symbol.
        call: Handle of the new call.
        conversions: Conversion operations that permit casts between static and dynamic sizes; may be empty.
    """

    inputs = var_operand_def()
    outputs = var_operand_def()
    insertion_point = var_operand_def()
    function = var_operand_def()
    function_name = opt_prop_def(SymbolRefAttr)
    insert_after = opt_prop_def(UnitAttr)
    call = var_result_def()
    conversions = region_def()
    traits = traits_def(NoTerminator())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (Call, CallTypes)
    assembly_format = (
        "custom<Call>($function, $function_name, $inputs, $outputs, $insert_after, $insertion_point, $conversions) "
        "attr-dict `:` "
        "custom<CallTypes>(type($function), type($inputs), type($outputs), type($insertion_point), type($call))"
    )


@op_definition
class UtilCastAndCallOp(CastAndCallLike):
    """Replacement of values by a `util.call`."""

    name = "transform.util.cast_and_call"


@op_definition
class FuncCastAndCallOp(CastAndCallLike):
    """Replacement of values by a `func.call`."""

    name = "transform.func.cast_and_call"


@op_definition
class CastShapeDynamicDimsOp(TransformOp):
    """Conversion between tensor types of the same rank that differ in which sizes are static.

    It permits these casts in the region of a `cast_and_call`. In MLIR, `ignore_dynamic_info` is required for the casts
    of results from a dynamic size to a static one.
    """

    name = "transform.type_conversion.tensor.cast_shape_dynamic_dims"
    ignore_dynamic_info = opt_prop_def(UnitAttr)
    assembly_format = f"(`ignore_dynamic_info` $ignore_dynamic_info^)? $handles {ATTRIBUTES_AND_TYPES}"


@op_definition
class ApplyDceOp(TransformOp):
    """Dead code elimination: removal of unused operations and of unused private symbols."""

    name = "transform.apply_dce"
    assembly_format = f"`to` custom<OneOperand>($handles) {ATTRIBUTES_AND_TYPES}"


@op_definition
class ApplyCseOp(TransformOp):
    """Common subexpression elimination."""

    name = "transform.apply_cse"
    assembly_format = f"`to` custom<OneOperand>($handles) {ATTRIBUTES_AND_TYPES}"


@op_definition
class ApplyPatternsOp(RegionOp):
    """Application of the pattern sets in the body to the operations inside those of a handle, until a fixed point."""

    name = "transform.apply_patterns"
    assembly_format = f"`to` custom<OneOperand>($handles) $body {ATTRIBUTES_AND_TYPES}"


@op_definition
class CanonicalizationOp(TransformOp):
    """Pattern set of canonicalization."""

    name = "transform.apply_patterns.canonicalization"
    assembly_format = f"$handles {ATTRIBUTES_AND_TYPES}"


@op_definition
class ApplyRegisteredPassOp(TransformOp):
    """Transform that runs a registered pass by its name: `"name" to %handle : (T) -> T`."""

    name = "transform.apply_registered_pass"
    pass_name = prop_def(StringAttr)
    options = opt_prop_def(Attribute)
    assembly_format = (
        "$pass_name (`with` `options` `=` $options^)? `to` custom<OneOperand>($handles) attr-dict `:` "
        "functional-type($handles, $results_)"
    )


@directive
class Annotated(CustomDirective):
    """Directive for `%operation "name"`, or `%operation "name" = %value`; `handles` holds the operation, then the
    value."""

    handles: VariadicOperandVariable
    attribute: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `%handle "name" = %value`; without a value the attribute is a unit attribute."""
        handles = [parser.parse_unresolved_operand()]
        self.attribute.set(state, StringAttr(parser.parse_str_literal()))
        if parser.parse_optional_punctuation("=") is not None:
            handles.append(parser.parse_unresolved_operand())
        self.handles.set(state, handles)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `%handle "name" = %value`, without ` = %value` for a unit attribute."""
        target, *values = self.handles.get(op)  # one value, or none
        state.print_whitespace(printer)
        printer.print_ssa_value(target)
        self.attribute.print(printer, state, op)
        for value in values:
            printer.print_string(" = ")
            printer.print_ssa_value(value)


@op_definition
class AnnotateOp(TransformOp):
    """Transform that sets an attribute of operations: `%operation "name"`, or `%operation "name" = %value`."""

    name = "transform.annotate"
    name_ = prop_def(StringAttr, prop_name="name")
    custom_directives = (Annotated,)
    # Absent: the operation has no results, and its text no types of them.
    assembly_format = "custom<Annotated>($handles, $name) attr-dict `:` type($handles) custom<Absent>(type($results_))"


@op_definition
class PrintOp(TransformOp):
    """Transform that prints to standard error: the operations of `%handle : T`, or without a handle the program."""

    name = "transform.print"
    assembly_format = f"$handles {ATTRIBUTES_AND_TYPES}"


OPERATIONS: list[type[Operation]] = [
    ImportSymbolOp, IreeImportSymbolOp, UtilCastAndCallOp, FuncCastAndCallOp, CastShapeDynamicDimsOp, ApplyDceOp,
    ApplyCseOp, ApplyPatternsOp, CanonicalizationOp, ApplyRegisteredPassOp, AnnotateOp, PrintOp,
]  # fmt: skip
