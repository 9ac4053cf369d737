"""The `transform` dialect, as far as specs use it: sequences, handles and how to get from one to another."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, region_def, traits_def
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.transform import actions as transform_act
from pydispatch.ir.dialects.transform import matchers as transform_match
from pydispatch.ir.dialects.transform.syntax import ATTRIBUTES_AND_TYPES, TYPES, PositionOp, RegionOp, TransformOp


@op_definition
class NamedSequenceOp(IRDLOperation):
    """Named sequence: a matcher, an action, or `@__transform_main`, the entry point.

    `arg_attrs` has a dictionary for each argument; it is absent if all are empty.
    """

    name = "transform.named_sequence"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> NamedSequenceOp:
        """Parse `private @name(%arg: type {attributes}, ...) -> types {body}`.

        The visibility, the attributes of an argument and the results may be absent. `arg_attrs` has a dictionary for
        each argument; it is absent if all are empty.
        """
        visibility = parser.parse_optional_visibility_keyword()
        name = parser.parse_symbol_name()
        arguments: list[Parser.Argument] = []
        attrs: list[DictionaryAttr] = []

        def parse_argument() -> None:
            """Parse `%arg: type {attributes}` into `arguments` and `attrs`."""
            arguments.append(parser.parse_argument())
            attrs.append(DictionaryAttr(parser.parse_optional_attr_dict()))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_argument, " in the arguments of a sequence")
        results: list[Attribute] = []  # types
        if parser.parse_optional_punctuation("->") is not None:
            results = syntax.parse_types(parser)
        attributes = syntax.parse_attributes(parser)
        body = parser.parse_region(arguments)
        return cls(
            properties={
                "sym_name": name, "sym_visibility": visibility,
                "function_type": FunctionType.from_lists([a.type for a in arguments], results),
                "arg_attrs": ArrayAttr(attrs) if any(a.data for a in attrs) else None,
            },
            attributes=attributes, regions=[body],
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        """Print `private @name(%arg: type {attributes}, ...) -> (types) {body}`; without results there is no arrow."""
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        arguments = self.body.block.args

        def print_argument(i: int) -> None:
            """Print `%arg: type {attributes}` of argument `i`."""
            printer.print_block_argument(arguments[i])
            if self.arg_attrs is not None:
                syntax.print_attributes(printer, self.arg_attrs.data[i].data, keyword=False)

        with printer.in_parens():
            printer.print_list(range(len(arguments)), print_argument)
        results = self.function_type.outputs.data
        if results:
            printer.print_string(" -> ")
            with printer.in_parens():
                printer.print_list(results, printer.print_attribute)
        syntax.print_attributes(printer, self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


@op_definition
class YieldOp(TransformOp):
    """Terminator of a sequence, `%a, %b : T, U`; its operands are the results of the sequence."""

    name = "transform.yield"
    traits = traits_def(IsTerminator())
    assembly_format = f"$handles {ATTRIBUTES_AND_TYPES}"


@op_definition
class IncludeOp(TransformOp):
    """Call of another named sequence, `@name failures(propagate) (%a, %b) : (T, U) -> V`."""

    name = "transform.include"
    target = prop_def(SymbolRefAttr)
    failures = opt_prop_def(StringAttr)
    assembly_format = (
        "$target `failures` `(` custom<FailureMode>($failures) `)` `(` $handles `)` attr-dict `:` "
        "functional-type($handles, $results_)"
    )


@op_definition
class StructuredMatchOp(TransformOp):
    """Search inside the target operations for all operations that satisfy each stated filter.

    Attributes:
        ops: Names, one of which an operation must have.
        interface: Interface that an operation must have. Only `LinalgOp` is checked; other names are ignored.
        op_attrs: Attributes that it must have, with these values.
        filter_result_type: Type of its only result.
        filter_operand_types: Types of its operands in order; a single type is that of all operands.
    """

    name = "transform.structured.match"
    ops = opt_prop_def(ArrayAttr[StringAttr])
    interface = opt_prop_def(StringAttr)
    op_attrs = opt_prop_def(DictionaryAttr)
    filter_result_type = opt_prop_def(Attribute)
    filter_operand_types = opt_prop_def(ArrayAttr)
    assembly_format = (
        "oilist(`ops` `{` $ops `}` | `interface` `{` custom<Word>($interface) `}` | `attributes` $op_attrs | "
        "`filter_result_type` `=` $filter_result_type | `filter_operand_types` `=` $filter_operand_types) `in` "
        "custom<OneOperand>($handles) attr-dict `:` functional-type($handles, $results_)"
    )


@op_definition
class ForeachOp(RegionOp):
    """Loop that runs its body once for each operation in the handle."""

    name = "transform.foreach"
    assembly_format = f"$handles {ATTRIBUTES_AND_TYPES} $body"


@directive
class MatchPairs(CustomDirective):
    """Directive for pairs `@matcher -> @action, ...`: `matchers[i]` belongs to `actions[i]`."""

    matchers: AttributeVariable
    actions: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `@matcher -> @action, ...`."""

        def parse_pair() -> tuple[SymbolRefAttr, SymbolRefAttr]:
            """Parse `@matcher -> @action`."""
            matcher = SymbolRefAttr(parser.parse_symbol_name())
            parser.parse_punctuation("->")
            return matcher, SymbolRefAttr(parser.parse_symbol_name())

        pairs = parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_pair)
        self.matchers.set(state, ArrayAttr([matcher for matcher, _ in pairs]))
        self.actions.set(state, ArrayAttr([action for _, action in pairs]))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `@matcher -> @action, ...`."""
        assert isinstance(op, ForeachMatchOp)

        def print_pair(symbols: tuple[Attribute, Attribute]) -> None:
            """Print `@matcher -> @action`."""
            matcher, action = symbols
            printer.print_attribute(matcher)
            printer.print_string(" -> ")
            printer.print_attribute(action)

        state.print_whitespace(printer)
        printer.print_list(list(zip(op.matchers, op.actions, strict=True)), print_pair)


@op_definition
class ForeachMatchOp(TransformOp):
    """Walk over the operations inside the roots, nested ones first, that rewrites those which a matcher accepts.

    For each operation, the matchers are tried in order; the action of the first one that succeeds is run with the
    handles that the matcher yields. For example:

        %roots, %calls = transform.foreach_match in %module @is_exp -> @call_exp, @is_log -> @call_log
            : (!transform.any_op) -> (!transform.any_op, !transform.any_op)

    Operand 0 has the roots, and result 0 those of them that no action has erased. Further operands are passed to all
    matchers, after the visited operation. Result i + 1 collects what the actions yield at position i, over all matches.

    Attributes:
        matchers: Symbols of named sequences; `actions[i]` belongs to `matchers[i]`.
        actions: Symbols of named sequences.
        restrict_root: Only the roots themselves are visited, not the operations inside them.
        flatten_results: Permits actions to yield handles of several operations, which is always permitted here.
    """

    name = "transform.foreach_match"
    matchers = prop_def(ArrayAttr[SymbolRefAttr])
    actions = prop_def(ArrayAttr[SymbolRefAttr])
    restrict_root = opt_prop_def(UnitAttr)
    flatten_results = opt_prop_def(UnitAttr)
    custom_directives = (MatchPairs,)
    assembly_format = (
        "(`restrict_root` $restrict_root^)? (`flatten_results` $flatten_results^)? `in` $handles "
        "custom<MatchPairs>($matchers, $actions) attr-dict `:` functional-type($handles, $results_)"
    )


@op_definition
class ParamConstantOp(TransformOp):
    """Constant parameter: a number or string. The operands `handles` of its base class are always empty."""

    name = "transform.param.constant"
    value = prop_def(Attribute)
    assembly_format = "$value $handles attr-dict `->` type($results_) custom<Absent>(type($handles))"


@op_definition
class GetOperandOp(PositionOp):
    """Handle to the operands of an operation at the given positions: `%op[0, -1] : (T) -> U`."""

    name = "transform.get_operand"


@op_definition
class GetResultOp(PositionOp):
    """Handle to the results of an operation at the given positions: `%op[0, -1] : (T) -> U`."""

    name = "transform.get_result"


@op_definition
class GetDefiningOp(TransformOp):
    """Handle to the operations that define values."""

    name = "transform.get_defining_op"


@op_definition
class GetProducerOfOperandOp(PositionOp):
    """Handle to the operation that defines the operand at the given position: `%op[0] : (T) -> U`."""

    name = "transform.get_producer_of_operand"


@op_definition
class GetConsumersOfResultOp(PositionOp):
    """Handle to the users of the result at the given position: `%op[0] : (T) -> U`."""

    name = "transform.get_consumers_of_result"


@op_definition
class GetParentOp(TransformOp):
    """Handle to the parent operation.

    With the attribute `op_name` or `isolated_from_above`, it refers to the nearest ancestor of this name or with this
    trait. With `nth_parent = n`, it refers to the n-th such ancestor.
    """

    name = "transform.get_parent_op"


@op_definition
class GetNearestSymbolTableOp(TransformOp):
    """Handle to the enclosing module."""

    name = "transform.util.get_nearest_symbol_table"


@op_definition
class IreeGetNearestSymbolTableOp(TransformOp):
    """Handle to the enclosing module, under the name of older releases."""

    name = "transform.iree.get_nearest_symbol_table"


@directive
class SameHandles(CustomDirective):
    """Directive for one type that all operand handles and the result have.

    In `transform.merge_handles %a, %b : !transform.any_op` it parses `!transform.any_op`.
    """

    handles: VariadicOperandVariable  # the operands, which are parsed before
    types: TypeDirective  # their types, which the directive sets
    result: TypeDirective  # the type of the result, which it sets, too

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `T`, and set the types of all handles and of the result to it."""
        type = parser.parse_type()
        self.types.set(state, [type] * len(state.operands[self.handles.index] or ()))
        self.result.set(state, (type,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the type of the result, which is the type of all operands."""
        self.result.print(printer, state, op)


@op_definition
class MergeHandlesOp(TransformOp):
    """Union of handles: one handle to the operations of all operands, each once if `deduplicate` is set."""

    name = "transform.merge_handles"
    deduplicate = opt_prop_def(UnitAttr)
    custom_directives = (SameHandles,)
    assembly_format = (
        "(`deduplicate` $deduplicate^)? $handles attr-dict `:` custom<SameHandles>(ref($handles), type($handles), "
        "type($results_))"
    )


@op_definition
class SplitHandleOp(TransformOp):
    """Split of a handle into one result handle for each operation that it refers to; their numbers must be equal."""

    name = "transform.split_handle"


@op_definition
class NumAssociationsOp(TransformOp):
    """Number of operations, values or parameters that a handle refers to."""

    name = "transform.num_associations"


@op_definition
class CastOp(TransformOp):
    """Conversion of a handle to another handle type."""

    name = "transform.cast"
    # `handles` and `results_` are the variadic operands and results of all transform operations, here one of each.
    assembly_format = "custom<OneOperand>($handles) attr-dict `:` type($handles) `to` type($results_)"


OPERATIONS: list[type[Operation]] = [
    NamedSequenceOp, YieldOp, IncludeOp, StructuredMatchOp, ForeachOp, ForeachMatchOp, ParamConstantOp, GetOperandOp,
    GetResultOp, GetDefiningOp, GetProducerOfOperandOp, GetConsumersOfResultOp, GetParentOp, GetNearestSymbolTableOp,
    IreeGetNearestSymbolTableOp, MergeHandlesOp, SplitHandleOp, NumAssociationsOp, CastOp,
    *transform_match.OPERATIONS, *transform_act.OPERATIONS,
]  # fmt: skip

Transform = Dialect("transform", OPERATIONS, TYPES)
