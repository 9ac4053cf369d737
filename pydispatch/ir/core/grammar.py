"""The language of assembly formats: xDSL's, with `oilist`, directives known by name, and errors that help.

`oilist(`a` `(` $x `)` | `b` $y)` is MLIR's list of clauses that may be given in any order, each at most once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import AttrSizedSegments, IRDLOperation, OpDef, ParsePropInAttrDict
from xdsl.irdl.declarative_assembly_format import (
    AttrDictDirective,
    AttributeVariable,
    FormatDirective,
    KeywordDirective,
    ParsingState,
    PrintingState,
    PunctuationDirective,
    TypedAttributeVariable,
    UniqueBaseAttributeVariable,
    WhitespaceDirective,
)
from xdsl.irdl.declarative_assembly_format_parser import FormatParser
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.core import directives
from pydispatch.ir.core.enumeration import Enumeration
from pydispatch.ir.core.names import FORMER_ATTRIBUTES
from pydispatch.ir.core.syntax import parse_attr_of

_WANTED: dict[type[Attribute], str] = {
    SymbolRefAttr: "a symbol such as @name",
    StringAttr: 'text such as "name"',
    ArrayAttr: "a list such as [1, 2]",
    DictionaryAttr: "a dictionary such as {key = 1}",
    AffineMapAttr: "an affine map such as affine_map<(i, j) -> (j, i)>",
    DenseArrayBase: "a list such as array<i64: 1, 2>",
}
"""Class of an attribute → what an error says that it expects."""
_LITERALS = (KeywordDirective, PunctuationDirective, WhitespaceDirective)
"""Directives that print fixed text. A clause of `oilist` is printed only if another of its directives has a value."""


@dataclass(frozen=True)
class AttrDict(AttrDictDirective):
    """Directive for the attribute dictionary, in which older releases of the IREE compiler also write properties.

    The base class stores the names of the operation's properties in `expected_properties`, the names that are not
    printed in `reserved_attr_names`, and in `with_keyword` whether the word `attributes` precedes the dictionary.

    In `{nan_mode = IGNORE, pyd.name = "x"}` of an operation with the property `nan_mode`, the first entry sets the
    property, and the second one is an attribute.

    Attributes:
        properties_in_dict: Names of the properties that have no other syntax and are printed here, as an ordered set.
        short_forms: Name of a property whose values are enumerations → their class. Such a value may also be written as
            a keyword, such as IGNORE above.
    """

    properties_in_dict: dict[str, None]
    short_forms: dict[str, type[Enumeration]]

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a dictionary: an entry with the name of a property sets it, and any other entry is an attribute.

        Raise a parse error for a property that the text before the dictionary has set.
        """
        if self.with_keyword and parser.parse_optional_keyword("attributes") is None:
            return
        start = parser.pos
        for key, value in self._parse_entries(parser).items():
            name = FORMER_ATTRIBUTES.get(key, key)  # older releases: an attribute that is a renamed property today
            if name not in self.expected_properties:  # not a property of the operation
                state.attributes[key] = value
            elif name in state.properties:  # the syntax before the dictionary has set it
                parser.raise_error(f"'{name}' of '{state.op_type.name}' is given twice", start, parser.pos)
            else:
                state.properties[name] = value

    def _parse_entries(self, parser: Parser) -> dict[str, Attribute]:
        """Parse the optional dictionary `{...}`, and return its entries by name.

        A value is an attribute. That of a property in `short_forms` may also be a keyword, which MLIR's dictionaries
        do not have.
        """
        if not self.short_forms:  # plain MLIR syntax
            return parser.parse_optional_attr_dict()
        entries: dict[str, Attribute] = {}

        def parse_entry() -> None:
            """Parse one entry of the dictionary: `name`, `name = attribute`, or `name = keyword` of an enumeration."""
            start = parser.pos
            name = parser.parse_optional_identifier_or_str_literal()
            if name is None or name in entries:
                end = max(parser.pos, start + 1)  # one character is marked if no name was read
                parser.raise_error("expected the name of another attribute", start, end)
            if parser.parse_optional_punctuation("=") is None:
                entries[name] = UnitAttr()
            else:
                enumeration = self.short_forms.get(name)
                entries[name] = parser.parse_attribute() if enumeration is None else enumeration.parse_short(parser)

        parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, parse_entry, " in attribute dictionary")
        return entries

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the properties of `properties_in_dict`, then the attributes; nothing if the operation has none.

        With `with_keyword`, print `attributes` before the dictionary. Leave out the names in `reserved_attr_names`.
        """
        entries = op.attributes
        if self.properties_in_dict:
            in_dict = {name: op.properties[name] for name in self.properties_in_dict if name in op.properties}
            entries = in_dict | entries
        if printer.print_op_attributes(
            entries, reserved_attr_names=self.reserved_attr_names, print_keyword=self.with_keyword
        ):
            directives.request_space(state)


@dataclass(frozen=True)
class Punctuation(PunctuationDirective):
    """Punctuation directive whose error message names the operation if the punctuation is missing."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Consume the punctuation, or raise an error that names the operation."""
        if parser.parse_optional_punctuation(self.punctuation) is None:
            parser.raise_error(f"expected '{self.punctuation}' in '{state.op_type.name}'")


@dataclass(frozen=True)
class Keyword(KeywordDirective):
    """Keyword directive whose error message names the operation if the keyword is missing."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Consume the keyword, or raise an error that names the operation."""
        if parser.parse_optional_keyword(self.keyword) is None:
            parser.raise_error(f"expected '{self.keyword}' in '{state.op_type.name}'")


@dataclass(frozen=True)
class CheckedAttribute(AttributeVariable):
    """Directive for an attribute of one class; another attribute is a parse error at its location.

    For a property of the class ArrayAttr, the text `[1, 2]` is parsed, and `"a"` raises the error "expected a list such
    as [1, 2]".

    Attributes:
        base: The class, a key of `_WANTED`.
    """

    base: type[Attribute]

    def parse_attr(self, parser: Parser) -> Attribute | None:
        """Parse an attribute of the class that the property requires; return None if it is optional and absent."""
        start = parser.pos
        # Where an optional string is absent, the next token may begin another attribute, so that only a string literal
        # may be consumed. Where an optional attribute of another class is absent, formats have a token next that begins
        # no attribute: it is enough that `parse_optional_attribute` returns None.
        if self.is_optional and self.base is StringAttr:
            text = parser.parse_optional_str_literal()
            return None if text is None else StringAttr(text)
        value = parser.parse_optional_attribute()
        if not isinstance(value, self.base) and not (value is None and self.is_optional):
            # Nothing is consumed if the attribute is missing: the error then covers one character.
            parser.raise_error(f"expected {_WANTED[self.base]}", start, max(parser.pos, start + 1))
        return value


class DialectAttribute(UniqueBaseAttributeVariable):
    """Directive for an attribute of a dialect: parsed with its name, as `<...>`, or as an alias; printed with its
    name."""

    def parse_attr(self, parser: Parser) -> Attribute:
        """Parse `#name<...>`, only `<...>`, or an alias; raise a parse error unless its class is the required one."""
        return parse_attr_of(parser, cast(Any, self.unique_base))

    def print_attr(self, printer: Printer, attr: Attribute) -> None:
        printer.print_attribute(attr)


class NumberVariable(TypedAttributeVariable):
    """Directive for an integer whose type is known from the definition."""

    def parse_attr(self, parser: Parser) -> Attribute:
        """Parse an integer, and return it as an attribute of the type that the definition requires."""
        return IntegerAttr(parser.parse_integer(allow_boolean=False), cast(Any, self.unique_type))


@dataclass(frozen=True)
class AnyOrder(FormatDirective):
    """Directive `oilist`: clauses in any order, each at most once. A clause is printed if one of its values is present.

    For "oilist(`layout` `(` $layout `)` | `ordinal` `(` custom<Index>($ordinal) `)`)", the texts
    `ordinal(1) layout(#l)` and `layout(#l) ordinal(1)` set the same two properties. Both are printed as the latter.

    The format calls `parse`, and `require` after the whole operation has been parsed: a required property may also be
    an entry of the attribute dictionary, which follows.

    Attributes:
        clauses: Directives of each clause; the first one of a clause starts with a keyword that no other clause has.
        attributes: Directive for `attributes {...}`, which older releases also write between the clauses.
    """

    clauses: tuple[tuple[FormatDirective, ...], ...]
    attributes: AttrDict

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the clauses of `oilist` in any order, each at most once; the first word of a clause identifies it."""
        by_word = {_word(clause): clause for clause in self.clauses}
        seen: set[str] = set()
        while (word := parser._current_token.text) in by_word or word == "attributes":
            # `attributes {...}` of an older release, unless the format has a clause of its own with this keyword.
            if word == "attributes" and word not in by_word:
                self.attributes.parse(parser, state)
                continue
            if word in seen:
                parser.raise_error(f"'{word}' is given twice", parser.pos, parser.pos + len(word))
            seen.add(word)
            for directive in by_word[word]:
                directive.parse(parser, state)
        for word in by_word.keys() - seen:  # clauses that the text omits
            for directive in by_word[word]:
                directive.set_empty(state)

    def require(self, parser: Parser, state: ParsingState, start: int) -> None:
        """Raise a parse error if a required part of a clause has not been read. `start`: offset of the operation."""
        for clause in self.clauses:
            for directive in clause:
                directives.require(_word(clause), directive, parser, state, start)

    def set_empty(self, state: ParsingState) -> None:
        """Set the values of all clauses to none."""
        for clause in self.clauses:
            for directive in clause:
                directive.set_empty(state)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the clauses that have values, in the order of the format."""
        for clause in self.clauses:
            # Keywords and punctuation, which every operation has, do not make a clause present.
            value_directives = [directive for directive in clause if not isinstance(directive, _LITERALS)]
            if any(directive.is_present(op) for directive in value_directives):
                for directive in clause:
                    directive.print(printer, state, op)


def _word(clause: tuple[FormatDirective, ...]) -> str:
    """Return the token with which a clause starts; custom directives declare it as `OPENS`."""
    first = clause[0]
    return first.keyword if isinstance(first, KeywordDirective) else str(getattr(first, "OPENS"))  # noqa: B009


class Grammar(FormatParser):
    """Parser of one assembly format into directives: `parse_format`, of xDSL's class, is called once.

    The methods here override those of xDSL for single directives and variables.
    """

    def __init__(self, text: str, definition: OpDef) -> None:
        """Begin to parse the format `text` of `definition`, which may use the shared directives besides its own."""
        super().__init__(text, definition)
        self.op_def.custom_directives = {**directives.SHARED, **definition.custom_directives}
        self._has_attributes = False  # whether the format has the directive `attr-dict`
        self._properties_in_dict: dict[str, None] = {}  # properties without other syntax, which `attr-dict` prints

    def parse_format_directive(self, inside_ref: bool) -> FormatDirective:
        """Parse a directive of xDSL, or `oilist(…)`, which xDSL lacks. `inside_ref`: whether it is inside `ref(…)`."""
        if self.parse_optional_keyword("oilist"):
            with self.in_parens():
                clauses = [self._parse_clause(inside_ref)]
                while self.parse_optional_punctuation("|"):
                    clauses.append(self._parse_clause(inside_ref))
            # Older releases also write `attributes {...}` between the clauses.
            return AnyOrder(tuple(clauses), self.create_attr_dict_directive(with_keyword=True))
        return super().parse_format_directive(inside_ref)

    def _parse_clause(self, inside_ref: bool) -> tuple[FormatDirective, ...]:
        """Parse the directives of a clause of `oilist`, up to the next `|` or `)`."""
        clause = []
        while self._current_token.text not in ("|", ")"):
            clause.append(self.parse_format_directive(inside_ref))
        return tuple(clause)

    def create_attr_dict_directive(self, with_keyword: bool) -> AttrDict:
        """Return the directive `attr-dict`: a dictionary of the attributes that the format has no syntax for.

        `with_keyword` says whether the dictionary follows the keyword `attributes`.
        """
        self._has_attributes = True
        properties = self.op_def.properties
        enumerations: Any = {}  # property that is an enumeration → the class of its values, which are printed as words
        for name, definition in properties.items():
            for attribute_class in definition.constr.get_bases() or ():
                if issubclass(attribute_class, Enumeration):
                    enumerations[name] = attribute_class
        # `seen_attributes` have syntax of their own, `_properties_in_dict` have none. The directive refers to the same
        # objects: verify_properties fills `_properties_in_dict` at the end of the format.
        return AttrDict(with_keyword, self.seen_attributes, set(properties), self._properties_in_dict, enumerations)

    def verify_attr_dict(self, elements: list[FormatDirective]) -> int:
        """Raise an error if the format has no `attr-dict`; return -1.

        xDSL's method returns the index of the directive in `elements` for `verify_properties`. Here it has none: it may
        be inside of a custom directive.
        """
        if not self._has_attributes:
            self.raise_error("'attr-dict' directive not found")
        return -1

    def verify_properties(self, elements: list[FormatDirective], attr_dict_idx: int) -> None:
        """Record the properties that the format does not name: `attr-dict` prints them.

        Raise an error if there are any and the definition lacks the option `ParsePropInAttrDict`, which allows them.
        The arguments, of xDSL's method, are unused.
        """
        options = self.op_def.options
        # The numbers of values of variadic operands and results follow from the text, without syntax of their own.
        segment_sizes = {option.attribute_name for option in options if isinstance(option, AttrSizedSegments)}
        missing = [name for name in self.op_def.properties if name not in self.seen_properties | segment_sizes]
        if missing and not any(isinstance(option, ParsePropInAttrDict) for option in options):
            self.raise_error(f"the format does not say how {', '.join(missing)} is written")
        self._properties_in_dict.update(dict.fromkeys(missing))

    def parse_keyword_or_punctuation(self) -> FormatDirective:
        """Parse a `Keyword` or `Punctuation` of this module, whose errors name the operation, unlike those of xDSL."""
        directive = super().parse_keyword_or_punctuation()
        if isinstance(directive, KeywordDirective):
            return Keyword(directive.keyword)
        return Punctuation(directive.punctuation) if isinstance(directive, PunctuationDirective) else directive

    def parse_optional_variable(self, inside_ref: bool, *, qualified: bool = False) -> FormatDirective | None:
        """Parse a variable such as `$x` in an assembly format, and return its directive; None if there is none.

        xDSL chooses a class of directives by the constraint of the property or attribute x. It is replaced by a class
        of this module if it parses another syntax, or raises errors that do not say what is expected:

            an integer of a known type, such as `IntegerAttr[IndexType]`         NumberVariable
            one attribute class with parameters, such as `PipelineLayoutAttr`    DialectAttribute
            one of the builtin classes in `_WANTED`, such as `ArrayAttr`         CheckedAttribute

        Args:
            inside_ref: Whether the variable is in `ref($x)`.
            qualified: Whether the variable is in `qualified($x)`.
        """
        variable = super().parse_optional_variable(inside_ref, qualified=qualified)
        if isinstance(variable, TypedAttributeVariable):  # one class, whose type is known
            return _converted(variable, NumberVariable) if issubclass(variable.unique_base, IntegerAttr) else variable
        if isinstance(variable, UniqueBaseAttributeVariable):  # one class of a dialect other than builtin
            has_parameters = issubclass(variable.unique_base, ParametrizedAttribute)
            return _converted(variable, DialectAttribute) if has_parameters else variable
        if type(variable) is AttributeVariable:  # any other class or classes; subclasses have a syntax of their own
            known = self.op_def.properties if variable.is_property else self.op_def.attributes
            bases = known[variable.name].constr.get_bases() or set()
            if len(bases) == 1 and (base := next(iter(bases))) in _WANTED:
                return CheckedAttribute(
                    variable.name, variable.is_property, variable.is_optional, variable.default_value, base
                )
        return variable


def _converted(variable: Any, kind: Any) -> Any:
    """Return a copy of a variable as an instance of the class `kind`, which has the same fields."""
    return kind(*(getattr(variable, field.name) for field in fields(variable)))
