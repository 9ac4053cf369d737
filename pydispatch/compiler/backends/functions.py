"""External functions of kernels, for backends that link device code: undefined ones, and those resolved at load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from pydispatch.compiler.emit.llvm.cpu.imports import imports_of
from pydispatch.compiler.kernel_ir.calls import bare_symbol, import_symbol, is_declaration, is_import, reached_imports
from pydispatch.compiler.kernel_ir.kernel import Variant
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.suggestions import did_you_mean


@dataclass(frozen=True)
class Language:
    """Language in which a backend shows functions to users.

    Attributes:
        name: Name of the API.
        key: Key of the prototypes in a call's description in the manifest.
        prototype: Function of (symbol, its declaration) that returns the prototype as text.
        remedy: Clause for messages that states which object to add, with {prototype} to fill in.
    """

    name: str
    key: str
    prototype: Callable[[str, FuncOp], str]
    remedy: str


def check_static(
    unresolved: Sequence[str],
    functions: Mapping[str, FuncOp],
    language: Language,
    known: Sequence[str],
    files: Sequence[str],
) -> None:
    """Raise CompileError for a function that must be linked statically and is in no object.

    Args:
        unresolved: Symbols that are still undefined after linking.
        functions: Functions of the module of the kernels by name, also declared ones.
        language: The language of the backend.
        known: The functions that the objects define, of which the message suggests similar ones.
        files: The names of the objects, for the message.
    """
    for function in functions.values():
        name = import_symbol(function)
        if is_declaration(function) and not is_import(function) and name in unresolved:
            remedy = language.remedy.format(prototype=language.prototype(name, function))
            raise CompileError(
                f"function '{name}' is declared as hal.import.static, and no object for {language.name} defines it",
                location_of(function),
                f"{did_you_mean(name, known)}searched: {', '.join(files) or 'there are no objects'}; "
                f"{remedy} to the objects, or drop hal.import.static to resolve it when loading",
            )


def imports_at_load(
    unresolved: Sequence[str], functions: Mapping[str, FuncOp], variant: Variant, language: Language
) -> tuple[tuple[str, ...], list[dict[str, object]]]:
    """Return the symbols that are resolved when the program is loaded, with `?` before optional ones, and descriptions
    of their calls for the manifest.

    Args:
        unresolved: Symbols that are still undefined after linking.
        functions: Functions of the module of the kernels by name, also declared ones.
        variant: The variant, whose exports may call the symbols.
        language: The language of the prototypes.
    """
    # `wanted`: the imports that exports reach, directly or through other functions, and that linking left undefined.
    names = [export.name for export in variant.exports]
    wanted = [entry for entry in imports_of(functions, names) if entry.symbol in unresolved]
    calls: list[dict[str, object]] = [
        {
            "symbol": entry.symbol,
            "optional": entry.optional,
            "exports": [name for name in names if entry.symbol in map(bare_symbol, reached_imports(functions, name))],
            language.key: prototypes(entry.symbol, functions, language),
        }
        for entry in wanted
    ]
    return tuple(entry.marked_symbol for entry in wanted), calls


def prototypes(symbol: str, functions: Mapping[str, FuncOp], language: Language) -> list[str]:
    """Return the distinct prototypes by which kernels call a symbol."""
    declarations = [f for f in functions.values() if is_import(f) and bare_symbol(f) == symbol]
    return list(dict.fromkeys(language.prototype(symbol, declaration) for declaration in declarations))
