"""Reads the attributes, types, aliases, locations and resources of program text."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, UnknownLoc, UnregisteredAttr
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.lexer import Input

from pydispatch.errors import CompileError
from pydispatch.ir.core.dense import ELIDED
from pydispatch.ir.core.lexer import FastLexer, FastParser
from pydispatch.ir.core.literals import HEXADECIMAL, ComplexElement, HexElement
from pydispatch.ir.core.locations import NamedLoc, Source
from pydispatch.ir.core.names import FORMER_NAMES
from pydispatch.ir.core.resources import Resources
from pydispatch.suggestions import nearest

_ALIAS = re.compile(r"^[ \t]*([#!][A-Za-z_][\w$]*)[ \t]*=", re.MULTILINE)  # definition of an alias, `#name =`
_UNKNOWN_LOC = UnknownLoc()  # location of an operation for which the text names none
_NAMED = re.compile(r'\(\s*"([^"\\]*)"\s*\)')
"""A location that is a name."""
TYPED = ("hal.device.target", "hal.device.select", "hal.device.alias")
"""Attributes after which older programs write their type."""
_LINE_END = re.compile(r"\s*\n\s*")  # a line break with the indentation around it
_CLOSER = {"<": ">", "(": ")", "[": "]", "{": "}"}  # opening bracket → closing bracket
_PUNCTUATION = re.compile(r'["<>()\[\]{}]|//|->|>=')  # bracket, or start of text whose brackets do not count


@cache
def unregistered(name: str, is_type: bool) -> type[UnregisteredAttr]:
    """Return the class for an unknown attribute or type.

    There is one class per name, so that equal texts give equal attributes.
    """
    return UnregisteredAttr.with_name_and_type(name, is_type)


def _end_of_string(content: str, pos: int) -> int:
    """Return the offset after the quote that ends a string; `pos` is in it. A backslash escapes the next character."""
    while pos < len(content) and content[pos] != '"':
        pos += 2 if content[pos] == "\\" else 1
    return pos + 1


class ProgramAttributeParser(FastParser):
    """Parser of what operations state besides operands: attributes, types and locations. The base of `ProgramParser`.

    The methods override those of xDSL's parser.

    Attributes:
        source: The text, for the locations of errors.
    """

    def __init__(self, ctx: Context, source: Source) -> None:
        """Create a parser at the first token of a text; raise ParseError if this token is malformed."""
        self.source, self._blobs = source, source.blobs
        # Not Parser.__init__, which creates an MLIRLexer.
        AttrParser.__init__(self, ParserState(FastLexer(Input(source.text, source.filename))), ctx)
        # Caches of FastParser, by the text of a type or map.
        self._known_types = {}
        self._known_maps = {}
        # Alias → offset of the value in its definition. None until an alias is used before its definition.
        self._alias_positions: dict[str, int] | None = None
        self._open_aliases: list[str] = []  # names of the aliases being parsed, outermost first
        self._defined_aliases: set[str] = set()  # names of the aliases whose definitions precede the current token
        self._resources = Resources(source.text, self._blobs)

    # --- locations: operations have those in this text; of `loc(...)` in the text only names are used ---

    def parse_optional_location(self) -> LocationAttr | None:
        """Parse an optional `loc(...)`: return a NamedLoc for `loc("name")`, `_UNKNOWN_LOC` for any other content.

        Return None, with nothing consumed, if no `loc(` is next.
        """
        if self._current_token.text != "loc":
            return None
        content = self.lexer.input.content
        open = self._current_token.span.end
        if not isinstance(content, str) or content[open : open + 1] != "(":
            return None
        end = self._skip_balanced(open + 1, ")")
        self._resume_from(end)
        named = _NAMED.fullmatch(content, open, end)
        return _UNKNOWN_LOC if named is None else NamedLoc(named[1])  # type: ignore[return-value]

    def _skip_balanced(self, pos: int, close: str) -> int:  # noqa: RET503
        """Return the offset after the closing bracket that matches the open one before `pos`.

        Brackets in strings and comments do not count. For `loc("a)"(#b)) {` and the offset after the first `(`, the
        result is the offset after the last `)`.

        Args:
            pos: Offset after the open bracket.
            close: The closing bracket of this kind, such as ")".

        Raises:
            ParseError: The text ends before the bracket, or a closing bracket of another kind comes first.
        """
        content = self.lexer.input.content
        assert isinstance(content, str)
        start = pos
        nesting = [close]  # closing brackets of the open brackets, outermost first
        while (match := _PUNCTUATION.search(content, pos)) is not None:
            token, pos = match.group(), match.end()
            if token == '"':
                pos = _end_of_string(content, pos)
            elif token == "//":
                end = content.find("\n", pos)
                pos = len(content) if end < 0 else end
            elif token in _CLOSER:
                nesting.append(_CLOSER[token])
            elif token not in ("->", ">="):  # these two are no brackets; any other token is a closing bracket
                if token != nesting.pop():
                    self.raise_error(f"'{token}' does not match any open bracket here", pos - 1, pos)
                if not nesting:
                    return pos
        self.raise_error(f"missing '{close}'", start - 1, start)

    # --- attributes ---

    def parse_optional_attribute(self) -> Attribute | None:
        """Parse an attribute, and skip the type `: !hal.device` that some releases of IREE write after it."""
        attribute = super().parse_optional_attribute()
        if attribute is not None and attribute.name in TYPED and self._current_token.text == ":":
            self._skip_device_type()
        return attribute

    def _skip_device_type(self) -> None:
        """Skip `: !hal.device...` if it comes next; another `:` is left for the operation.

        The current token is `:`. The text after it is inspected, as the parser cannot return to a consumed token.
        """
        content = self.lexer.input.content
        end = self._current_token.span.end
        following = str(content[end : end + 32]).lstrip()  # characters for white space and the name of the type
        if following.startswith("!hal.device"):
            self._consume_token()
            self.parse_type()

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        """Return the type or attribute of an alias, which may be defined later, or parse one of a dialect."""
        if "." not in attr_or_dialect_name and self._current_token.text != "<":
            alias = ("!" if is_type else "#") + attr_or_dialect_name
            attribute = self.attribute_aliases.get(alias)
            return self._parse_later_alias(alias) if attribute is None else attribute
        return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)  # type: ignore[call-overload]

    def _parse_later_alias(self, alias: str) -> Attribute:
        """Parse the definition of an alias that is used before its definition, and return the attribute or type, which
        is also stored in `attribute_aliases` for further uses.

        In `module attributes {a = #x} {}` with `#x = 4 : i32` below it, the current token is the `}` after `#x`. The
        parser continues at the offset of `4`, parses the value, and returns to the `}`.

        Raises:
            CompileError: The text does not define the alias.
            ParseError: The value contains the alias itself, as in `#a = [#b]` and `#b = [#a]`.
        """
        resume_at = self._current_token.span.start
        start = str(self.lexer.input.content).rfind(alias, 0, resume_at)  # the use, the token before the current one
        definition = self._alias_definition(alias, start)
        if alias in self._open_aliases:
            self.raise_error(f"alias '{alias}' is defined by itself", start, start + len(alias))
        self._open_aliases.append(alias)
        self._resume_from(definition)
        value = self.parse_attribute()
        self._open_aliases.pop()
        self._resume_from(resume_at)
        self.attribute_aliases[alias] = value
        return value

    def _alias_definition(self, alias: str, start: int) -> int:
        """Return the offset of an alias's value in its definition; raise CompileError, at the use at `start`, if the
        text does not define it. The offsets of all definitions are collected at the first call."""
        if self._alias_positions is None:
            content = str(self.lexer.input.content)
            self._alias_positions = {m.group(1): m.end() for m in _ALIAS.finditer(content)}
        if alias not in self._alias_positions:
            known = [*self.attribute_aliases, *self._alias_positions]
            note = nearest(alias, known, most=1) or f"define it at the top: {alias} = ..."
            raise CompileError(f"alias '{alias}' is not defined", self.source.locate(start, start + len(alias)), note)
        return self._alias_positions[alias]

    def _parse_alias_def(self) -> None:
        """Parse the definition of an alias; raise a parse error for a second definition."""
        token = self._current_token
        self._consume_token()
        self.parse_punctuation("=", " after the name of an alias")
        # `attribute_aliases` also has the aliases that earlier uses have read ahead, in _parse_later_alias().
        if token.text in self._defined_aliases:
            self.raise_error(f"alias '{token.text}' is defined twice", token.span)
        self._defined_aliases.add(token.text)
        self.attribute_aliases[token.text] = self.parse_attribute()
        if self._current_token.text == ":":  # the type of a dialect attribute, which xDSL's attributes do not have
            self._consume_token()
            self.parse_type()

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: int | None
    ) -> Any:
        """Parse an attribute or type of a dialect; an unknown one becomes an attribute that stores its text.

        MLIR has two forms: the pretty one, `#dialect.name<...>`, and the opaque one, `#dialect<name ...>`. The stored
        text of `#foo.bar<[1, 2]>` is `[1, 2]`. The digits of long hexadecimal literals, which the parsed text lacks
        (`"0x"`), are restored in it, since it is printed as it is.

        Args:
            attr_name: `dialect.name`; may be a former name.
            is_type: Whether it is a type, `!dialect.name`, else an attribute.
            is_opaque: Whether the text has the opaque form.
            starting_opaque_pos: Offset after the name in the opaque form; None in the pretty form.
        """
        attr_name = FORMER_NAMES.get(attr_name, attr_name)
        if "." in attr_name:
            known = self.ctx.get_optional_type(attr_name) if is_type else self.ctx.get_optional_attr(attr_name)
            if known is None:  # the base class parses registered names only
                register = self.ctx._loaded_types if is_type else self.ctx._loaded_attrs
                register[attr_name] = unregistered(attr_name, is_type)  # type: ignore[assignment]
        attribute = super()._parse_dialect_type_or_attribute_body(attr_name, is_type, is_opaque, starting_opaque_pos)
        # In the pretty form `_parse_dialect_symbol_body` has restored the digits.
        if starting_opaque_pos is None or not isinstance(attribute, UnregisteredAttr):
            return attribute
        end = starting_opaque_pos + len(attribute.value.data)
        return type(attribute)(
            attribute.attr_name, is_type, is_opaque, self.source.with_digits(starting_opaque_pos, end)
        )

    def _parse_dialect_symbol_body(self) -> str:
        """Parse the body of an unknown attribute or type, and return its text on one line.

        Line ends become spaces: the printer indents lines, and the indentation would be added to the text when it is
        parsed again. A body with a comment keeps its line ends.
        """
        start = self._current_token.span.end
        body = super()._parse_dialect_symbol_body()
        # The parsed text lacks the digits of long hexadecimal literals: it has `"0x"` for `"0x3F80...00"`.
        # `with_digits` returns the text between two offsets with these digits.
        body = self.source.with_digits(start, start + len(body))
        return body if "//" in body else _LINE_END.sub(" ", body)  # the end of its line ends a comment

    def _raw_scan_balanced(self, pos: int) -> int:
        """Return the offset of the `>` that matches the `<` before `pos`."""
        return self._skip_balanced(pos, ">") - 1

    def _parse_tensor_literal_element(self) -> Any:
        """Parse an element of a tensor literal, also a hexadecimal (0x7F) or a complex one, (1.0, 2.0)."""
        span = self._current_token.span
        if self.parse_optional_punctuation("(") is not None:
            real = self._parse_tensor_literal_element()
            self.parse_punctuation(",", " in a complex number")
            parts: Any = (real, self._parse_tensor_literal_element())
            self.parse_punctuation(")", " in a complex number")
            return ComplexElement(is_negative=False, value=parts, span=span)
        element = super()._parse_tensor_literal_element()
        if HEXADECIMAL.match(element.span.text) is not None:
            return HexElement(element.is_negative, element.value, element.span)
        return element

    # --- resources ---

    def _parse_builtin_dense_resource_attr(self) -> Any:
        """Parse `dense_resource<key> : type` after its keyword, and return the resource as a dense constant.

        A resource is a constant whose bytes are in the block `{-# dialect_resources: ... #-}` at the end of the text.

        Raises:
            CompileError: The block has no resource of this name.
        """
        start = self.pos
        self.parse_punctuation("<", " in dense_resource")
        key = self.parse_identifier_or_str_literal(" for the name of a resource")
        self.parse_punctuation(">", " in dense_resource")
        self.parse_punctuation(":", " in dense_resource")
        type = self._parse_dense_literal_type()
        data = self._resources.get(key)
        if data is None:
            note = "print the program without eliding resources, so that it ends with {-# dialect_resources ... #-}"
            if key == ELIDED:  # the name that printers write in place of the elements of a long constant
                note = "write the program with all its constants: pydispatch compile --compile-to=PHASE -o FILE"
            location = self.source.locate(start, start + len(key) + 2)  # `<key>`, with the two brackets
            raise CompileError(f"the data of resource '{key}' is not in this text", location, note)
        return self._resources.constant(data, type, self, start)

    def _parse_file_metadata_dictionary(self) -> None:
        """Skip the dictionary `{-# ... #-}`, whose resources `Resources` finds in the text."""
        content = str(self.lexer.input.content)
        start = self._current_token.span.start
        end = content.find("#-}", start)
        if end < 0:
            self.raise_error("missing '#-}'", start, start + 3)
        self._resume_from(end + 3)
