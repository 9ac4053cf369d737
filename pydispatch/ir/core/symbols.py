"""Symbols, the names of functions, executables and globals: their definitions, references, renaming and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.traits import SymbolOpInterface, SymbolTable

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.suggestions import close_matches

MISSING = re.compile(r"'?@(\S+?)'? could not be found in symbol table")
"""xDSL's error message about a reference, such as `@main`, to a symbol that the program does not define."""


def symbols_of(table: Operation) -> list[tuple[str, Operation]]:
    """Return pairs (name without `@`, defining operation) of a symbol table, in the order of the text."""
    symbols = []
    for block in table.regions[0].blocks:
        for op in block.ops:
            trait = op.get_trait(SymbolOpInterface)
            symbol = trait.get_sym_attr_name(op) if trait is not None else None
            if symbol is not None:
                symbols.append((symbol.data, op))
    return symbols


def references(op: Operation) -> Iterator[str]:
    """Yield the symbol of each reference in an operation and in its regions, "a" for `@a::@b`; symbols may repeat."""
    for inner in walk(op):
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            yield from _references(attribute)


def _references(attribute: Attribute) -> Iterator[str]:
    """Yield the root symbol, without `@`, of each reference in an attribute and the attributes nested in it."""
    pending: list[Attribute] = [attribute]
    while pending:
        nested = pending.pop()
        if isinstance(nested, SymbolRefAttr):
            yield nested.root_reference.data
        elif isinstance(nested, ParametrizedAttribute):
            pending += nested.parameters
        else:
            data = getattr(nested, "data", None)
            if isinstance(data, tuple):  # such as the elements of an ArrayAttr
                pending += [a for a in data if isinstance(a, Attribute)]
            elif isinstance(nested, DictionaryAttr):
                pending += nested.data.values()


def rename_references(table: Operation, names: Mapping[str, str]) -> None:
    """Change references to renamed symbols in the operations of a symbol table; the definitions are left unchanged.

    `names` maps old to new names, without `@`. Operations in nested symbol tables are unchanged: a reference there
    resolves to a symbol of the nested table.
    """
    changed = {old: new for old, new in names.items() if old != new}
    pending = [op for block in table.regions[0].blocks for op in block.ops] if changed else []
    while pending:
        op = pending.pop()
        for attributes in (op.properties, op.attributes):
            attributes.update({name: renamed(value, changed) for name, value in attributes.items()})
        if not op.has_trait(SymbolTable):
            pending += [inner for region in op.regions for block in region.blocks for inner in block.ops]


def renamed(attribute: Attribute, names: Mapping[str, str]) -> Attribute:
    """Return an attribute in which the root of each symbol reference is replaced by its new name.

    With the names {"a": "b"}, `[@a::@c, 1, {f = @a}]` becomes `[@b::@c, 1, {f = @b}]`. An attribute without such a
    reference is returned itself, not a copy.

    `names` maps old to new names, without `@`; other symbols are unchanged.
    """
    if isinstance(attribute, SymbolRefAttr):
        new = names.get(attribute.root_reference.data)
        return attribute if new is None else SymbolRefAttr(new, attribute.nested_references)
    if isinstance(attribute, ArrayAttr):
        elements = [renamed(element, names) for element in attribute]
        is_changed = any(new is not old for new, old in zip(elements, attribute, strict=True))
        return ArrayAttr(elements) if is_changed else attribute
    if isinstance(attribute, DictionaryAttr):
        values = {name: renamed(value, names) for name, value in attribute.data.items()}
        is_changed = any(values[name] is not value for name, value in attribute.data.items())
        return DictionaryAttr(values) if is_changed else attribute
    if isinstance(attribute, ParametrizedAttribute):
        parameters = [renamed(p, names) for p in attribute.parameters]
        # Most attributes, such as types, hold no renamed reference: these are not copied.
        is_changed = any(new is not old for new, old in zip(parameters, attribute.parameters, strict=True))
        return attribute.new(parameters) if is_changed else attribute
    return attribute


def check_distinct(op: Operation) -> None:
    """Raise CompileError if `op` is a symbol table with two symbols of one name."""
    if not op.regions or not op.has_trait(SymbolTable):
        return
    definitions: dict[str, Operation] = {}
    for name, symbol in symbols_of(op):
        if name in definitions:
            location = location_of(definitions[name])
            place = f"line {location.line}" if location is not None else "the first one"
            raise CompileError(
                f"'{symbol.name}': the name @{name} is taken by '{definitions[name].name}' at {place}",
                location_of(symbol), "each name is given once in a module; rename one of the two",
            )  # fmt: skip
        definitions[name] = symbol


def unknown_symbol_error(op: Operation, message: str) -> CompileError | None:
    """Return a CompileError that suggests a similar name if an xDSL error is about an unknown symbol; otherwise None.

    Args:
        op: Operation whose verification failed.
        message: Text of xDSL's exception.
    """
    match = MISSING.search(message)  # group 1 is the name of the symbol
    if match is None:
        return None
    # The nearest symbol table around the operation, and the names in it.
    table = op.parent_op()
    while table is not None and not table.has_trait(SymbolTable):
        table = table.parent_op()
    names = [name for name, _ in symbols_of(table)] if table is not None else []
    matches = close_matches(match[1], names)
    shown = ", ".join(f"@{name}" for name in names[:8]) + (", ..." if len(names) > 8 else "")  # bounds the message
    hint = f"did you mean @{matches[0]}? " if matches else ""
    return CompileError(
        f"'{op.name}': there is no @{match[1]} in this module",
        location_of(op),
        f"{hint}the module has {shown or 'no symbols'}; declare an external function with "
        f"'func.func private @{match[1]}(types) -> types'",
    )
