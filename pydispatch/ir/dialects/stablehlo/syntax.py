"""The form that nearly all operations of StableHLO and CHLO share, declared by a row for each of them.

`name %a, %b, word = value, ... {attributes} : signature`: operands, then clauses in their order. An operation that
prints otherwise has a class of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.core.syntax import parse_types, print_types
from pydispatch.ir.dialects.stablehlo.clauses import Clause, Properties

# --- signatures ---


class Types(NamedTuple):
    """Types of all operands and of all results of an operation, in order."""

    operands: Sequence[Attribute]
    results: Sequence[Attribute]


def opens_signature(parser: Parser) -> bool:
    """Return whether a full signature `(T, U) -> V` is next; the short forms never begin with a parenthesis."""
    return parser._current_token.text == "("


class TypeSignature:
    """Type syntax after the `:` of an operation: `(T, U) -> V`. Subclasses add a shorter form."""

    def parse(self, parser: Parser, operand_count: int) -> Types:
        """Parse `(T, U) -> V`.

        `operand_count` is the number of operands that were parsed. Only subclasses use it: in a form such as `T`, one
        type is stated for all operands.
        """
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, FunctionType):
            parser.raise_error("expected the types of operands and results: (T, U) -> V", start, parser.pos)
        return Types(type.inputs.data, type.outputs.data)

    def print(self, printer: Printer, op: Operation) -> None:
        """Print `(T, U) -> V`."""
        with printer.in_parens():
            printer.print_list(op.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        print_results(printer, op.result_types)


class Same(TypeSignature):
    """Type syntax `T` if all operands and results have one type, else `(T, U) -> V`."""

    def parse(self, parser: Parser, operand_count: int) -> Types:
        """Parse one type for all operands and the result, or a signature."""
        if opens_signature(parser):
            return super().parse(parser, operand_count)
        type = parser.parse_type()
        return Types([type] * operand_count, [type])

    def print(self, printer: Printer, op: Operation) -> None:
        """Print one type if all are equal, else a signature."""
        if len({*op.operand_types, *op.result_types}) == 1 and len(op.results) == 1:
            printer.print_attribute(op.result_types[0])
        else:
            super().print(printer, op)


class Arrow(TypeSignature):
    """Type syntax `T, U -> V`."""

    def parse(self, parser: Parser, operand_count: int) -> Types:
        """Parse `T, U -> V`, or a signature `(T, U) -> V`."""
        if opens_signature(parser):
            return super().parse(parser, operand_count)
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation("->")
        return Types(operands, parse_types(parser))

    def print(self, printer: Printer, op: Operation) -> None:
        """Print `T, U -> V`."""
        printer.print_list(op.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        print_results(printer, op.result_types)


class Pairwise(TypeSignature):
    """Type syntax `T, U` for as many results as operands, of the same types."""

    def parse(self, parser: Parser, operand_count: int) -> Types:
        """Parse the types of the operands, which are also those of the results, or a signature."""
        if opens_signature(parser):
            return super().parse(parser, operand_count)
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type) if operand_count else []
        return Types(types, types)

    def print(self, printer: Printer, op: Operation) -> None:
        """Print the operand types if the results have the same, else a signature."""
        if tuple(op.operand_types) == tuple(op.result_types):
            printer.print_list(op.operand_types, printer.print_attribute)
        else:
            super().print(printer, op)


class ResultOnly(TypeSignature):
    """Type syntax `T` for an operation without operands."""

    def parse(self, parser: Parser, operand_count: int) -> Types:
        """Parse the type of the result, or a signature `() -> T`."""
        if opens_signature(parser):
            return super().parse(parser, operand_count)
        return Types((), [parser.parse_type()])  # no operand types, and one result type

    def print(self, printer: Printer, op: Operation) -> None:
        """Print the type of the only result."""
        printer.print_attribute(op.result_types[0])


def print_results(printer: Printer, types: Sequence[Attribute]) -> None:
    """Print the result types that follow `->` in a signature: `T`, `(T, U)` or `()`."""
    print_types(printer, types)


FUNCTIONAL, SAME, ARROW, PAIRWISE, RESULT = TypeSignature(), Same(), Arrow(), Pairwise(), ResultOnly()


# --- operations ---


class RegularOp(IRDLOperation):
    """Base of operations with the syntax `name %a, %b, word = value, ... {attributes} : types`.

    Attributes:
        CLAUSES: Parts `word = value` after the operands, in the order in which they are printed.
        SIGNATURE: Syntax of the types.
        PARENS: Whether operands and clauses are in parentheses.
    """

    CLAUSES: ClassVar[tuple[Clause, ...]] = ()
    SIGNATURE: ClassVar[TypeSignature] = FUNCTIONAL
    PARENS: ClassVar[bool] = False

    @classmethod
    def parse(cls, parser: Parser) -> RegularOp:
        """Parse `%a, %b, word = value, ... {attributes} : types`, the list in parentheses if `PARENS` is set.

        `SIGNATURE` parses the types.
        """
        properties: Properties = {}
        if cls.PARENS:
            parser.parse_punctuation("(")
        operands = cls._parse_list(parser, properties)
        if cls.PARENS:
            parser.parse_punctuation(")")
        attributes = parse_attributes(parser, cls, properties)
        types = Types((), ())
        has_colon = parser.parse_optional_punctuation(":") is not None
        # The types are required for operations with operands, and for those whose signature is only a result type.
        if has_colon or operands or cls.SIGNATURE is RESULT:
            if operands and parser._current_token.text == "{":  # no type begins so: name what is missing
                parser.raise_error("expected ':' and the types")
            types = cls.SIGNATURE.parse(parser, len(operands))
        return make(cls, parser, operands, types, properties, attributes)

    @classmethod
    def _parse_list(cls, parser: Parser, properties: Properties) -> list[UnresolvedOperand]:
        """Parse operands and clauses, separated by commas: `%a, %b, precision = [DEFAULT, HIGHEST]`.

        Return the operands. A clause `word = value` sets properties, which are added to `properties`. Clauses may be in
        any order; each occurs at most once, and required ones exactly once. The list may be empty if none is required.
        """
        operands: list[UnresolvedOperand] = []
        clauses = list(cls.CLAUSES)  # those that have not been parsed yet
        is_first = True
        while is_first or parser.parse_optional_punctuation(",") is not None:
            operand = parser.parse_optional_unresolved_operand()
            if operand is not None:
                operands.append(operand)
            elif (index := next((n for n, clause in enumerate(clauses) if clause.opens(parser)), None)) is not None:
                clauses.pop(index).parse(parser, properties)
            elif not is_first:
                words = ", ".join(clause.word for clause in clauses)
                parser.raise_error(f"expected an operand{f' or {words} = ...' if words else ''} in '{cls.name}'")
            else:  # the list is empty; after a comma an item must follow
                break
            is_first = False
        if missing := [clause.word for clause in clauses if not clause.optional]:
            parser.raise_error(f"expected '{missing[0]} = ...' in '{cls.name}'")
        return operands

    def print(self, printer: Printer) -> None:
        """Print operands, the clauses (`word = value`) whose properties are set, attributes and types.

        For example `%a, %b, precision = [DEFAULT, HIGHEST] {key = 1 : i64} : (T, U) -> V` with one clause, `precision`.
        With `PARENS`, operands and clauses are in parentheses. `SIGNATURE` prints the types.
        """
        printer.print_string("(" if self.PARENS else " ")
        items: list[Any] = [*self.operands, *(clause for clause in self.CLAUSES if clause.is_present(self))]

        def print_item(item: Any) -> None:
            """Print an operand or a clause."""
            if isinstance(item, Clause):
                item.print(printer, self)
            else:
                printer.print_ssa_value(item)

        printer.print_list(items, print_item)
        if self.PARENS:
            printer.print_string(")")
        # The attribute dictionary leaves out the properties that clauses print.
        print_attributes(printer, self, {name for clause in self.CLAUSES for name in clause.properties})
        if self.operands or self.results:
            printer.print_string(" : ")
            self.SIGNATURE.print(printer, self)


def parse_attributes(parser: Parser, kind: type[Operation], properties: Properties) -> dict[str, Attribute]:
    """Parse an optional attribute dictionary. Add the entries that are properties of the operation class `kind` to
    `properties`, and return the others."""
    assert issubclass(kind, IRDLOperation)
    attributes = parser.parse_optional_attr_dict()
    known = kind.get_irdl_definition().properties
    properties |= {name: value for name, value in attributes.items() if name in known}
    return {name: value for name, value in attributes.items() if name not in known}


def print_attributes(printer: Printer, op: Operation, written: Iterable[str]) -> None:
    """Print the attribute dictionary: the attributes, and the properties that the rest of the text does not state.

    `written` has the names of the properties that the rest of the text states.
    """
    skipped = {*written, "operandSegmentSizes"}  # the parser derives the segment sizes from the operands
    unwritten = {name: value for name, value in op.properties.items() if name not in skipped}
    printer.print_op_attributes(unwritten | op.attributes)


def make(
    kind: type[Any], parser: Parser, operands: Sequence[UnresolvedOperand], types: Types, properties: Properties,
    attributes: Mapping[str, Attribute], regions: Sequence[Region] = (),
) -> Any:  # fmt: skip
    """Create an operation of class `kind` from its parsed parts, and resolve its operands.

    Raise ParseError if there are more or fewer operands than operand types.
    """
    if len(operands) != len(types.operands):
        parser.raise_error(f"{len(operands)} operand(s) are given, but {len(types.operands)} operand type(s)")
    return kind.create(
        operands=list(map(parser.resolve_operand, operands, types.operands)), result_types=list(types.results),
        properties=properties, attributes=dict(attributes), regions=list(regions),
    )  # fmt: skip


def operation(
    name: str, operands: str = "operand", results: str = "result", *, clauses: Sequence[Clause] = (),
    signature: TypeSignature = FUNCTIONAL, required: Mapping[str, Any] = {}, optional: Mapping[str, Any] = {},
    regions: str = "", pure: bool = True, parens: bool = False, base: type[IRDLOperation] = RegularOp,
    operand_type: Any = TensorType,
) -> type[IRDLOperation]:  # fmt: skip
    """Create the class of an operation from its operands, results and clauses, with the syntax of `RegularOp`.

    For example `operation("stablehlo.dot", "lhs rhs", clauses=[Precisions()])` returns a class `DotOp` with the
    operands `lhs` and `rhs`, the result `result` and the optional property `precision_config`, for the text
    `stablehlo.dot %a, %b, precision = [DEFAULT, HIGHEST] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>`.

    Args:
        name: Name of the operation with its dialect.
        operands: Names in order, separated by spaces; a name that ends in `*` is variadic. All variadic operands of an
            operation have the same number of values.
        results: Names in order, as for operands.
        clauses: Parts `word = value` after the operands. Each defines the properties that it stores.
        signature: Syntax of the types.
        required: Constraints of required properties without a clause, by name. Their text is in the attribute
            dictionary.
        optional: Constraints of optional properties without a clause, by name.
        regions: Names in order, as for operands.
        pure: Whether the operation has no side effects.
        parens: Whether the operands and clauses are in parentheses.
        base: Base class; `IRDLOperation` for operations that are parsed and printed in the generic form, `"name"(...)`.
        operand_type: Constraint of the operand types.
    """
    members: dict[str, Any] = {"name": name}
    members |= _defined(operands, partial(operand_def, operand_type), partial(var_operand_def, operand_type))
    members |= _defined(results, result_def, var_result_def)
    members |= _defined(regions, region_def, var_region_def)
    # Properties, also those that clauses store.
    all_required, all_optional = dict(required), dict(optional)
    for clause in clauses:
        (all_optional if clause.optional else all_required).update(clause.properties)
    members |= {word: opt_prop_def(constraint) for word, constraint in all_optional.items()}
    members |= {word: prop_def(constraint) for word, constraint in all_required.items()}
    if pure:
        members["traits"] = traits_def(Pure())
    if operands.count("*") > 1:  # IRDL needs a rule that splits the list of operands: into equal parts
        members["irdl_options"] = (SameVariadicOperandSize(),)
    # The class of "stablehlo.dot_general" is DotGeneralOp.
    title = "".join(part.title() for part in name.partition(".")[2].split("_"))
    defined: Any = irdl_op_definition(type(f"{title}Op", (base,), members))
    if issubclass(defined, RegularOp):
        defined.CLAUSES, defined.SIGNATURE, defined.PARENS = tuple(clauses), signature, parens
    return defined


def _defined(words: str, define: Callable[[], Any], define_variadic: Callable[[], Any]) -> dict[str, Any]:
    """Return definitions of operands, results or regions by name; a word that ends in `*` is variadic."""
    return {word.rstrip("*"): define_variadic() if word.endswith("*") else define() for word in words.split()}


def parse_equals(parser: Parser, word: str) -> None:
    """Parse `word =`."""
    parser.parse_keyword(word)
    parser.parse_punctuation("=")
