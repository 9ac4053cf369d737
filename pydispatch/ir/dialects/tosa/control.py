"""Branches, loops, and variables that outlive a call."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import SymbolNameConstraint, SymbolRefAttr, TensorType, i1
from xdsl.ir import Attribute, Operation, Region, SSAValue
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
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.tosa.base import VALUE

Pairs = tuple[list[Parser.UnresolvedArgument], list[UnresolvedOperand]]
"""Arguments of a region, and the values outside of it that are passed to them: `%a` and `%x` in `(%a = %x)`."""


@op_definition
class YieldOp(IRDLOperation):
    """Terminator of a branch or of a loop region."""

    name = "tosa.yield"
    inputs = var_operand_def(VALUE)
    traits = traits_def(IsTerminator())
    assembly_format = "$inputs attr-dict `:` type($inputs)"


def _parse_pairs(parser: Parser) -> Pairs:
    """Parse optional pairs of block argument and value, `(%inner = %outer, ...)`; return both lists."""
    names: list[Parser.UnresolvedArgument] = []
    values: list[UnresolvedOperand] = []

    def parse_pair() -> None:
        """Parse `%inner = %outer` into `names` and `values`."""
        names.append(parser.parse_argument(expect_type=False))
        parser.parse_punctuation("=")
        values.append(parser.parse_unresolved_operand())

    parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parse_pair, " in values of a region")
    return names, values


def _print_pairs(printer: Printer, region: Region, values: Sequence[SSAValue]) -> None:
    """Print the arguments of a region with their initial values: `(%inner = %outer, ...)`."""
    block = region.blocks.first
    assert block is not None

    def print_pair(pair: tuple[SSAValue, SSAValue]) -> None:
        """Print `%inner = %outer`."""
        argument, value = pair
        printer.print_ssa_value(argument)
        printer.print_string(" = ")
        printer.print_ssa_value(value)

    with printer.in_parens():
        printer.print_list(list(zip(block.args, values, strict=True)), print_pair)


def _print_in_parens(printer: Printer, types: Sequence[Attribute]) -> None:
    """Print `(type, type)`."""
    with printer.in_parens():
        printer.print_list(types, printer.print_attribute)


def _check_region(region: Region, region_name: str, argument_types: Sequence[Attribute], result_count: int) -> None:
    """Check that a region has one block with arguments of these types, which ends with a tosa.yield of `result_count`
    values. Raise VerifyException otherwise, with `region_name` in the message.

    The types of the yielded values are compared when the operation is converted: dynamic sizes match static ones.
    """
    if len(region.blocks) != 1:
        raise VerifyException(f"the {region_name} has {len(region.blocks)} blocks, expected one")
    block = region.block
    types = [argument.type for argument in block.args]
    if types != list(argument_types):
        raise VerifyException(f"the {region_name} takes {_shown(types)}, expected {_shown(argument_types)}")
    last = block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException(f"the {region_name} does not end with tosa.yield")
    if len(last.inputs) != result_count:
        raise VerifyException(f"the {region_name} passes on {len(last.inputs)} value(s), expected {result_count}")


def _shown(types: Sequence[Attribute]) -> str:
    """Return types as messages print them, in parentheses."""
    return f"({', '.join(map(str, types))})"


@irdl_op_definition
class IfOp(IRDLOperation):
    """Conditional `cond_if %c (%a = %x) : tensor<i1> (T) -> U {...} else {...}`; branches may use outer values as well.

    `inputs` are the values `%x`, which the branches take as arguments `%a`; `outputs` are the results, which the
    branches yield. Older releases write `cond_if %c -> (U) {...}`.
    """

    name = "tosa.cond_if"
    cond = operand_def(VALUE)
    inputs = var_operand_def(VALUE)
    outputs = var_result_def(VALUE)
    then_branch = region_def()
    else_branch = region_def()

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        """Parse `%condition (%a = %x) : type (types) -> types {...} else {...}`.

        `%x` is an operand, which the branches call `%a`; several are separated by commas. The first type is that of the
        condition, the types in parentheses are those of the operands `%x`, and the types after the arrow those of the
        results. Without such operands, both pairs of parentheses are absent. Older releases of MLIR omit the type of
        the condition.
        """
        condition = parser.parse_unresolved_operand()
        _, values = _parse_pairs(parser)  # the names are dropped: each region declares its block arguments itself
        # The types: that of the condition, then those of the values in parentheses, then those of the results.
        start = parser.pos
        type: Attribute | None = None
        types: list[Attribute] = []
        if parser.parse_optional_punctuation(":") is not None:
            type = parser.parse_type()
            if values:
                types = list(
                    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type, " in types of values")
                )
        parser.parse_punctuation("->", " in 'tosa.cond_if'")
        results = syntax.parse_types(parser)
        operands = [
            parser.resolve_operand(condition, type or _CONDITION_TYPE),
            *parser.resolve_operands(values, types, start),
        ]
        then = parser.parse_region()
        parser.parse_keyword("else", " in 'tosa.cond_if'")
        otherwise = parser.parse_region()
        return cls.create(operands=operands, result_types=results, regions=[then, otherwise],
                          attributes=parser.parse_optional_attr_dict())  # fmt: skip

    def print(self, printer: Printer) -> None:
        """Print `%condition (%a = %x) : type (types) -> types {...} else {...}`.

        The first type is that of the condition. `(%a = %x)`, the names of the inputs `%x` in the first branch, and
        `(types)`, the types of the inputs, are omitted if there are no inputs.
        """
        printer.print_string(" ")
        printer.print_ssa_value(self.cond)
        if self.inputs:
            printer.print_string(" ")
            _print_pairs(printer, self.then_branch, self.inputs)
        printer.print_string(" : ")
        printer.print_attribute(self.cond.type)
        if self.inputs:
            printer.print_string(" ")
            _print_in_parens(printer, self.inputs.types)
        printer.print_string(" -> ")
        syntax.print_types(printer, self.outputs.types)
        printer.print_string(" ")
        printer.print_region(self.then_branch, print_empty_block=False)
        printer.print_string(" else ")
        printer.print_region(self.else_branch, print_empty_block=False)
        syntax.print_attributes(printer, self.attributes, keyword=False)

    def verify_(self) -> None:
        """Verify that both branches take the inputs and yield a value for each output."""
        for region, region_name in ((self.then_branch, "branch"), (self.else_branch, "else branch")):
            _check_region(region, region_name, self.inputs.types, len(self.outputs))


_CONDITION_TYPE = TensorType(i1, [])
"""Type of the condition of `cond_if`, which older releases do not write."""


@irdl_op_definition
class WhileOp(IRDLOperation):
    """While loop `while_loop (%a = %x) : (T) -> T {condition} do {^bb0(%a: T): body}`.

    `inputs` are the values `%x` before the first iteration, `outputs` the values after the last one. Both regions take
    the current values: the condition `cond_graph` by the names in parentheses, the body `body_graph` as declared block
    arguments. The condition yields a `tensor<i1>`, the body the next values.
    """

    name = "tosa.while_loop"
    inputs = var_operand_def(VALUE)
    outputs = var_result_def(VALUE)
    cond_graph = region_def()
    body_graph = region_def()

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        """Parse `(%a = %x) : (types) -> types {...} do {...}`, and attributes after it.

        `%x` is an operand, the value before the first iteration. The region of the condition, the first one, calls it
        `%a`; the body declares a name of its own, `{^bb0(%b: type): ...}`. The types in parentheses are those of the
        operands, the types after the arrow those of the results.
        """
        names, values = _parse_pairs(parser)
        parser.parse_punctuation(":", " in 'tosa.while_loop'")
        start = parser.pos
        types = list(
            parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type, " in types of values")
        )
        operands = parser.resolve_operands(values, types, start)
        parser.parse_punctuation("->")
        results = syntax.parse_types(parser)
        condition = parser.parse_region([name.resolve(type) for name, type in zip(names, types, strict=True)])
        parser.parse_keyword("do", " in 'tosa.while_loop'")
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        return cls.create(operands=operands, result_types=results, regions=[condition, body],
                          attributes=attributes.data if attributes else {})  # fmt: skip

    def print(self, printer: Printer) -> None:
        """Print `(%a = %x) : (types) -> types {...} do {...}`."""
        printer.print_string(" ")
        _print_pairs(printer, self.cond_graph, self.inputs)
        printer.print_string(" : ")
        _print_in_parens(printer, self.inputs.types)
        printer.print_string(" -> ")
        syntax.print_types(printer, self.outputs.types)
        printer.print_string(" ")
        printer.print_region(self.cond_graph, print_entry_block_args=False)
        printer.print_string(" do ")
        printer.print_region(self.body_graph)
        syntax.print_attributes(printer, self.attributes)

    def verify_(self) -> None:
        """Verify that both regions take the inputs; the condition yields one value, the body one for each output."""
        _check_region(self.cond_graph, "condition", self.inputs.types, result_count=1)
        _check_region(self.body_graph, "body", self.inputs.types, len(self.outputs))


@directive
class TypeOrValue(CustomDirective):
    """Directive for an initial value `= value`, or a type `: T` without one."""

    type: AttributeVariable
    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the initial value, `= dense<...>`, or the type alone, `: type`."""
        start = parser.pos
        if parser.parse_optional_punctuation("=") is not None:
            value = parser.parse_attribute()
            type = getattr(value, "type", None)
            if not isinstance(type, TensorType):
                parser.raise_error("expected the elements of a tensor", start, parser.pos)
            self.value.set(state, value)
        else:
            parser.parse_punctuation(":", " or '=' in 'tosa.variable'")
            type = parser.parse_type()
        self.type.set(state, type)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the initial value or the type."""
        value, type = self.value.get(op), self.type.get(op)
        shown = value or type
        assert shown is not None
        printer.print_string(" : " if value is None else " = ")
        printer.print_attribute(shown)


@op_definition
class VariableOp(IRDLOperation):
    """Variable of the program: a tensor that lives as long as the loaded program. It starts with zeros if it has no
    `initial_value`."""

    name = "tosa.variable"
    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(TensorType)
    initial_value = opt_prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())
    custom_directives = (TypeOrValue,)
    assembly_format = "$sym_name attr-dict custom<TypeOrValue>($type, $initial_value)"


class _Read(IRDLOperation):
    """Base of reads of a variable."""

    variable = prop_def(SymbolRefAttr, prop_name="name")
    output1 = result_def(VALUE)
    assembly_format = "$name attr-dict `:` type($output1)"


class _Write(IRDLOperation):
    """Base of writes of a variable."""

    variable = prop_def(SymbolRefAttr, prop_name="name")
    input1 = operand_def(VALUE)
    assembly_format = "$name attr-dict `,` $input1 `:` type($input1)"


@op_definition
class VariableReadOp(_Read):
    """Read of a variable."""

    name = "tosa.variable_read"


@op_definition
class VariableWriteOp(_Write):
    """Write of a variable."""

    name = "tosa.variable_write"


@op_definition
class FormerVariableReadOp(_Read):
    """Variable read in the spelling of older releases."""

    name = "tosa.variable.read"


@op_definition
class FormerVariableWriteOp(_Write):
    """Variable write in the spelling of older releases."""

    name = "tosa.variable.write"


OPERATIONS: list[type[Operation]] = [
    YieldOp, IfOp, WhileOp, VariableOp, VariableReadOp, VariableWriteOp, FormerVariableReadOp, FormerVariableWriteOp,
]  # fmt: skip
