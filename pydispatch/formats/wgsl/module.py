"""WGSL modules as data: their declarations, and the values of their constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from pydispatch.formats.wgsl.constants import evaluate
from pydispatch.formats.wgsl.lex import WgslToken, location, tokens_of

_MAX_CONSTANT_DEPTH = 64
"""Length of a chain of constants, each defined by the next, that is evaluated (recursively); the value of a constant
with a longer chain counts as unknown."""


class UniformBinding(NamedTuple):
    """Location of a uniform buffer in a generated shader: index of the bind group, and of the binding in it."""

    group: int
    binding: int


@dataclass(frozen=True)
class Attribute:
    """Attribute `@name(arguments)`; each argument is a text: `@workgroup_size(64, 1)` has ("64", "1")."""

    name: str
    arguments: tuple[str, ...] = ()


class WgslMember(NamedTuple):
    """Member of a struct, or parameter of a function; `type` is in the form of `type_text`."""

    name: str
    type: str
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class Declaration:
    """Declaration at the scope of a WGSL module, such as a function, a variable or a structure.

    Attributes:
        kind: "struct", "alias", "var", "override", "const", "fn" or "const_assert".
        name: Name that it declares; "" for a const_assert.
        first: Index of its first token in the module, that of an attribute if it has one.
        end: Index after its last token.
        attributes: Attributes before the declaration.
        type: Type of a variable, override or alias, or result type of a function, in the form of `type_text`;
            "" without one.
        template: Template arguments of a variable, as far as they are stated: address space and access mode.
        members: A struct's members, or a function's parameters.
        body: Index of the token of a function's opening brace; for others of the token after `=`, 0 without one.
    """

    kind: str
    name: str
    first: int
    end: int
    attributes: tuple[Attribute, ...] = ()
    type: str = ""
    template: tuple[str, ...] = ()
    members: tuple[WgslMember, ...] = ()
    body: int = 0

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute of this name; None if the declaration has none."""
        return next((attribute for attribute in self.attributes if attribute.name == name), None)

    @property
    def has_value(self) -> bool:
        """Return whether a `=` and a value follow the name of a variable, constant or override."""
        return self.body != 0

    @property
    def space(self) -> str:
        """Return the address space of a variable; "private", WGSL's default, if none is stated."""
        return self.template[0] if self.template else "private"

    @property
    def access(self) -> str:
        """Return the access mode of a variable: "read", "write" or "read_write"; WGSL's default if none is stated."""
        if len(self.template) > 1:
            return self.template[1]
        return "read" if self.space in ("storage", "uniform") else "read_write"


CONTEXT_DEPENDENT = ("builtin", "diagnostic", "interpolate")
"""Attributes whose arguments are words of WGSL, such as `position`. A module may declare the same names for others."""


@dataclass(frozen=True)
class WgslModule:
    """WGSL module as its reader returns it: directives and declarations, which refer to tokens by index.

    Attributes:
        text: Text of the module.
        where: Name of the module for messages.
        tokens: Tokens of the text; declarations refer to them by index.
        enables: Names in `enable` directives.
        requires: Names in `requires` directives.
        first_declaration_token: Index of the token where declarations begin, after the directives.
        declarations: Declarations in order.
        named: Declarations by name.
        values: Values of overrides by name, None for an unknown value: see `with_overrides`.
    """

    text: str
    where: str
    tokens: Sequence[WgslToken]
    enables: tuple[str, ...]
    requires: tuple[str, ...]
    first_declaration_token: int
    declarations: tuple[Declaration, ...]
    named: Mapping[str, Declaration] = field(default_factory=dict)
    values: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def directives(self) -> str:
        """The text before the declarations, with directives such as `enable f16;`."""
        first = self.first_declaration_token
        return self.text[: self.tokens[first].start] if first else ""

    def unused_prefix(self, word: str) -> str:
        """Return a prefix that no name of the module starts with: `word_`, or `word0_` and so on."""
        prefix, attempt = f"{word}_", 0
        while any(token.text.startswith(prefix) for token in self.tokens):
            prefix, attempt = f"{word}{attempt}_", attempt + 1
        return prefix

    @cached_property
    def entry_points(self) -> list[Declaration]:
        """The functions with `@compute`."""
        return [d for d in self.declarations if d.kind == "fn" and d.attribute("compute") is not None]

    @cached_property
    def other_stages(self) -> list[Declaration]:
        """The entry points that are not compute shaders."""
        return [d for d in self.declarations if d.kind == "fn" and (d.attribute("vertex") or d.attribute("fragment"))]

    @cached_property
    def functions(self) -> list[Declaration]:
        """Return the functions that are not entry points."""
        stages = ("compute", "vertex", "fragment")
        return [d for d in self.declarations if d.kind == "fn" and not any(d.attribute(stage) for stage in stages)]

    @cached_property
    def overrides(self) -> list[Declaration]:
        """The `override` constants, whose values are set when a pipeline is made."""
        return [d for d in self.declarations if d.kind == "override"]

    def location(self, declaration: Declaration) -> str:
        """Return file, line and column of a declaration, for messages."""
        return location(self.text, self.tokens[declaration.first].start, self.where)

    def entry(self, name: str) -> Declaration | None:
        """Return the entry point of this name; None if there is none."""
        return next((d for d in self.entry_points if d.name == name), None)

    def identifiers(self, declaration: Declaration) -> Iterator[int]:
        """Yield the indices of the tokens in a declaration that may be names of declarations, its own included.

        Names of attributes, members after a dot, and the arguments of attributes in `CONTEXT_DEPENDENT`, such as
        `position` in `@builtin(position)`, are none.
        """
        is_in_arguments = False  # whether the token is among the arguments of such an attribute
        previous = ""  # text of the token before
        for index in range(declaration.first, declaration.end):
            token = self.tokens[index]
            if previous == "@" and token.text in CONTEXT_DEPENDENT:
                is_in_arguments = True
            elif is_in_arguments and token.text == ")":
                is_in_arguments = False
            elif token.kind == "name" and not is_in_arguments and previous not in (".", "@"):
                yield index
            previous = token.text

    def mentioned(self, declaration: Declaration) -> list[Declaration]:
        """Return the other declarations whose names occur in a declaration.

        The result is conservative: a local name that shadows a declaration counts as well.
        """
        names = dict.fromkeys(self.tokens[index].text for index in self.identifiers(declaration))
        return [self.named[name] for name in names if name in self.named and self.named[name] is not declaration]

    def reached(self, roots: Iterable[Declaration]) -> list[Declaration]:
        """Return `roots` and the declarations that they use, directly or not, in the order of the text."""
        reached: dict[str, Declaration] = {}
        worklist = list(roots)
        while worklist:
            here = worklist.pop()
            if here.name not in reached:
                reached[here.name] = here
                worklist += self.mentioned(here)
        return sorted(reached.values(), key=lambda d: d.first)

    def source(self, declaration: Declaration) -> str:
        """Return the text of a declaration."""
        return self.text[self.tokens[declaration.first].start : self.tokens[declaration.end - 1].end]

    def with_overrides(self, values: Mapping[str, float | None]) -> WgslModule:
        """Return the module with these values of its overrides; None stands for an unknown value."""
        return replace(self, values=values)

    def number(self, declaration: Declaration | WgslMember, name: str) -> int | None:
        """Return the value of the only argument of an attribute, such as 2 for `@binding(FIRST + 1)`.

        Return None without an attribute of this name, or if its value is not known.
        """
        attribute = next((attribute for attribute in declaration.attributes if attribute.name == name), None)
        if attribute is None or len(attribute.arguments) != 1:
            return None
        return self.constant(attribute.arguments[0])

    def constant(self, text: str, depth: int = 0) -> int | None:
        """Return the value of a constant integer expression; None if it is not known.

        depth: number of constants that are being evaluated, each defined by the next; it is limited.
        """
        if depth > _MAX_CONSTANT_DEPTH:
            return None
        return evaluate(tokens_of(text, self.where), lambda name: self._integer_named(name, depth + 1))

    def _integer_named(self, name: str, depth: int) -> int | None:
        """Return the integer value of the constant or override with a name; None if it is not known.

        depth: as for `constant`.
        """
        if name in self._known:
            return self._known[name]
        self._known[name] = None  # ends the recursion if an invalid module defines the constant by itself
        declaration = self.named.get(name)
        if name in self.values:  # an override that the pipeline sets
            value = self.values[name]
            if value is not None and value == int(value):
                self._known[name] = int(value)
        elif declaration is not None and declaration.kind in ("const", "override") and declaration.body:
            text = " ".join(token.text for token in self.tokens[declaration.body : declaration.end - 1])
            self._known[name] = self.constant(text, depth)
        return self._known[name]

    @cached_property
    def _known(self) -> dict[str, int | None]:
        """The cache of values of constants by name; None for an unknown value."""
        return {}
