"""Parses WGSL: `read` returns the declarations of a module. Function bodies are not parsed: wgpu checks those."""

from __future__ import annotations

from collections.abc import Iterable

from pydispatch.errors import ArtifactError
from pydispatch.formats.wgsl.lex import WgslToken, decode, location, tokens_of
from pydispatch.formats.wgsl.module import Attribute, Declaration, WgslMember, WgslModule
from pydispatch.formats.wgsl.types import type_text

MAX_NESTING = 1000
"""Largest depth of a syntax tree: wgpu 0.32 ends the process at some 4,000."""
_DIRECTIVES = ("enable", "requires", "diagnostic")
"""First words of directives, which precede all declarations."""
_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, (")", "]", "}")


def is_wgsl(data: bytes) -> bool:
    """Return whether bytes may be WGSL: UTF-8 text with the keyword of a function or another declaration."""
    try:
        text = bytes(data).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "\0" not in text and any(word in text for word in ("fn ", "struct ", "const ", "override ", "alias "))


def read(data: bytes | memoryview, where: str) -> WgslModule:
    """Parse a WGSL module; raise ArtifactError with line and column if its declarations are malformed. `where` names it
    in messages."""
    text = decode(data, where)
    tokens = tokens_of(text, where)
    _check_nesting(text, tokens, where)
    return _WgslReader(text, tokens, where).parse_module()


def _check_nesting(text: str, tokens: list[WgslToken], where: str) -> None:
    """Raise ArtifactError for a syntax tree deeper than MAX_NESTING, because drivers traverse it recursively.

    The depth is estimated from the tokens. Each open bracket, each operator or other mark of a statement, and each
    `else` adds a level. A `;`, a `,` or the end of a block returns to the level directly inside of the bracket around
    it. In

        fn f() { x = a + b + c; y = 0; }

    the body is at level 1, `=` and each `+` add one up to level 4, and `y` is at level 1 again. After a block that
    `else` follows, the level is the one before the block, and `else` adds one to it: in a syntax tree, the second `if`
    of `if a {} else if b {} else {}` is inside of the first one.
    """
    outer: list[int] = []  # for each open bracket, the level of the code around it
    level = 0
    for index, token in enumerate(tokens):
        word = token.text
        if word in _OPEN:
            outer.append(level)
            level += 1
        elif word in _CLOSE:
            level = outer.pop() if outer else 0  # an expression such as `f(a) + b` continues after its bracket
            following = tokens[index + 1].text if index + 1 < len(tokens) else ""
            if word == "}" and following != "else":
                level = outer[-1] + 1 if outer else 0
        elif word in (";", ","):
            level = outer[-1] + 1 if outer else 0
        elif token.kind == "mark" or word == "else":
            level += 1
        if level > MAX_NESTING:
            raise ArtifactError(
                f"{location(text, token.start, where)}: nested more than {MAX_NESTING} levels deep (brackets, "
                "operators of one expression and `else`), which may end a driver's stack; name "
                "parts of it with `let` or `const`"
            )


class _WgslReader:
    """Parser of the declarations of a module: `parse_module` is called once and returns them.

    Methods `_parse_*` parse a construct at `at`, and move `at` behind it.

    Attributes:
        text: Text of the module.
        tokens: Its tokens.
        where: Name of the module in messages.
        at: Index of the token to read next.
    """

    def __init__(self, text: str, tokens: list[WgslToken], where: str) -> None:
        """Begin at the first token. For the arguments see the attributes of the class."""
        self.text, self.tokens, self.where, self.at = text, tokens, where, 0

    def parse_module(self) -> WgslModule:
        """Parse the whole module: directives such as `enable f16;`, then declarations.

        Raises ArtifactError for invalid text, and for a name that is declared twice.
        """
        directive_names = self._parse_directives()
        first_declaration_token = self.at
        declarations: list[Declaration] = []
        while self.at < len(self.tokens):
            if self._peek() == ";":
                self.at += 1
            else:
                declarations.append(self._parse_declaration())
        return WgslModule(
            text=self.text,
            where=self.where,
            tokens=self.tokens,
            enables=tuple(directive_names["enable"]),
            requires=tuple(directive_names["requires"]),
            first_declaration_token=first_declaration_token,
            declarations=tuple(declarations),
            named=self._by_name(declarations),
        )

    def _parse_directives(self) -> dict[str, list[str]]:
        """Parse the directives; return the names after each keyword: `enable f16;` adds f16 to those of enable."""
        names: dict[str, list[str]] = {"enable": [], "requires": [], "diagnostic": []}
        while self._peek() in _DIRECTIVES:
            end = self._index_of((";",))
            names[self._peek()] += [t.text for t in self.tokens[self.at + 1 : end] if t.kind == "name"]
            self.at = end + 1
        return names

    def _by_name(self, declarations: Iterable[Declaration]) -> dict[str, Declaration]:
        """Return the declarations by name, without those that have none (const_assert)."""
        named: dict[str, Declaration] = {}
        for declaration in declarations:
            if declaration.name in named:
                raise self._error(f"'{declaration.name}' is declared twice", declaration.first)
            if declaration.name:
                named[declaration.name] = declaration
        return named

    def _parse_declaration(self) -> Declaration:
        """Parse one declaration with its attributes, up to its `;` or closing brace."""
        first = self.at
        attributes = self._parse_attributes()
        kind = self._peek()
        if kind == "fn":
            return self._parse_function(first, attributes)
        if kind == "struct":
            return self._parse_struct(first)
        if kind == "const_assert":
            self.at = self._index_of((";",)) + 1
            return Declaration(kind, name="", first=first, end=self.at)
        if kind not in ("var", "override", "const", "alias"):
            raise self._error(f"expected a declaration, got '{kind}'" if kind else "expected a declaration")
        return self._parse_variable(kind, first, attributes)

    def _parse_variable(self, kind: str, first: int, attributes: tuple[Attribute, ...]) -> Declaration:
        """Parse `kind<template> name: type = value;`, where the template, the type and the value are optional.

        Args:
            kind: The keyword at the cursor: var, override, const or alias; an alias has a type after its `=`.
            first: Index of the declaration's first token, before its attributes.
            attributes: The attributes.
        """
        # The keyword, the template of a var such as <storage, read_write>, the name and the type.
        self.at += 1
        template: tuple[str, ...] = ()
        if kind == "var" and self._peek() == "<":
            close = self._index_of((">",))
            template = tuple(t.text for t in self.tokens[self.at + 1 : close] if t.text != ",")
            self.at = close + 1
        name = self._parse_name()
        type_ = ""
        if self._peek() == ":":
            self.at += 1
            type_ = self._parse_type(ends=("=", ";"))
        # The value, which is not parsed.
        end = self._index_of((";",))
        body = 0  # index of the value's first token; 0 for no value
        if self._peek() == "=":
            body = self.at + 1
            if kind == "alias":
                type_ = type_text(self.tokens[body:end])
        self.at = end + 1
        return Declaration(
            kind=kind,
            name=name,
            first=first,
            end=self.at,
            attributes=attributes,
            type=type_,
            template=template,
            body=body,
        )

    def _parse_struct(self, first: int) -> Declaration:
        """Parse the members of a struct. `first` is the index of the declaration's first token."""
        self.at += 1
        name = self._parse_name()
        members = self._parse_fields("{")
        return Declaration("struct", name, first, self.at, members=members)

    def _parse_function(self, first: int, attributes: tuple[Attribute, ...]) -> Declaration:
        """Parse the signature of a function, `fn name(parameters) -> result { ... }`, and skip its body.

        `first` is the index of the declaration's first token, before its attributes.
        """
        self.at += 1
        name = self._parse_name()
        parameters = self._parse_fields("(")
        result = ""
        if self._peek() == "->":
            self.at += 1
            self._parse_attributes()  # of the result, such as @builtin(position): not used
            result = self._parse_type(ends=("{",))
        body = self.at
        self.at = self._closing_token("{") + 1
        return Declaration(
            kind="fn",
            name=name,
            first=first,
            end=self.at,
            attributes=attributes,
            type=result,
            members=parameters,
            body=body,
        )

    def _parse_fields(self, bracket: str) -> tuple[WgslMember, ...]:
        """Parse the members of a struct or the parameters of a function, from their opening `bracket` to the closing
        one.
        """
        close = self._closing_token(bracket)
        self.at += 1
        fields: list[WgslMember] = []
        while self.at < close:
            attributes = self._parse_attributes()
            name = self._parse_name()
            self._expect(":")
            fields.append(WgslMember(name, self._parse_type(ends=(",", _OPEN[bracket])), attributes))
            if self._peek() == ",":
                self.at += 1
        self.at = close + 1
        return tuple(fields)

    def _parse_attributes(self) -> tuple[Attribute, ...]:
        """Parse a sequence of attributes, which may be empty.

        `@workgroup_size(max(TILE, 2), 1,)` becomes Attribute("workgroup_size", ("max(TILE,2)", "1")): arguments are
        texts without spaces, and a comma at the end adds none.
        """
        attributes: list[Attribute] = []
        while self._peek() == "@":
            self.at += 1
            name = self._parse_name()
            arguments: list[str] = []
            if self._peek() == "(":
                close = self._closing_token("(")
                while self.at < close:  # at the opening parenthesis or a comma
                    self.at += 1
                    end = self._index_of((",", ")"))
                    arguments.append("".join(token.text for token in self.tokens[self.at : end]))
                    self.at = end
                self.at = close + 1
            attributes.append(Attribute(name, tuple(argument for argument in arguments if argument)))
        return tuple(attributes)

    # Tokens

    def _peek(self) -> str:
        """Return the text of the next token, without reading it; "" at the end."""
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def _expect(self, mark: str) -> None:
        """Read a token; raise ArtifactError if it is not `mark`."""
        if self._peek() != mark:
            raise self._error(f"expected '{mark}', got '{self._peek()}'")
        self.at += 1

    def _parse_name(self) -> str:
        """Parse a name, and return it."""
        if self.at >= len(self.tokens) or self.tokens[self.at].kind != "name":
            raise self._error(f"expected a name, got '{self._peek()}'")
        self.at += 1
        return self.tokens[self.at - 1].text

    def _parse_type(self, ends: tuple[str, ...]) -> str:
        """Parse a type, and return its canonical spelling (`type_text`). It ends before one of the tokens `ends`."""
        end = self._index_of(ends, angles=True)
        type_ = type_text(self.tokens[self.at : end])
        if not type_:
            raise self._error("expected a type")
        self.at = end
        return type_

    def _closing_token(self, mark: str) -> int:
        """Return the index of the token that closes the bracket `mark`, which must be the next token.

        The cursor does not move.
        """
        if self._peek() != mark:
            raise self._error(f"expected '{mark}', got '{self._peek()}'")
        start, self.at = self.at, self.at + 1
        end = self._index_of((_OPEN[mark],))
        self.at = start
        return end

    def _index_of(self, ends: tuple[str, ...], angles: bool = False) -> int:
        """Return the index of the next token of `ends` that is not nested in brackets. The cursor does not move.

        In `f(a, b), c;` at the cursor, the next `,` is the second one. Raises ArtifactError for a closing bracket
        without an opening one, and if there is no such token.

        angles: whether `<` and `>` are brackets too, as in a type.
        """
        expected: list[str] = []  # the closing brackets of those that are open
        for i in range(self.at, len(self.tokens)):
            text = self.tokens[i].text
            if not expected and text in ends:
                return i
            if text in _OPEN:
                expected.append(_OPEN[text])
            elif angles and text == "<":
                expected.append(">")
            elif expected and text == expected[-1]:
                expected.pop()
            elif text in _CLOSE:
                raise self._error(f"'{text}' where {_listed(expected[-1:] or list(ends))} was expected", i)
        raise self._error(f"{_listed(list(ends))} is missing at the end of the text", len(self.tokens))

    def _error(self, problem: str, at: int | None = None) -> ArtifactError:
        """Return an error at a token: the one with index `at`, or the next to be read."""
        at = self.at if at is None else at
        start = self.tokens[at].start if at < len(self.tokens) else len(self.text)
        return ArtifactError(f"{location(self.text, start, self.where)}: {problem}")


def _listed(marks: list[str]) -> str:
    """Return the expected tokens as text for messages: `';' or '{'`."""
    return " or ".join(f"'{mark}'" for mark in marks)
