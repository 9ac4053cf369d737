"""Names of functions, executables and globals: given once, known where they are used, and changed with their uses."""

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


def symbols_of(table: Operation) -> list[tuple[str, Operation]]:
    """Return pairs (name, operation) of the symbols in a symbol table, in the order of the text."""
    symbols = []
    for block in table.regions[0].blocks:
        for op in block.ops:
            trait = op.get_trait(SymbolOpInterface)
            symbol = trait.get_sym_attr_name(op) if trait is not None else None
            if symbol is not None:
                symbols.append((symbol.data, op))
    return symbols


def references(op: Operation) -> Iterator[str]:
    """Yield the symbols that an operation and the operations in its regions refer to."""
    for inner in walk(op):
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            yield from _references(attribute)


def _references(attribute: Attribute) -> Iterator[str]:
    """Yield the symbols in an attribute and the attributes nested in it."""
    pending: list[Attribute] = [attribute]
    while pending:
        nested = pending.pop()
        if isinstance(nested, SymbolRefAttr):
            yield nested.root_reference.data
        elif isinstance(nested, ParametrizedAttribute):
            pending += nested.parameters
        else:
            data = getattr(nested, "data", None)
            if isinstance(data, tuple):
                pending += [a for a in data if isinstance(a, Attribute)]
            elif isinstance(nested, DictionaryAttr):
                pending += nested.data.values()


def rename_references(table: Operation, names: Mapping[str, str]) -> None:
    """Make everything in a symbol table that refers to a symbol by a key of `names` refer to it by the value.

    Contents of nested symbol tables are unchanged: their names are their own.
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
    """Return an attribute in which references to the symbols that `names` has as keys are those to its values."""
    if isinstance(attribute, SymbolRefAttr):
        new = names.get(attribute.root_reference.data)
        return attribute if new is None else SymbolRefAttr(new, attribute.nested_references)
    if isinstance(attribute, ArrayAttr):
        return ArrayAttr([renamed(element, names) for element in attribute])
    if isinstance(attribute, DictionaryAttr):
        return DictionaryAttr({name: renamed(value, names) for name, value in attribute.data.items()})
    if isinstance(attribute, ParametrizedAttribute) and any(
        isinstance(p, (SymbolRefAttr, ArrayAttr, DictionaryAttr)) for p in attribute.parameters
    ):
        return attribute.new([renamed(p, names) for p in attribute.parameters])
    return attribute


def check_distinct(op: Operation) -> None:
    """Raise CompileError if a name occurs twice in the symbol table `op`."""
    if not op.regions or not op.has_trait(SymbolTable):
        return
    first: dict[str, Operation] = {}
    for name, symbol in symbols_of(op):
        if name in first:
            where = location_of(first[name])
            at = f"line {where.line}" if where is not None else "the first one"
            raise CompileError(
                f"'{symbol.name}': the name @{name} is taken by '{first[name].name}' at {at}",
                location_of(symbol), "each name is given once in a module; rename one of the two",
            )  # fmt: skip
        first[name] = symbol


def unknown_symbol_error(op: Operation, message: str) -> CompileError | None:
    """Return a CompileError with similar names if an xDSL message is about an unknown symbol; None for other
    messages."""
    match = MISSING.search(message)
    if match is None:
        return None
    table = op.parent_op()
    while table is not None and not table.has_trait(SymbolTable):
        table = table.parent_op()
    names = [name for name, _ in symbols_of(table)] if table is not None else []
    matches = close_matches(match[1], names)
    shown = ", ".join(f"@{name}" for name in names[:8]) + (", ..." if len(names) > 8 else "")
    hint = f"did you mean @{matches[0]}? " if matches else ""
    return CompileError(
        f"'{op.name}': there is no @{match[1]} in this module",
        location_of(op),
        f"{hint}the module has {shown or 'no symbols'}; declare an external function with "
        f"'func.func private @{match[1]}(types) -> types'",
    )
