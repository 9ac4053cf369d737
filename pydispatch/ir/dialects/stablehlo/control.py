"""Control flow, and values that are passed on: tuples, barriers, tokens."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, TupleType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from pydispatch.ir.dialects.stablehlo.clauses import Properties
from pydispatch.ir.dialects.stablehlo.syntax import (
    FUNCTIONAL,
    PAIRWISE,
    RESULT,
    SAME,
    Types,
    TypeSignature,
    make,
    opens_signature,
    operation,
    parse_attributes,
    print_attributes,
)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Terminator of a region, `return %a, %b : T, U`."""

    name = "stablehlo.return"
    results_ = var_operand_def()
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> ReturnOp:
        """Parse `%a, %b {attributes} : types`, or the attributes alone if no value is returned."""
        operands = []
        while (operand := parser.parse_optional_unresolved_operand()) is not None:
            operands.append(operand)
            if parser.parse_optional_punctuation(",") is None:
                break
        attributes = parser.parse_optional_attr_dict()
        types = Types((), ())
        if operands:
            parser.parse_punctuation(":")
            types = Types(PAIRWISE.parse(parser, len(operands)).operands, ())
        return make(cls, parser, operands, types, {}, attributes)

    def print(self, printer: Printer) -> None:
        """Print `%a, %b {attributes} : types`, or the attributes alone if no value is returned."""
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)


@irdl_op_definition
class WhileOp(IRDLOperation):
    """While loop, `while(%iterArg = %c, %iterArg_0 = %x) : T, U attributes {...} cond {...} do {...}`.

    The operands are the initial values. Both regions take the current values as arguments of the same types and names.
    """

    name = "stablehlo.while"
    operand = var_operand_def()
    cond = region_def()
    body = region_def()
    results_ = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        """Parse `(%arg = %init, ...) : types cond {...} do {...}`.

        Both regions take the loop variables %arg, which the text declares once. The types are those of the initial
        values, of the variables and of the results.
        """
        names, operands = [], []

        def parse_binding() -> None:
            """Parse `%arg = %init`, the name of an argument into `names` and its initial value into `operands`."""
            names.append(parser.parse_unresolved_operand())
            parser.parse_punctuation("=")
            operands.append(parser.parse_unresolved_operand())

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_binding, " in the values of a loop")
        types: list[Attribute] = []
        if parser.parse_optional_punctuation(":") is not None and operands:
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(types) != len(names):
            parser.raise_error(f"{len(names)} value(s) are given, but {len(types)} type(s)")
        attributes = {}
        if parser.parse_optional_keyword("attributes") is not None:
            attributes = parser.parse_optional_attr_dict()
        # The condition and the body, with arguments of the same names.
        arguments = [Parser.Argument(name.span, type) for name, type in zip(names, types, strict=True)]
        parser.parse_keyword("cond")
        cond = parser.parse_region(arguments)
        parser.parse_keyword("do")
        body = parser.parse_region(arguments)
        return make(cls, parser, operands, Types(types, types), {}, attributes, [cond, body])

    def print(self, printer: Printer) -> None:
        """Print `(%arg = %init, ...) : types cond {...} do {...}`."""
        cond_args, body_args = self.cond.blocks[0].args, self.body.blocks[0].args
        names = []

        def print_binding(n: int) -> None:
            """Print `%arg = %init` of operand `n`, and append the name of the argument to `names`."""
            names.append(printer.print_ssa_value(cond_args[n]))
            printer.print_string(" = ")
            printer.print_ssa_value(self.operands[n])

        with printer.in_parens():
            printer.print_list(range(len(self.operands)), print_binding)
        # The text declares the names of the arguments once, for both regions.
        for argument, name in zip(body_args, names, strict=True):
            printer._ssa_values[argument] = name
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        for word, region in (("cond", self.cond), ("do", self.body)):
            printer.print_string(f" {word} ")
            printer.print_region(region, print_entry_block_args=False)


@irdl_op_definition
class TupleElementOp(IRDLOperation):
    """Element of a tuple at `index`, from 0: `get_tuple_element %t[0] : (tuple<T, U>) -> T`."""

    name = "stablehlo.get_tuple_element"
    operand = operand_def()
    index = prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> TupleElementOp:
        """Parse `%tuple[index] : signature`."""
        operand = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            properties: Properties = {"index": IntegerAttr(parser.parse_integer(allow_boolean=False), 32)}
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        return make(cls, parser, (operand,), FUNCTIONAL.parse(parser, operand_count=1), properties, attributes)

    def print(self, printer: Printer) -> None:
        """Print `%tuple[index] : signature`."""
        printer.print_string(" ")
        printer.print_ssa_value(self.operand)
        printer.print_string(f"[{self.index.value.data}]")
        print_attributes(printer, self, ("index",))
        printer.print_string(" : ")
        FUNCTIONAL.print(printer, self)


class TupleSignature(TypeSignature):
    """Type syntax `tuple<T, U>`, which is the result type and implies the operand types T and U."""

    def parse(self, parser: Parser, operand_count: int) -> Types:
        """Parse `tuple<T, U>`, the type of the result, or a full signature `(T, U) -> tuple<T, U>`.

        `operand_count` is not used, because the tuple type states the number of operands as well.
        """
        if opens_signature(parser):
            return super().parse(parser, operand_count)
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, TupleType):
            parser.raise_error(f"expected a tuple type, got {type}", start, parser.pos)
        return Types(operands=type.types.data, results=[type])

    def print(self, printer: Printer, op: Operation) -> None:
        """Print the tuple type of the result."""
        printer.print_attribute(op.result_types[0])


OPERATIONS: list[type[Operation]] = [
    ReturnOp,
    WhileOp,
    TupleElementOp,
    operation("stablehlo.after_all", "inputs*", signature=SAME, operand_type=AnyAttr()),
    operation("stablehlo.case", "index", "result*", regions="branches*", base=IRDLOperation, pure=False),
    operation("stablehlo.create_token", operands="", signature=RESULT),
    operation("stablehlo.if", "pred", "result*", regions="true_branch false_branch", base=IRDLOperation, pure=False),
    operation("stablehlo.optimization_barrier", "operand*", "result*", signature=PAIRWISE, operand_type=AnyAttr()),
    operation("stablehlo.tuple", "val*", signature=TupleSignature(), operand_type=AnyAttr()),
]
"""Operations of this module. `operation` takes the names of operands, results and regions; `*` marks variadic ones."""
