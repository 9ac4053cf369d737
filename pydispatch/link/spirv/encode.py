"""Encodes the linked module as SPIR-V: the sections of the logical layout in their order, little-endian."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping

from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction, text_words
from pydispatch.formats.spirv.module import MAGIC
from pydispatch.formats.spirv.names import Decoration, Op
from pydispatch.link.spirv.library import EXPORT
from pydispatch.link.spirv.output import LINKAGE_CAPABILITY, SpirvOutput, instruction

_MODES_WITH_IDS = (37, 38, 39)
"""Execution modes whose operands are ids: SubgroupsPerWorkgroupId, LocalSizeId, LocalSizeHintId."""

Linkage = Mapping[int, tuple[str, int]]
"""Id of a function -> (symbol, kind of linkage)."""


def encoded_module(out: SpirvOutput, declared: Linkage) -> bytes:
    """Encode the module: the header, then the sections in the order that SPIR-V requires, as little-endian words.

    Args:
        out: The finished module.
        declared: Imports that no library resolves: id of the declaration → (symbol, kind of linkage). They stay
            declarations without a body, which SPIR-V requires to precede all functions with a body.
    """
    # Only exports and unresolved imports need a symbol; calls refer to linked functions by id.
    linkage = {
        id: (text, kind) for id, (text, kind) in out.kernel.tables.linkage.items() if kind == EXPORT or id in declared
    }
    major, minor = out.version
    # Header: magic number, version, generator (0: none), bound of the ids, schema (reserved).
    words = array("I", [MAGIC, major << 16 | minor << 8, 0, out.bound, 0])
    for section in (
        _requirements(out, has_linkage=bool(linkage)),
        _entry_points(out),
        _names(out),
        _decorations(out, linkage),
        out.globals,
        *(encoded_function(out.kernel.functions[id]) for id in declared),
        *out.functions.values(),
    ):
        for line in section:
            words.extend(line)
    if sys.byteorder == "big":  # artifacts are little-endian
        words.byteswap()
    return words.tobytes()


def _requirements(out: SpirvOutput, has_linkage: bool) -> Iterator[list[int]]:
    """Yield the capabilities, extensions, instruction sets and the memory model.

    The capability Linkage is only included if `has_linkage`: the module still has imports or exports.
    """
    for capability in out.capabilities:
        if has_linkage or capability != LINKAGE_CAPABILITY:
            yield instruction(Op.CAPABILITY, [capability])
    for text in out.extensions:
        yield instruction(Op.EXTENSION, text_words(text))
    for text, id in out.sets.items():
        yield instruction(Op.EXT_INST_IMPORT, [id, *text_words(text)])
    yield instruction(Op.MEMORY_MODEL, [out.kernel.addressing, out.kernel.memory])


def _entry_points(out: SpirvOutput) -> Iterator[list[int]]:
    """Yield the entry points with their interface variables, then the execution modes of all functions."""
    for entry in out.kernel.tables.entry_points:
        interface = out.interface(entry.function, entry.interface)
        yield instruction(Op.ENTRY_POINT, [entry.model, entry.function, *text_words(entry.name), *interface])
    for function, modes in out.kernel.tables.modes.items():
        for mode, operands in modes:
            op = Op.EXECUTION_MODE_ID if mode in _MODES_WITH_IDS else Op.EXECUTION_MODE
            yield instruction(op, [function, mode, *operands])


def _names(out: SpirvOutput) -> Iterator[list[int]]:
    """Yield the names of ids, then of members of struct types."""
    for id, text in out.names.items():
        yield instruction(Op.NAME, [id, *text_words(text)])
    for id, names in out.member_names.items():
        for words in names:
            yield instruction(Op.MEMBER_NAME, [id, *words])


def _decorations(out: SpirvOutput, linkage: Linkage) -> Iterator[list[int]]:
    """Yield the symbols of imported and exported functions, then the decorations of ids and of members."""
    for id, (text, kind) in linkage.items():
        yield instruction(Op.DECORATE, [id, Decoration.LINKAGE, *text_words(text), kind])
    for id, decorations in out.decorations.items():
        for decoration in decorations:
            yield instruction(Op.DECORATE, [id, *decoration])
    for id, decorations in out.member_decorations.items():
        for decoration in decorations:
            yield instruction(Op.MEMBER_DECORATE, [id, *decoration])


def encoded_function(function: SpirvFunction) -> list[list[int]]:
    """Return the words of each instruction of a function, unchanged, OpFunctionEnd included."""
    lines: Iterable[SpirvInstruction] = (function.head, *function.parameters, *function.body)
    return [*(inst.words for inst in lines), instruction(Op.FUNCTION_END, [])]
