"""Reads program text: every spelling that releases of the IREE compiler write, with located errors."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from pydispatch.errors import CompileError
from pydispatch.ir.core.attribute_parser import ProgramAttributeParser
from pydispatch.ir.core.locations import Source, SourceLoc
from pydispatch.ir.core.long_literals import elide_literals
from pydispatch.ir.core.messages import end_of_previous, explain, explain_refusal
from pydispatch.ir.core.names import FORMER_NAMES
from pydispatch.ir.core.refine import refinement
from pydispatch.suggestions import close_matches, nearest

_OPERATION_STARTS = (MLIRTokenKind.PERCENT_IDENT, MLIRTokenKind.BARE_IDENT, MLIRTokenKind.STRING_LIT)
"""Kinds of the first token of an operation: result `%x`, name, or name in quotes in the generic form."""


class ProgramParser(ProgramAttributeParser):
    """Parser of one program text, by `parse_program`. The other methods override those of xDSL's parser."""

    def __init__(self, ctx: Context, text: str, filename: str) -> None:
        """Create a parser at the first token of a program.

        The digits of long hexadecimal literals are removed from the text before it is read, so that no tokens are made
        of them. `dense<"0x...">` with 5000 digits becomes `dense<"0x">`; the source stores the 2500 bytes by the offset
        of the last quote.

        Args:
            ctx: Dialects that the program may use.
            text: The program; the digits of an `ElidedText` are already removed.
            filename: Name of the program in messages.

        Raises:
            CompileError: The first token is malformed.
        """
        try:
            super().__init__(ctx, Source(elide_literals(text), filename))
        except ParseError as e:
            self._raise(e)
        # Fields that Parser.__init__ would set: values and blocks by name, and uses that precede their definition.
        self.ssa_values = {}
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        self.forward_ssa_references = {}

    # --- operations ---

    def parse_optional_operation(self) -> Operation | None:
        """Parse an operation if the next token can begin one; else return None."""
        return self.parse_operation() if self._parser_state.current_token.kind in _OPERATION_STARTS else None

    def parse_operation(self) -> Operation:
        """Parse an operation with its result names and location: `%0 = arith.addi %a, %b : i32 loc("sum")`.

        The syntax after the name is the generic one if the name is in quotes, `"arith.addi"(%a, %b) : ...`, else that
        of the class or of its refinement, which replaces the syntax of some operations of xDSL.

        Returns:
            The operation, located at its name. Its results are registered under their names.

        Raises:
            CompileError: There is no operation of this name, or its class refuses the operands or attributes.
            ParseError: The text does not have the syntax of the operation.
        """
        start = self.pos
        result_names = self._parse_op_result_list()
        name_token: Any = self._current_token
        is_generic = name_token.kind == MLIRTokenKind.STRING_LIT
        if is_generic:
            name = self.parse_str_literal()
        else:
            name = self._parse_token(MLIRTokenKind.BARE_IDENT, "operation name expected").text
        op_type = self._get_op_by_name_at(name, name_token.start, name_token.end)
        stack = self._parser_state.dialect_stack  # operations in regions may omit the name of this dialect
        stack.append(op_type.dialect_name())
        try:
            # Without a helper: a frame more for each nested operation would lower the depth of programs that Python's
            # recursion limit allows.
            refined = refinement(op_type)
            op: Any
            if is_generic:
                op = self._parse_generic_operation(op_type)
            elif refined is not None and refined.parse is not None:
                op = refined.parse(op_type, self)
            else:
                op = op_type.parse(self)
        except (ParseError, CompileError, RecursionError):  # errors of the text, which have a location
            raise
        except Exception as e:  # for example an AssertionError of xDSL for types that it does not expect
            message, note = explain_refusal(name, e)
            raise CompileError(message, self.source.locate(name_token.start, name_token.end), note) from e
        stack.pop()
        # Offset of the parenthesis if the text states `loc(...)` after the operation.
        stated_start = self._current_token.span.end if self._current_token.text == "loc" else -1
        self.parse_optional_location()
        op.location = SourceLoc(self.source, name_token.start, name_token.end, stated_start)
        if result_names:
            self._bind_results(op, result_names, start)
        return op

    def _parse_op_result_list(self) -> list[Any]:
        """Parse the result names before an operation; return (span of a name, number of results) of each.

        The usual case, `%name =`, is parsed here; other lists, such as `%a:2, %b =`, by the base class.
        """
        state = self._parser_state
        token = state.current_token
        if token.kind is not MLIRTokenKind.PERCENT_IDENT:
            return []
        state.current_token = state.lexer.lex()
        if self.parse_optional_characters("=") is not None:
            return [(token.span, 1)]
        self._resume_from(token.span.start)
        return super()._parse_op_result_list()

    def _bind_results(self, op: Operation, names: list[Any], start: int) -> None:
        """Register the results of an operation under their names; raise a parse error unless there are as many results.

        Args:
            op: The operation.
            names: (span of a name, number of results with this name), as `_parse_op_result_list` returns them.
            start: Offset of the first name, for the error.
        """
        results = op.results
        if len(names) == 1 and names[0][1] == 1 and len(results) == 1:  # the usual case
            self._register_ssa_definition(names[0][0].text[1:], results, names[0][0])  # without the `%`
            return
        wanted = sum(size for _, size in names)
        if wanted != len(results):
            self.raise_error(f"'{op.name}' has {len(results)} result(s), but {wanted} name(s) are given", start)
        index = 0  # of the next result
        for span, size in names:
            self._register_ssa_definition(span.text[1:], results[index : index + size], span)
            index += size

    def _get_op_by_name_at(self, name: str, start: int, end: int) -> type[Operation]:
        """Return the class of an operation, also by a former name. Raise CompileError at `start:end` otherwise."""
        stack = self._parser_state.dialect_stack
        op_type = self.ctx.get_optional_op(FORMER_NAMES.get(name, name), dialect_stack=stack)
        if op_type is None:
            raise CompileError(f"operation '{name}' is not known", self.source.locate(start, end), self._nearest(name))
        return op_type

    def _nearest(self, name: str) -> str:
        """Return a hint for the unknown operation `name`: similar names, or all dialects if none has a similar name."""
        dialect = name.split(".")[0]
        known_dialects = sorted(self.ctx.registered_dialect_names)
        if "." in name and dialect not in known_dialects:
            matches = close_matches(dialect, known_dialects)
            if not matches:
                return f"dialect '{dialect}' is not known; known are {', '.join(known_dialects)}"
            self.ctx.get_optional_dialect(matches[0])  # loads the operations of the dialect
        loaded = [op.name for op in self.ctx.loaded_ops]
        return nearest(name, loaded, most=3, cutoff=0.5) or "no operation has a similar name"

    # --- the whole ---

    def parse_program(self) -> ModuleOp:
        """Parse the whole text and return its module; top-level operations without a module are put into a new one.

        Raise CompileError with the location of the error for an invalid text.
        """
        try:
            return self.parse_module()
        except ParseError as e:
            self._raise(e)
        except (VerifyException, ValueError, AssertionError, TypeError) as e:
            token = self._current_token.span
            raise CompileError(first_line(e), self.source.locate(token.start, token.end)) from e
        except RecursionError:
            token = self._current_token.span
            raise CompileError("the program is nested too deeply", self.source.locate(token.start)) from None

    def _raise(self, error: ParseError) -> NoReturn:
        """Raise an error of xDSL's parser as a CompileError with location, message and remedy."""
        start, end = error.span.start, error.span.end
        message, note = explain(error.msg, error.span.text)
        if message.startswith("values used but not defined"):
            self._raise_undefined()
        if message == "could not parse entire input!":
            message = "expected an operation" if self.source.text.strip() else "the program is empty"
        if start == self._current_start() and not message.startswith("expected an operation"):
            # At the first token of a line, something before it is missing: show the end of the token before.
            end_before = end_of_previous(self.source.text, start)
            if end_before is not None:
                start, end = end_before, end_before + 1
        raise CompileError(message, self.source.locate(start, end), note) from None

    def _current_start(self) -> int:
        """Return the offset of the current token; -1 before the first token has been read."""
        state = getattr(self, "_parser_state", None)
        return -1 if state is None else self.pos

    def _raise_undefined(self) -> NoReturn:
        """Raise CompileError at the first use of the first undefined value.

        `forward_ssa_references` has the values that are used without a definition: name → index of the result →
        placeholder. `ssa_values` has the defined values, of which the note names similar ones.
        """
        name, references = next(iter(self.forward_ssa_references.items()))
        uses = [use.operation for value in references.values() for use in value.uses]
        offsets = [op.location.start for op in uses if isinstance(op.location, SourceLoc)]
        first_use = min(offsets, default=0)  # offset of the operation that uses the value; `%name` follows it
        match = re.compile(re.escape(f"%{name}") + r"(?![\w$.\-])").search(self.source.text, first_use)
        start = match.start() if match else first_use
        raise CompileError(
            f"value '%{name}' is not defined",
            self.source.locate(start, start + len(name) + 1),
            nearest(name, self.ssa_values, prefix="%") or None,
        )


def first_line(error: Exception) -> str:
    """Return the message of an xDSL exception without the program text that xDSL appends."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
