"""Declared syntax: `assembly_format` as MLIR defines it, compiled when an operation is first read or printed.

A dialect has many operations of which a program uses few, so nothing is compiled while a dialect is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, OpDef, VerificationContext, irdl_op_definition
from xdsl.irdl.declarative_assembly_format import FormatDirective, FormatProgram, ParsingState, PrintingState
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from pydispatch.ir.core.compiled import Read, Write, reader, writer

OpT = TypeVar("OpT", bound=IRDLOperation)
"""Class of operations that `op_definition` defines."""


class AssemblyFormat:
    """Syntax of one operation, compiled when the operation is first parsed or printed.

    Args:
        text: Assembly format as in MLIR.
        definition: Operands, results, properties and regions that the text names.
    """

    def __init__(self, text: str, definition: OpDef) -> None:
        self._text = text
        self._definition = definition

    @cached_property
    def _directives(self) -> tuple[FormatDirective, ...]:
        """Directives of the format, parsed on first use."""
        from pydispatch.ir.core.grammar import Grammar

        return Grammar(self._text, self._definition).parse_format().stmts

    @cached_property
    def _readers(self) -> tuple[Read, ...]:
        """Functions that parse the directives, in order."""
        return tuple(reader(directive) for directive in self._directives)

    @cached_property
    def _writers(self) -> tuple[Write, ...]:
        """Functions that print the directives, in order."""
        return tuple(writer(directive, self._definition) for directive in self._directives)

    @cached_property
    def _with_required_clauses(self) -> tuple[Any, ...]:
        """Directives that check for required clauses, which is possible only after all directives have been read."""
        return tuple(directive for directive in self._directives if hasattr(directive, "require"))

    @cached_property
    def _has_variables(self) -> bool:
        """Whether types that the text omits may be inferred from other types, by the variables of constraints."""
        groups = (self._definition.operands, self._definition.results)
        return any(value.constr.variables() for values in groups for _, value in values)

    def parse(self, op_type: type[Operation], parser: Parser) -> Operation:
        """Parse an operation of the class `op_type` after its name, and return it.

        For `%r = test.add %a, %b : i32` with the format "$lhs `,` $rhs attr-dict `:` type($result)", the directives set
        the operands to the names %a and %b, and the type of the result to i32. The text omits the types of the
        operands; they are inferred from a constraint of the definition, such as that all three types are one type T.
        """
        assert issubclass(op_type, IRDLOperation)
        # Parse the text. The lists of the state have one entry per operand or result of the definition; an entry of the
        # types is None if the text omits them.
        state = ParsingState(op_type)
        start = parser.pos
        for read in self._readers:
            read(parser, state)
        for directive in self._with_required_clauses:
            directive.require(parser, state, start)  # raises an error if a clause is missing
        # Infer omitted types: record the values of the variables of constraints, such as T = i32, in `state.context`.
        if self._has_variables and None in (*state.operand_types, *state.result_types):
            FormatProgram(self._directives).resolve_constraint_variables(state, self._definition)
        operands = self._resolve_operands(parser, state)
        results: list[Attribute] = []
        for (_, result), known in zip(self._definition.results, state.result_types, strict=True):
            results += result.constr.infer(state.context, length=None) if known is None else known
        return op_type.create(
            operands=operands, result_types=results, properties=state.properties, attributes=state.attributes,
            regions=[region for group in state.regions for region in group or ()],
            successors=[block for group in state.successors for block in group or ()],
        )  # fmt: skip

    def _resolve_operands(self, parser: Parser, state: ParsingState) -> list[SSAValue]:
        """Return the values of all operands, whose types are stated, fixed by the definition, or inferred.

        For several variadic operands, the number of values of each is added to the properties.
        """
        operands: list[SSAValue] = []
        sizes: list[int] = []  # number of values of each operand of the definition, which may be variadic
        resolve = parser.resolve_operand
        for index, (names, types) in enumerate(zip(state.operands, state.operand_types, strict=True)):
            assert names is not None
            if types is None:
                fixed = self._fixed_types[index]
                types = self._inferred(index, len(names), state) if fixed is None else [fixed] * len(names)
            if len(names) != len(types):
                _raise_counts(parser, names, types)
            sizes.append(len(names))
            operands += map(resolve, names, types)
        if self._has_segments:
            state.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
        return operands

    def _inferred(self, index: int, count: int, state: ParsingState) -> Sequence[Attribute]:
        """Return the types of the `count` values of operand `index`, inferred from the types parsed so far."""
        return self._definition.operands[index][1].constr.infer(state.context, length=count)

    @cached_property
    def _fixed_types(self) -> tuple[Attribute | None, ...]:
        """Type of each operand of the definition if it is always the same, such as index; else None."""
        context = VerificationContext()
        return tuple(
            operand.constr.infer(context, length=1)[0] if operand.constr.can_infer(set(), length_known=True) else None
            for _, operand in self._definition.operands
        )

    @cached_property
    def _has_segments(self) -> bool:
        """Whether a property of the operation states how many values each of its operands has."""
        return any(isinstance(option, AttrSizedOperandSegments) for option in self._definition.options)

    def print(self, op: Operation, printer: Printer) -> None:
        """Print an operation after its name."""
        assert isinstance(op, IRDLOperation)
        state = PrintingState()
        for write in self._writers:
            write(printer, state, op)


def _raise_counts(parser: Parser, names: Sequence[UnresolvedOperand], types: Sequence[Attribute]) -> NoReturn:
    """Raise a parse error at the operands `names`: there are not as many types as operands."""
    start, end = (names[0].span.start, names[-1].span.end) if names else (parser.pos, parser.pos + 1)
    parser.raise_error(f"{len(names)} operand(s) are given, but {len(types)} operand type(s)", start, end)


def op_definition(cls: type[OpT]) -> type[OpT]:
    """Define an operation class; a decorator that replaces xDSL's `irdl_op_definition`.

    Unlike there, `assembly_format` is compiled when an operation is first parsed or printed, and has the syntax of
    `grammar.Grammar`.
    """
    text, cls.assembly_format = cls.assembly_format, None  # keeps xDSL from compiling the text
    defined = irdl_op_definition(cls)
    if text is not None:
        format = AssemblyFormat(text, defined.get_irdl_definition())
        defined.parse = classmethod(lambda kind, p: format.parse(kind, p))  # type: ignore[method-assign,assignment]
        defined.print = lambda op, printer: format.print(op, printer)  # type: ignore[method-assign,assignment]
    return defined
