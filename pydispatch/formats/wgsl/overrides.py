"""Overridable constants: which word of the executable constants each of them takes, and its value.

The executable constants are 32-bit words that are set when a program is loaded.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydispatch.errors import ArtifactError
from pydispatch.formats.wgsl.lex import WgslToken
from pydispatch.formats.wgsl.module import Declaration, WgslModule
from pydispatch.suggestions import did_you_mean

_TYPES = ("bool", "i32", "u32", "f32", "f16")
"""Scalar types that an overridable constant may have."""
_MAX_ALIASES = 16
"""Aliases that are followed from a type, at most: broken modules may have a cycle of aliases."""
_MOST_F16 = 65504.0
"""Largest finite f16."""
_COMPARISONS = {"==", "!=", "<", ">", "&&", "||", "!"}
"""Tokens of operators whose result is a bool; `<=` and `>=` are two tokens each."""
_MAX_NAMES = 64
"""Constants and overrides whose types are looked up for the type of one default, at most: each is a level of
recursion."""


@dataclass(frozen=True)
class Override:
    """Overridable constant that takes its value from the executable constants.

    Attributes:
        name: Name of the constant.
        key: Key of its value in WebGPU's pipeline descriptor: its id or name.
        type: Scalar type: one of _TYPES.
        word_index: Index of its word among the executable constants.
        where: Location of its declaration, for messages.
    """

    name: str
    key: str
    type: str
    word_index: int
    where: str

    def value(self, word: int) -> float:
        """Convert a 32-bit word to a value of the override's type; raise ArtifactError for infinities and NaN.

        The word of an f32 or f16 has the bits of an f32. The result is a float for every type, as WebGPU takes it.
        """
        word &= 0xFFFFFFFF
        if self.type in ("f32", "f16"):
            value = float(struct.unpack("<f", struct.pack("<I", word))[0])
            if not math.isfinite(value) or (self.type == "f16" and abs(value) > _MOST_F16):
                raise ArtifactError(
                    f"{self.where}: override '{self.name}' is an {self.type}, which cannot be {value:g}: word "
                    f"{self.word_index} of the executable constants is 0x{word:08x}; it takes the bits of a finite "
                    "number"
                )
            return value
        if self.type == "bool":
            return float(bool(word))
        is_negative = self.type == "i32" and word >= 1 << 31
        return float(word - (1 << 32) if is_negative else word)


def overrides_of(module: WgslModule, names: Sequence[str], count: int | None = None) -> list[Override]:
    """Return the overrides of a module that take a word of the executable constants.

    Word n belongs to the override with the name `names[n]`, or else with `@id(n)`. For `override tile: i32;` and
    `@id(1) override n: u32;`, the names ["tile"] and the count 2, word 0 belongs to tile and word 1 to n.

    Args:
        module: The module.
        names: Name of each word, in order; those of further words are not known.
        count: Number of words, if there may be more words than names; None for as many as names.

    Raises:
        ArtifactError: An override has a type that a word cannot represent.
    """
    count = len(names) if count is None else count
    declared = {declaration.name for declaration in module.overrides}
    overrides: list[Override] = []
    for declaration in module.overrides:
        id_ = module.number(declaration, "id")  # None without an @id
        is_word_of_other = id_ is not None and 0 <= id_ < len(names) and names[id_] in declared
        word_of_id = None if is_word_of_other else id_
        word = names.index(declaration.name) if declaration.name in names else word_of_id
        if word is not None and 0 <= word < count:
            key = declaration.name if id_ is None else str(id_)  # WebGPU names an override with an @id by the id alone
            overrides.append(
                Override(
                    name=declaration.name,
                    key=key,
                    type=_type(module, declaration),
                    word_index=word,
                    where=module.location(declaration),
                )
            )
    return overrides


def unknown_constant(modules: Sequence[WgslModule], names: Sequence[str]) -> str | None:
    """Return an error message if an executable constant has the name of no override of any module; else None.

    `names[n]` is the name of word n of the executable constants. It is not checked if an override has the attribute
    `@id(n)`, which takes this word whatever its name is.
    """
    overrides = [override for module in modules for override in module.overrides]
    have = [override.name for override in overrides]
    ids = {module.number(override, "id") for module in modules for override in module.overrides}
    unknown = next((name for word, name in enumerate(names) if name not in have and word not in ids), None)
    if unknown is None:
        return None
    return (
        f"the executable constant '{unknown}' is no override of {', '.join(module.where for module in modules)}: "
        f"{did_you_mean(unknown, have)}overrides: {', '.join(have) or 'none'}; write `override {unknown}: i32;`, or "
        "leave the constant out"
    )


def check(module: WgslModule, function: Declaration, overrides: Iterable[Override]) -> None:
    """Raise ArtifactError if a function uses an override that has no value.

    An override has a value if it has a default, or if it is one of `overrides`, those that executable constants set.
    """
    known = {override.name for override in overrides}
    for declaration in module.reached([function]):
        if declaration.kind == "override" and not declaration.has_value and declaration.name not in known:
            raise ArtifactError(
                f"{module.location(declaration)}: override '{declaration.name}' has no value: give it a default, or "
                f'name a word of hal.executable.constant.block "{declaration.name}"'
            )


def _type(module: WgslModule, override: Declaration) -> str:
    """Return the scalar type of an override: the declared one, or else that of its default; raise ArtifactError if it
    is not known or a word cannot represent it."""
    type_ = _type_of_named(module, override, {})
    if type_ not in _TYPES:
        problem = f"is of type {type_}" if type_ else "has a type that is not known here"
        raise ArtifactError(
            f"{module.location(override)}: override '{override.name}' {problem}; one that takes a word of the "
            f"executable constants has the type {', '.join(_TYPES[:-1])} or {_TYPES[-1]} stated"
        )
    return type_


def _resolved(module: WgslModule, type_: str) -> str:
    """Return the type that an alias stands for; a type that is no alias, or "" for none, is returned unchanged."""
    for _ in range(_MAX_ALIASES):  # a broken module may have a cycle of aliases
        named = module.named.get(type_)
        if named is None or named.kind != "alias":
            break
        type_ = named.type
    return type_


def _type_of_named(module: WgslModule, declaration: Declaration, known: dict[str, str]) -> str:
    """Return the type of an override or constant, also without a type of its own; "" if it is not known.

    The type of a constant may be abstract: "integer" or "float". An override with such a default is an i32 or f32.

    Args:
        module: The module.
        declaration: The override or constant. Another declaration, such as an alias, has the type that it stands for.
        known: The result for each name so far, "" while it is looked up; a broken module may have a cycle of names.
    """
    name = declaration.name
    if name not in known and len(known) < _MAX_NAMES:  # each name is a level of recursion
        known[name] = ""  # ends a cycle of names
        type_ = _resolved(module, declaration.type)
        if not type_ and declaration.has_value:
            value = module.tokens[declaration.body : declaration.end - 1]  # without the ';' at the end
            type_ = _type_of_value(module, value, known)
        abstract = {"integer": "i32", "float": "f32"} if declaration.kind == "override" else {}
        known[name] = abstract.get(type_, type_)
    return known.get(name, "")


def _type_of_value(module: WgslModule, tokens: Sequence[WgslToken], known: dict[str, str]) -> str:
    """Return the type of an expression of scalars; "" if its literals and names do not determine it.

    The expression is not parsed: an operator outside of the arguments of calls decides, or else the operands do.

    - `true`, `n > 3`, `(a == b) || c` and other values with a comparison or logical operator give "bool"
    - `u32(n > 4)` and `f32(n) * 2` give the types that they convert to
    - `2u + 1` gives "u32" and `n * 2` the type of `n`; `2 * 3` gives "integer" and `1 + 0.5` "float"
    - `n << 1u` gives the type of `n`
    - `sqrt(2.0)`, `array<f32, 2>(1, 2)[0]` and `v.x` give "", and so does `1u + 0.5f`, of two types

    Args:
        module: The module.
        tokens: Tokens of the expression.
        known: Types of constants and overrides so far, by name; "" for one whose type is being looked up.
    """
    types: set[str] = set()
    at, is_count = 0, False  # is_count: the next operand is the count of a shift, whose type does not matter
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1].text if at + 1 < len(tokens) else ""
        at += 1
        if token.kind == "name" or token.kind == "number":
            type_ = _type_of_operand(module, token, known)
            if following == "<" and token.kind == "name" and token.text not in module.named:  # template arguments
                at = _after_brackets(tokens, at)
            if at < len(tokens) and tokens[at].text == "(" and token.kind == "name":  # arguments of a call
                at = _after_brackets(tokens, at)
            if not is_count:
                types.add(type_)
            is_count = False
        elif token.text in ("<", ">") and following == token.text:  # the lexer makes two tokens of a shift
            is_count = True
            at += 1
            if at < len(tokens) and tokens[at].text == "(":
                at, is_count = _after_brackets(tokens, at), False
        elif token.text in _COMPARISONS:  # whatever the operands are
            return "bool"
        elif token.text in ("[", "."):  # an element or a member, of a type that is not looked up
            at = _after_brackets(tokens, at - 1) if token.text == "[" else at + 1
            types.add("")
    return _common_type(types)


def _common_type(types: set[str]) -> str:
    """Return the type of an expression whose operands have these types; "" if they have none in common.

    Literals without a suffix, "integer" and "float", take the type of the other operands.
    """
    concrete = types - {"integer", "float"}
    if concrete:
        return concrete.pop() if len(concrete) == 1 else ""
    if "float" in types:
        return "float"
    return "integer" if types else ""


def _type_of_operand(module: WgslModule, token: WgslToken, known: dict[str, str]) -> str:
    """Return the type of the operand that begins with `token`: a literal, a name, or a conversion such as `u32(x)`.

    Return "" if it is not known. `known` has the types of named declarations that were determined before.
    """
    if token.kind == "number":
        return _type_of_literal(token.text)
    if token.text in module.named:
        return _type_of_named(module, module.named[token.text], known)
    if token.text in ("true", "false"):
        return "bool"
    return token.text if token.text in _TYPES else ""


def _after_brackets(tokens: Sequence[WgslToken], at: int) -> int:
    """Return the index after the bracket that closes the one at token `at`: `(`, `[` or the `<` of template arguments.

    Return the number of tokens if no bracket closes it.
    """
    expected: list[str] = []  # the closing brackets of those that are open
    for i in range(at, len(tokens)):
        text = tokens[i].text
        if text in ("(", "["):
            expected.append(")" if text == "(" else "]")
        elif text == "<" and (i == at or expected[-1] == ">"):  # not a comparison, as in `(a < b)`
            expected.append(">")
        elif text == expected[-1]:
            expected.pop()
            if not expected:
                return i + 1
    return len(tokens)


def _type_of_literal(text: str) -> str:
    """Return the type of a number literal; "integer" or "float" for one without a suffix."""
    lower = text.lower()
    is_hex = lower.startswith("0x")
    suffixes = {"u": "u32", "i": "i32", "f": "f32", "h": "f16"}
    if is_hex and "p" not in lower:  # `f` is a digit: as a suffix it follows an exponent
        del suffixes["f"]
    is_float = "." in text or ("p" if is_hex else "e") in lower
    return suffixes.get(text[-1], "float" if is_float else "integer")
