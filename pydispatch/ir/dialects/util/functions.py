"""Functions of the `util` dialect: their arguments, tied results, calls and the code that runs at load."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition


class FuncLikeOp(IRDLOperation):
    """Base of host functions. The body of a declaration is empty.

    `util.func private @f(%a: tensor<4xf32>, %n: index) -> (%a, index) {...}` has two results. The first is tied to the
    argument %a: it has its type, and reuses its memory. A tied result of another type is `%a as tensor<2x2xf32>`.

    Attributes:
        tied_operands: For each result the index of the argument whose memory it reuses, or -1; absent if no result
            reuses memory.
        arg_attrs, res_attrs: A dictionary for each argument or result; absent if all are empty.
    """

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
        """Arguments of the body; () for a declaration, which has no blocks."""
        block = self.body.blocks.first
        return () if block is None else tuple(block.args)

    @property
    def is_declaration(self) -> bool:
        """Whether the function has no body, and is thus linked when the program is loaded."""
        return not self.body.blocks

    @classmethod
    def parse(cls, parser: Parser) -> FuncLikeOp:
        """Parse `private @name(%arg: type, ...) -> (%arg as type, ...) attributes {...} {body}`.

        `%arg as type` is a result that is tied to the argument: it reuses its memory. A declaration has no body, and
        may have arguments without names.
        """
        properties: dict[str, Attribute | None] = {"sym_visibility": parser.parse_optional_visibility_keyword()}
        properties["sym_name"] = parser.parse_symbol_name()
        start = parser.pos
        arguments = _parse_arguments(parser)
        results = _parse_results(parser, arguments)
        attributes = syntax.parse_attributes(parser)
        arg_attrs = arguments.attrs
        body = Region()
        if parser._current_token.text == "{":
            if len(arguments.named) != len(arguments.types):
                parser.raise_error("the arguments of a function with a body have names", start, start + 1)
            body = parser.parse_region(arguments.named)
            visibility = properties["sym_visibility"]
            is_public = not isinstance(visibility, StringAttr) or visibility.data != "private"
            # Callers of a public function may pass arguments by name. xDSL shortens `%x_1` to the name hint "x"; the
            # argument then gets the attribute `pyd.name = "x_1"`.
            if is_public:
                arg_attrs = syntax.exact_names(arguments.named, body.blocks[0].args, arg_attrs)
        properties["function_type"] = FunctionType.from_lists(arguments.types, results.types)
        properties["tied_operands"] = syntax.tied_attr(results.tied)
        properties["arg_attrs"] = ArrayAttr(arg_attrs) if any(a.data for a in arg_attrs) else None
        properties["res_attrs"] = ArrayAttr(results.attrs) if any(a.data for a in results.attrs) else None
        return cls(properties=properties, attributes=attributes, regions=[body])

    def print(self, printer: Printer) -> None:
        """Print `private @name(%arg: type, ...) -> (%arg as type, ...) attributes {...} {body}`.

        `%arg as type` is a result that is tied to the argument: it reuses its memory.
        """
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        inputs = self.function_type.inputs.data
        tied = syntax.tied_list(self.tied_operands)
        names = None  # of the arguments of a declaration, which need names only if results are tied to them
        if self.is_declaration and tied:
            names = [f"%arg{i}" for i in range(len(inputs))]
        printer.print_string("(")
        printer.print_list(range(len(inputs)), lambda i: self._print_argument(printer, i, names))
        printer.print_string(")")
        if self.function_type.outputs.data:
            printer.print_string(" -> ")
            self._print_results(printer, tied, names)
        syntax.print_attributes(printer, self.attributes)
        if not self.is_declaration:
            printer.print_string(" ")
            printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def _print_argument(self, printer: Printer, i: int, names: list[str] | None) -> None:
        """Print argument `i`, `%a: type {attributes}`; in a declaration, without a name if `names` is None."""
        if not self.is_declaration:
            printer.print_ssa_value(self.args[i])
            printer.print_string(": ")
        elif names is not None:
            printer.print_string(f"{names[i]}: ")
        printer.print_attribute(self.function_type.inputs.data[i])
        if self.arg_attrs is not None:
            syntax.print_attributes(printer, self.arg_attrs.data[i].data, keyword=False)

    def _print_results(self, printer: Printer, tied: tuple[int, ...] | None, names: list[str] | None) -> None:
        """Print the results: `type`, or `%arg as type` for one that is tied to an argument, whose memory it reuses.

        ` as type` is omitted if the argument has that type. Results are in parentheses and may have attributes; a
        single result has no parentheses if no result has attributes.

        Args:
            printer: Printer to write to.
            tied: For each result the index of the argument that it is tied to, or -1; None if no result is tied.
            names: Names of the arguments of a declaration, with "%"; None for those of the entry block.
        """
        outputs, inputs = self.function_type.outputs.data, self.function_type.inputs.data

        def print_result(i: int) -> None:
            """Print a result: the argument that it is tied to, its type where that differs, and its attributes."""
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
            print_result(0)
            return
        printer.print_string("(")
        printer.print_list(range(len(outputs)), print_result)
        printer.print_string(")")

    def verify_(self) -> None:
        """Check that the entry block and the returns have the types of the signature."""
        if not self.is_declaration and tuple(a.type for a in self.args) != self.function_type.inputs.data:
            raise VerifyException("the entry block has other argument types than the function")
        for block in self.body.blocks:
            last = block.last_op
            if isinstance(last, ReturnOp) and tuple(o.type for o in last.operands) != self.function_type.outputs.data:
                got = ", ".join(str(o.type) for o in last.operands)
                want = ", ".join(str(t) for t in self.function_type.outputs)
                raise VerifyException(f"@{self.sym_name.data} returns ({got}), but is declared to return ({want})")


@op_definition
class FuncOp(FuncLikeOp):
    """Host function. See `FuncLikeOp`."""

    name = "util.func"


class _HostArguments(NamedTuple):
    """Arguments of a function as its text declares them."""

    named: list[Parser.Argument]  # those with names: all, or none in a declaration
    types: list[Attribute]  # of all arguments
    attrs: list[DictionaryAttr]  # of all arguments; empty dictionaries for those without attributes


class _TiedResults(NamedTuple):
    """Results of a function as its text declares them: a list entry for each."""

    types: list[Attribute]
    tied: list[int]  # index of the argument whose memory the result has; -1 for a result with memory of its own
    attrs: list[DictionaryAttr]  # attributes; empty dictionaries for results without attributes


def _parse_arguments(parser: Parser) -> _HostArguments:
    """Parse `(%name: type {attributes}, ...)`; arguments of a declaration may have a type without a name."""
    arguments = _HostArguments([], [], [])

    def parse_argument() -> None:
        """Parse `%name: type {attributes}`, or `type {attributes}` without a name, into `arguments`."""
        parsed = parser.parse_optional_argument()
        if parsed is None:
            arguments.types.append(parser.parse_type())
        else:
            arguments.named.append(parsed)
            arguments.types.append(parsed.type)
        arguments.attrs.append(DictionaryAttr(parser.parse_optional_attr_dict()))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_argument, " in function arguments")
    return arguments


def _parse_results(parser: Parser, arguments: _HostArguments) -> _TiedResults:
    """Parse `->` and one result, or a list of results in parentheses; or nothing, for a function without results.

    A result is `type`; or `%arg` or `%arg as type` if it is tied to an argument, whose memory it reuses. `%arg` alone
    has the type of the argument. Only results in parentheses may have attributes after them, `type {key = value}`.
    """
    results = _TiedResults([], [], [])
    if parser.parse_optional_punctuation("->") is None:
        return results
    # `operand_name` is a name without its "%".
    argument_names = [UnresolvedOperand(a.name, 0).operand_name for a in arguments.named]
    in_list = parser._current_token.text == "("

    def parse_result() -> None:
        """Parse a type, or `%arg` or `%arg as type` for a result tied to an argument; in a list also attributes."""
        name = parser.parse_optional_unresolved_operand()
        if name is None:
            results.types.append(parser.parse_type())
            results.tied.append(-1)
        else:
            if name.operand_name not in argument_names:
                parser.raise_error(f"result is tied to %{name.operand_name}, which is not an argument",
                              name.span.start, name.span.end)  # fmt: skip
            index = argument_names.index(name.operand_name)
            results.tied.append(index)
            has_type = parser.parse_optional_keyword("as") is not None
            results.types.append(parser.parse_type() if has_type else arguments.types[index])
        results.attrs.append(DictionaryAttr(parser.parse_optional_attr_dict()) if in_list else syntax.EMPTY_DICT)

    if in_list:
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_result, " in function results")
    else:
        parse_result()
    return results


@op_definition
class ReturnOp(IRDLOperation):
    """Terminator of a function, an initializer or a host region."""

    name = "util.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


@op_definition
class CallOp(IRDLOperation):
    """Call of a host function. `tied_operands` has for each result the index of the argument whose memory it reuses, or
    -1; it is absent if no result does."""

    name = "util.call"
    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def()
    tied_operands = opt_prop_def(DenseArrayBase)
    results_ = var_result_def()
    assembly_format = (
        "$callee `(` $arguments `)` attr-dict `:` custom<PlainSignature>(ref($arguments), type($arguments), "
        "type($results_), $tied_operands)"
    )


@op_definition
class InitializerOp(IRDLOperation):
    """Initializer: a region that runs once when the program is loaded."""

    name = "util.initializer"
    function_type = opt_prop_def(FunctionType)
    body = region_def()
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(IsolatedFromAbove())
    assembly_format = "attr-dict-with-keyword $body"


OPERATIONS: list[type[Operation]] = [FuncOp, ReturnOp, CallOp, InitializerOp]
