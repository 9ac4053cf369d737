"""Selection of the objects and sections that take part in a link.

Archive members are loaded if they define an undefined symbol. Sections are retained if they are reachable from the
exports.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.elf import archive, reader
from pydispatch.formats.elf.reader import ElfError
from pydispatch.link.elf.inputs import (
    InputSection,
    LinkError,
    LinkSymbol,
    Object,
    SymbolTable,
    UnsupportedError,
    defined_names,
)

Labelled = tuple[str, bytes]
"""Label for messages and bytes of an object or archive."""
_ARRAYS = (reader.SHT_INIT_ARRAY, reader.SHT_FINI_ARRAY)
"""Types of sections with functions that run at load and unload, which no symbol refers to."""


class UndefinedError(LinkError):
    """Failure of a link because symbols have no definition.

    Attributes:
        undefined: Sorted pairs (symbol, label of an object that refers to it).
    """

    def __init__(self, undefined: Sequence[tuple[str, str]]) -> None:
        """Create the error, whose message lists the symbols with the objects that refer to them."""
        self.undefined = tuple(undefined)
        super().__init__("undefined symbols: " + ", ".join(f"'{name}' (referenced by {by})" for name, by in undefined))


class Loading:
    """Selection of the objects of one link: all named objects, and lazy objects that define an undefined symbol.

    Attributes:
        names: Symbols shared by the loaded objects.
        objects: Loaded objects, in order.

    Args:
        machine: e_machine that the objects must be for.
        exports: Names of symbols that must be defined.
    """

    def __init__(self, machine: int, exports: Sequence[str]) -> None:
        """Begin without objects; the exports are undefined symbols, for which lazy objects are loaded."""
        self.names = SymbolTable()
        self.objects: list[Object] = []
        self._machine = machine
        self._lazy: list[Labelled] = []  # labels may repeat: an archive may have two members of one name
        self._offers: dict[str, int] = {}  # symbol → index of the lazy object that defines it
        for name in exports:
            self.names.symbol(name).wanted_by.append("the list of exports")

    def add(self, label: str, data: bytes) -> None:
        """Load a relocatable object."""
        self.objects.append(Object(label, data, self.names, self._machine))

    def add_lazy(self, label: str, data: bytes) -> None:
        """Add an object or an archive whose members are loaded lazily, if they define an undefined symbol.

        Raise LinkError for a file that cannot be read.
        """
        try:
            if archive.is_archive(data):
                labelled = [(f"{label}({member})", content) for member, content in archive.members(data)]
            else:
                labelled = [(label, data)]
            for object_label, content in labelled:
                for name in defined_names(content):
                    self._offers.setdefault(name, len(self._lazy))
                self._lazy.append((object_label, content))
        except ElfError as error:
            raise LinkError(f"{label} cannot be read: {error}") from error

    def complete(self) -> None:
        """Load lazy objects until no undefined symbol has a lazy definition.

        A loaded object may refer to further symbols. So each round loads the objects that define the symbols that are
        missing at its start.

        Raises:
            UnsupportedError: An undefined symbol is defined in a section that is left out.
            UndefinedError: An undefined symbol has no definition.
        """
        loaded: set[int] = set()  # indices of lazy objects: one may define several symbols
        while True:
            wanted = dict.fromkeys(  # indices of the lazy objects to load, each once, in order
                self._offers[symbol.name] for symbol in self._missing() if symbol.name in self._offers
            )
            new = [index for index in wanted if index not in loaded]
            if not new:
                break
            loaded.update(new)
            for index in new:
                self.add(*self._lazy[index])
        # What is missing now has no definition.
        missing = self._missing()
        if left_out := next((symbol for symbol in missing if symbol.is_left_out), None):
            raise UnsupportedError(f"{left_out.wanted_by[0]}: '{left_out.name}' is in a section that is left out")
        if missing:
            raise UndefinedError(sorted({(symbol.name, label) for symbol in missing for label in symbol.wanted_by}))

    def _missing(self) -> list[LinkSymbol]:
        """Return the undefined symbols with a strong reference."""
        return [symbol for symbol in self.names.symbols.values() if symbol.part is None and symbol.wanted_by]


def load(
    objects: Sequence[Labelled], lazy: Sequence[Labelled], exports: Sequence[str], machine: int
) -> tuple[list[Object], SymbolTable]:
    """Load the objects of a link and resolve their symbols; return the loaded objects and the shared symbols.

    Args:
        objects: Relocatable objects, which are always loaded, and archives, whose members are loaded only if they
            define an undefined symbol.
        lazy: Objects and archives that are loaded only if they define an undefined symbol.
        exports: Names of symbols that must be defined.
        machine: e_machine that the objects must be for.

    Raises:
        UndefinedError: A symbol has no definition.
        LinkError: An object cannot be read, or is for another machine.
    """
    loading = Loading(machine, exports)
    for label, data in objects:
        if archive.is_archive(data):
            loading.add_lazy(label, data)
        else:
            loading.add(label, data)
    for label, data in lazy:
        loading.add_lazy(label, data)
    loading.complete()
    return loading.objects, loading.names


def reachable(objects: Sequence[Object], names: SymbolTable, exports: Sequence[str]) -> list[InputSection]:
    """Return the live input sections, in link order, as `--gc-sections` selects them.

    These are reachable through relocations from an exported symbol, an init or fini array, or a section with
    SHF_GNU_RETAIN. Raise UnsupportedError if one of them refers to a section that is left out, such as .eh_frame.
    """
    parts = [part for obj in objects for part in obj.parts.values()]
    roots = [part for part in parts if part.kind in _ARRAYS or part.flags & reader.SHF_GNU_RETAIN]
    roots += [part for name in exports if (part := names.symbol(name).part) is not None]
    live: set[InputSection] = set()
    while roots:
        part = roots.pop()
        if part in live:
            continue
        live.add(part)
        for relocation in part.relocations:
            target = relocation.symbol
            if target.part is not None:
                roots.append(target.part)
            # Without a section, an undefined weak symbol (address 0) and the null symbol are valid targets.
            elif target.is_left_out:
                raise UnsupportedError(f"{part.owner}: {part.name} refers to a section that is left out")
    return [part for part in parts if part in live]
