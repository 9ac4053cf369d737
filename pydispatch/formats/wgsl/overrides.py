"""Overridable constants: which word of the executable constants each of them takes, and its value.

The executable constants are 32-bit words that are set when a program is loaded.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydispatch.errors import ArtifactError
from pydispatch.formats.wgsl.module import Declaration, WgslModule
from pydispatch.suggestions import did_you_mean

_TYPES = ("bool", "i32", "u32", "f32", "f16")
"""Scalar types that an overridable constant may have."""
_MAX_ALIASES = 16
"""Aliases that are followed from a type, at most: broken modules may have a cycle of aliases."""
_MOST_F16 = 65504.0
"""Largest finite f16."""
_COMPARISONS = {"==", "!=", "<", ">", "<=", ">=", "&&", "||", "!"}
"""Operators whose result is a bool: a default that contains one has this type."""


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
        return float(word - (word >> 31 << 32) if self.type == "i32" else word)


def overrides_of(module: WgslModule, names: Sequence[str], count: int | None = None) -> list[Override]:
    """Return the overrides of a module that take a word of the executable constants.

    Word n belongs to the override with the name `names[n]`, or else with `@id(n)`.

    Args:
        module: The module.
        names: Name of each word, in order; those of further words are not known.
        count: Number of words, if there may be more words than names; None for as many as names.

    Raises:
        ArtifactError: An override has a type that a word cannot represent.
    """
    count = len(names) if count is None else count
    overrides: list[Override] = []
    for declaration in module.overrides:
        id_ = module.number(declaration, "id")
        word = names.index(declaration.name) if declaration.name in names else id_
        if word is not None and word < count:
            key = declaration.name if id_ is None else str(id_)
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

    `names` has the name of each executable constant, a 32-bit word. That of word n is not checked if an override has
    the attribute `@id(n)`.
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
    """Raise ArtifactError if a function uses an override that has no default and is not one of `overrides`, which take
    a word of the executable constants."""
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
    seen: set[str] = set()
    type_ = _resolved(module, override.type) or _type_of_default(module, override, seen)
    if type_ not in _TYPES:
        problem = f"is of type {type_}" if type_ else "has a type that is not known here"
        raise ArtifactError(
            f"{module.location(override)}: override '{override.name}' {problem}; one that takes a word of the "
            f"executable constants has the type {', '.join(_TYPES[:-1])} or {_TYPES[-1]} stated"
        )
    return type_


def _resolved(module: WgslModule, type_: str) -> str:
    """Return the type that an alias stands for; a type that is no alias, or "" for none, is returned unchanged."""
    for _ in range(_MAX_ALIASES):
        named = module.named.get(type_)
        if named is None or named.kind != "alias":
            break
        type_ = named.type
    return type_


def _type_of_default(module: WgslModule, override: Declaration, seen: set[str]) -> str:
    """Return the type of an override's default value; "" if its literals and names do not determine it.

    The value is not parsed; its tokens decide. In the order of the checks:

    - `true`, `n > 3` and other values with a comparison or logical operator give "bool"
    - `f32(n) * 2.0` gives "f32", the type that it begins with
    - `2 * 3` gives "i32", `2u + 1` "u32", `1 + 0.5` "f32", and `n * 2` the type of the constant or override `n`
    - `sqrt(2.0)` gives "", because the module declares no `sqrt`, and so does `1u + 0.5f`, of two types

    Args:
        module: The module.
        override: An override, or a constant that the default of an override names.
        seen: Names of overrides and constants whose default has been visited; a broken module may have a cycle of
            them.
    """
    if override.name in seen or not override.has_value:
        return ""
    seen.add(override.name)
    tokens = module.tokens[override.body : override.end - 1]  # of the value, without the ';' at the end
    if not tokens:
        return ""
    if tokens[0].text in ("true", "false") or any(token.text in _COMPARISONS for token in tokens):
        return "bool"
    if tokens[0].text in _TYPES:
        return tokens[0].text
    # The types of the operands, which must agree.
    types = {_type_of_literal(token.text) for token in tokens if token.kind == "number"}
    for token in tokens:
        named = module.named.get(token.text) if token.kind == "name" else None
        if named is not None:
            types.add(_resolved(module, named.type) or _type_of_default(module, named, seen))
        elif token.kind == "name":
            return ""
    if len(types) > 1:  # an integer literal without a suffix takes the type of the other operands
        types.discard("integer")
    type_ = types.pop() if len(types) == 1 else ""
    return "i32" if type_ == "integer" else type_


def _type_of_literal(text: str) -> str:
    """Return the type of a number literal; "integer" for an integer literal without a suffix."""
    if text[:2] in ("0x", "0X"):
        if "." in text or "p" in text.lower():
            return "f16" if text.endswith("h") else "f32"
    elif text.endswith("h"):
        return "f16"
    elif text.endswith("f") or "." in text or "e" in text.lower():
        return "f32"
    return {"u": "u32", "i": "i32"}.get(text[-1], "integer")
