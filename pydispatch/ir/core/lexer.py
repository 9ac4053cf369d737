"""Tokens in one regular expression: what the library's lexer does character by character, several times faster."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ComplexType,
    FloatAttr,
    IndexType,
    IntegerType,
    MemRefType,
    TensorType,
    VectorType,
)
from xdsl.ir.affine import AffineMap, AffineSet
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRTokenKind, StringLiteral

from pydispatch.ir.core.dense import parse_dense, splat
from pydispatch.ir.core.literals import HEXADECIMAL, MINUS_BEFORE_BITS
from pydispatch.ir.core.semi_affine import SemiAffineParser

# A comment reaches to the end of its line: without the look-ahead, one that ends the text would be matched in part.
_SKIP = r"(?://[^\n]*(?![^\n])|[ \t\r\n\f\v])*"
_TOKEN = re.compile(
    _SKIP
    + r"(?:(?P<PERCENT_IDENT>%(?:[0-9]+|[a-zA-Z$._\-][\w$.\-]*))"
    + r"|(?P<BARE_IDENT>[a-zA-Z_][\w$.]*)"
    + r"|(?P<PUNCTUATION>->|\{-\#|\#-\}|\.\.\.|/(?!/)|[:,(){}\[\]<>=+*?|\-])"
    + r"|(?P<HASH_IDENT>\#(?:[0-9]+|[a-zA-Z$._\-][\w$.\-]*))"
    + r"|(?P<EXCLAMATION_IDENT>!(?:[0-9]+|[a-zA-Z$._\-][\w$.\-]*))"
    + r"|(?P<CARET_IDENT>\^(?:[0-9]+|[a-zA-Z$._\-][\w$.\-]*))"
    + r"|(?P<AT_IDENT>@[a-zA-Z_][\w$.]*)"
    + r'|(?P<STRING_LIT>"[^"\\\n\v\f]*")'
    + r"|(?P<FLOAT_LIT>[0-9]+\.[0-9]*(?:[eE][+\-]?[0-9]+)?)"
    + r"|(?P<INTEGER_LIT>0x[0-9a-fA-F]+|[0-9]+))",
    re.ASCII,
)
"""Next token, such as `%arg0`, with white space and comments before it; the name of its group is the kind of token."""
_SPLAT = re.compile(r"<\s*-?(?:[0-9][\w.+\-]*|true|false)\s*>", re.ASCII)
"""Constant of one element in angle brackets, `<-1.5>` or `<true>`, which stands for all elements of its type."""
_SPACE = re.compile(_SKIP, re.ASCII)
"""White space and comments before a token."""
_STRING = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"')
r"""String literal in double quotes with the escapes that MLIR knows, `"a\n\22"`."""
# Parameters of a builtin type, such as `<4xf32>`, if equal texts denote the same type, which is then parsed once.
# Brackets may be nested once. Aliases, which may mean another type elsewhere in the text, do not match, nor do arrows,
# strings and comments, which may contain a bracket.
_TYPE_BODY = re.compile(r'<[^<>#!/"\-]*(?:<[^<>#!/"\-]*>[^<>#!/"\-]*)*>')
# An affine map up to the `>` that closes `affine_map<`, if equal texts denote the same map, which is then parsed once.
# Text with aliases, which may mean another map elsewhere, does not match, nor does text with strings or comments.
_AFFINE_MAP = re.compile(r'\([^()<>#!/"]*\)[^()<>#!/"]*->[^<>#!/"]*(?=>)')
# Name of a group of `_TOKEN` → kind of its tokens. Each punctuation has a kind of its own.
_KIND = {name: getattr(MLIRTokenKind, name) for name in _TOKEN.groupindex if name != "PUNCTUATION"}


class FastToken:
    """Token that stores its text; its span is created when an error or a name needs it.

    Attributes:
        kind: Kind of the token.
        text: Its characters.
        start: Offset of its first character in the text.
        end: Offset after its last one.
    """

    __slots__ = ("_input", "end", "kind", "start", "text")

    def __init__(self, kind: MLIRTokenKind, text: str, start: int, end: int, input: Input[str]) -> None:
        """Create a token of the text `input`. For the other arguments see the attributes of the class."""
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end
        self._input = input

    @property
    def span(self) -> Span[str]:
        """Characters of the token."""
        if self.kind in (MLIRTokenKind.STRING_LIT, MLIRTokenKind.BYTES_LIT):
            return StringLiteral(self.start, self.end, self._input)
        return Span(self.start, self.end, self._input)

    @property
    def content(self) -> str:
        """Characters of the token, by the name of this property in xDSL's `Token` and `Span`."""
        return self.text


def _is_utf8(content: bytes) -> bool:
    """Return whether bytes are a text in UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


class FastOperand:
    """Unresolved operand that stores its name; its span is created when an error needs it.

    Attributes:
        index: Index of the result in `%name#index`; 0 without one.
        operand_name: Name without `%`.
    """

    __slots__ = ("_token", "index", "operand_name")

    def __init__(self, token: FastToken, index: int) -> None:
        """Take the name from `token`, the operand with its `%` and without `#index`."""
        self._token = token
        self.index = index
        self.operand_name = token.text[1:]

    @property
    def span(self) -> Span[str]:
        """Span of the operand in the source text, for errors."""
        return self._token.span


class FastLexer(MLIRLexer):
    """Lexer that matches one regular expression; xDSL's lexer handles the end of the text, escapes and errors."""

    def lex(self) -> Any:
        """Return the next token, and set `pos` to the offset after it.

        `_TOKEN` matches white space and comments too, and then the token in the group that is named like its kind: for
        ` %a, %b` the group PERCENT_IDENT is "%a", and `pos` is 3. xDSL's lexer handles what `_TOKEN` does not match.
        """
        input = self.input
        match = _TOKEN.match(input.content, self.pos)
        if match is None:
            self._check_string()
            token = super().lex()
            kind, span = token.kind, token.span
            if isinstance(span, StringLiteral) and _is_utf8(span.bytes_contents):
                kind = MLIRTokenKind.STRING_LIT  # MLIR prints text beyond ASCII with escapes
            return FastToken(kind, token.text, span.start, span.end, input)
        name = match.lastgroup
        assert name is not None
        text = match[name]
        end = match.end()
        self.pos = end
        kind = KIND_BY_PUNCTUATION_SPELLING[text] if name == "PUNCTUATION" else _KIND[name]
        return FastToken(kind, text, end - len(text), end, input)

    def _check_string(self) -> None:
        """Reject a malformed string literal here, because xDSL's regular expression takes exponential time on one."""
        content = self.input.content
        start = _SPACE.match(content, self.pos).end()  # type: ignore[union-attr]
        if content.startswith('@"', start):  # a symbol in quotes
            start += 1
        if content.startswith('"', start) and _STRING.match(content, start) is None:
            raise ParseError(Span(start, start + 1, self.input), "this string is not closed, or has an unknown escape")


class _Delimited(AbstractContextManager[None]):
    """Context manager for text in brackets, without the cost of a generator."""

    __slots__ = ("_close", "_parser")

    def __init__(self, parser: FastParser, open: str, close: str) -> None:
        """Consume the bracket `open`; `close` is the one to consume at the end of the context."""
        parser.parse_characters(open)
        self._parser = parser
        self._close = close

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Parse the closing delimiter, unless the block has raised an error."""
        if kind is None:
            self._parser.parse_characters(self._close)


class FastParser(Parser):
    """Hot paths of xDSL's parser, reimplemented on tokens that store their text."""

    _blobs: dict[int, bytes]
    """Bytes of the literals that lack digits in the text, as of `ElidedText`."""
    _known_types: dict[str, Any]
    """Builtin types by their text: a program repeats few types many times."""
    _known_maps: dict[str, AffineMap]
    """Affine maps by their text."""

    @property
    def pos(self) -> int:
        """Offset of the current token in the text."""
        start: int = self._parser_state.current_token.start  # type: ignore[attr-defined]
        return start

    def _consume_token(self, expected_kind: Any = None) -> Any:
        """Return the current token, and advance. `expected_kind` is not checked: callers have compared the kind."""
        state = self._parser_state
        token = state.current_token
        state.current_token = state.lexer.lex()
        return token

    def _parse_optional_token(self, expected_kind: Any) -> Any:
        """Consume the current token if it is of the expected kind, as in the base class."""
        state = self._parser_state
        token = state.current_token
        if token.kind is not expected_kind:
            return None
        state.current_token = state.lexer.lex()
        return token

    def parse_optional_unresolved_operand(self) -> Any:
        """Parse `%name`, or `%name#index` for one of several results; return None, with nothing consumed, otherwise."""
        state = self._parser_state
        token: Any = state.current_token
        if token.kind is not MLIRTokenKind.PERCENT_IDENT:
            return None
        following: Any = state.lexer.lex()
        state.current_token = following
        if following.kind is not MLIRTokenKind.HASH_IDENT:
            return FastOperand(token, 0)
        if not following.text[1:].isdecimal():
            self.raise_error("expected the number of a result, as in %value#1", following.span)
        state.current_token = state.lexer.lex()
        return FastOperand(token, int(following.text[1:]))

    def parse_unresolved_operand(self, msg: str = "operand expected") -> Any:
        """Parse `%name` or raise an error with `msg`."""
        operand = self.parse_optional_unresolved_operand()
        if operand is None:
            self.raise_error(msg)
        return operand

    def resolve_operand(self, operand: UnresolvedOperand, type: Any) -> Any:
        """Return the SSA value that an operand names, of the type `type`.

        This is the fast path: the base class handles values that are not defined yet, and reports wrong types.
        """
        values = self.ssa_values.get(operand.operand_name)
        if values is not None and operand.index < len(values):
            value = values[operand.index]
            if value.type is type:  # equal types are mostly one object, from `_known_types`
                return value
        return super().resolve_operand(operand, type)

    def parse_optional_characters(self, text: str) -> str | None:
        """Consume the current token and return `text` if that is its text; else return None."""
        state = self._parser_state
        if state.current_token.text != text:
            return None
        state.current_token = state.lexer.lex()
        return text

    def parse_optional_punctuation(self, punctuation: Any) -> Any:
        """Consume `punctuation` and return it; return None if another token is next."""
        # The kind of the token need not be compared: no identifier or literal has the text of a punctuation.
        return self.parse_optional_characters(punctuation)

    def parse_punctuation(self, punctuation: Any, context_msg: str = "") -> Any:
        """Consume `punctuation` and return it, or raise an error, which ends with `context_msg`."""
        if self.parse_optional_characters(punctuation) is None:
            self.raise_error(f"expected '{punctuation}'{context_msg}")
        return punctuation

    def parse_optional_keyword(self, keyword: str) -> str | None:
        """Consume `keyword` and return it; return None if another token is next."""
        # The kind of the token need not be compared: only an identifier has this text, as a string literal has quotes.
        return self.parse_optional_characters(keyword)

    def delimited(self, start: str, end: str) -> Any:
        """Return a context manager that parses `start` at its beginning, and `end` at its end."""
        return _Delimited(self, start, end)

    def parse_optional_type(self) -> Any:
        """Parse a type; return None, with nothing consumed, if there is none.

        A builtin type, such as `tensor<4xf32>`, is parsed once. Where its text occurs again, the type is looked up in
        `_known_types`, and its tokens are skipped. Other types, such as `!alias` and `(i32) -> i32`, are parsed each
        time.
        """
        state = self._parser_state
        token: Any = state.current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT:
            return super().parse_optional_type()
        # Find the text of the type: its name, with the parameters in `<...>` if these follow it directly.
        content = state.lexer.input.content
        end = token.end
        if content.startswith("<", end):
            body = _TYPE_BODY.match(content, end)
            if body is None:  # parameters whose text may denote another type elsewhere, such as aliases
                return super().parse_optional_type()
            end = body.end()
        text = content[token.start : end]
        known = self._known_types.get(text)
        if known is None:
            known = super().parse_optional_type()
            # Of `tensor <4xf32>`, `text` is only "tensor", which does not denote the type.
            is_whole = not content[end : self.pos].strip()
            if known is not None and is_whole:
                self._known_types[text] = known
        else:
            state.lexer.pos = end  # skips the tokens of the type
            state.current_token = state.lexer.lex()
        return known

    def _parse_dense_literal_type(self) -> Any:
        """Parse the type of a dense constant: a tensor, vector or memref of numbers with a static shape."""
        start = self.pos
        type: Any = self.parse_type()
        element = type.element_type if isinstance(type, TensorType | VectorType | MemRefType) else None
        if not isinstance(element, _DENSE_ELEMENTS):
            self.raise_error(f"a constant is a tensor, vector or memref of numbers, got {type}", start, self.pos)
        if DYNAMIC_INDEX in type.get_shape():
            self.raise_error(f"the shape of a constant is static, got {type}", start, self.pos)
        return type

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> Any:
        """Parse the value and the type of a dense constant, such as `<[1, 2]> : tensor<2xi32>`.

        A splat, one number for all elements, is parsed without creating a list of them. The base class parses constants
        that neither `parse_dense` nor the pattern of a splat matches.
        """
        attribute = parse_dense(self, type, self._blobs)
        if attribute is not None:
            return attribute
        start = self.pos
        scalar = _SPLAT.match(self.lexer.input.content, start)
        if scalar is None:
            return super().parse_dense_int_or_fp_elements_attr(type)
        # A splat: xDSL's parser would create a list of all its elements.
        self.parse_punctuation("<", " in dense attribute")
        element = self._parse_tensor_literal_element()
        self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        return splat(type, element.to_type(self, type.element_type))

    def parse_affine_map(self) -> AffineMap:
        """Parse an affine map; a text that was parsed before is looked up in the cache `_known_maps` instead."""
        state = self._parser_state
        text = _AFFINE_MAP.match(state.lexer.input.content, self.pos)
        known = None if text is None else self._known_maps.get(text[0])
        if text is not None and known is not None:
            state.lexer.pos = text.end()
            state.current_token = state.lexer.lex()
            return known
        map_ = SemiAffineParser(state).parse_affine_map()
        if text is not None and self.pos == text.end():  # the map is the whole text that was matched
            self._known_maps[text[0]] = map_
        return map_

    def parse_affine_set(self) -> AffineSet:
        """Parse an integer set, such as `(d0)[s0] : (d0 >= 0)`, with the parser for semi-affine expressions."""
        return SemiAffineParser(self._parser_state).parse_affine_set()

    def _parse_optional_builtin_attr(self) -> Any:
        """Parse a builtin attribute; return None, with nothing consumed, if there is none.

        The kind of the first token decides which one it is, while xDSL's parser tries one after the other.
        """
        token = self._parser_state.current_token
        kind = token.kind
        if kind is MLIRTokenKind.STRING_LIT:
            return self._parse_optional_string_attr()
        if kind is MLIRTokenKind.L_SQUARE:
            return self._parse_optional_array_attr()
        if kind is MLIRTokenKind.AT_IDENT:
            return self._parse_optional_symref_attr()
        if kind is MLIRTokenKind.L_BRACE:
            return self._parse_optional_builtin_dict_attr()
        if kind in _NUMBER:
            return self._parse_number_attribute()
        if kind is MLIRTokenKind.EXCLAMATION_IDENT or kind is MLIRTokenKind.L_PAREN:
            return self.parse_optional_type()
        if kind is MLIRTokenKind.BARE_IDENT or kind is MLIRTokenKind.BYTES_LIT:
            return super()._parse_optional_builtin_attr()
        return None

    def _parse_number_attribute(self) -> Any:
        """Parse a number with its type, if it has one. Raise a parse error for a minus before the bits of a float."""
        start = self.pos
        attribute = self.parse_optional_builtin_int_or_float_attr()
        if isinstance(attribute, FloatAttr):
            content = self._parser_state.lexer.input.content
            prefix = HEXADECIMAL.match(content, start)
            if prefix is not None and content[start] == "-":
                self.raise_error(MINUS_BEFORE_BITS, start, prefix.end())
        return attribute


_NUMBER = (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT, MLIRTokenKind.MINUS)
"""Kinds of token that a number begins with."""
_DENSE_ELEMENTS = (IntegerType, IndexType, AnyFloat, ComplexType)
"""Element types of constants that `dense<...>` denotes."""
