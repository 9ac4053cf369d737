"""Search of the definitions that a PTX module needs, and checks that they fit the declarations."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.ptx.module import PtxFunction, Variable
from pydispatch.link.ptx.library import (
    BUILT_IN,
    Item,
    PtxLibrary,
    PtxParts,
    fits,
    signature_text,
    variable_text,
)

PRESENCE_PREFIX = "pyd_has_"
"""The prefix of a function that tests whether a symbol is present."""

KERNEL = 0
"""Index of the kernel's module; the libraries follow from 1 on, in search order."""


class Key(NamedTuple):
    """Symbol of a module: index of the module (0 for the kernel's, then the libraries in search order) and name."""

    module: int
    name: str


def imported_items(parts: PtxParts) -> list[Item]:
    """Return the undefined items that a definition of the module uses, without the functions built into the driver."""
    # Variables that one statement declares have equal `uses`: one item for each statement is enough.
    item_of_statement = {item.begin: item for item in parts.items.values()}
    used = {name for item in item_of_statement.values() for name in item.uses}
    undefined = [item for item in parts.items.values() if not item.is_defined]
    return [item for item in undefined if item.name in used and item.name not in BUILT_IN]


@dataclass
class Resolver:
    """Search of the definitions that the kernel's module needs, in libraries.

    `collect` is called once; its results are the attributes from `providers` on. Modules are identified by index: 0 is
    the kernel's, then the libraries in search order.

    Attributes:
        kernel: Declarations and definitions of the kernel's module.
        libraries: The libraries in search order.
        optional: Symbols that may be missing, which are then not listed in `unresolved`.
        unique: Whether a symbol that two libraries define is an error.
        providers: By resolved symbol, the name of the library that defines it.
        unresolved: Ordered set of the symbols without a definition; the values of the dictionary are None.
        linked: Ordered set of the definitions of libraries that the result contains, in order of discovery.
        definition_of: Key of a declaration → key of the definition that it refers to; None if there is none.
        parts: Declarations and definitions of each module, by index.
    """

    kernel: PtxParts
    libraries: Sequence[PtxLibrary]
    optional: frozenset[str]
    unique: bool
    providers: dict[str, str] = field(default_factory=dict)
    unresolved: dict[str, None] = field(default_factory=dict)
    linked: dict[Key, None] = field(default_factory=dict)
    definition_of: dict[Key, Key | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """List the parts of all modules by index, the kernel's first."""
        self.parts = [self.kernel, *(library.parts for library in self.libraries)]

    def collect(self) -> None:
        """Add the library definitions that the kernel needs, directly or not, to `linked`."""
        pending = deque(Key(KERNEL, item.name) for item in imported_items(self.kernel))
        seen: set[tuple[int, int]] = set()  # module and first token of statements, which may declare several variables
        while pending:
            key = self.resolved(*pending.popleft())
            # A name without a definition, or with one in the kernel, needs no definition of a library.
            if key is not None and key not in self.linked and key.module != KERNEL:
                self.linked[key] = None  # adds to an ordered set
                item = self.item(key)
                if (key.module, item.begin) not in seen:
                    seen.add((key.module, item.begin))
                    pending += [Key(key.module, used) for used in item.uses]

    def item(self, key: Key) -> Item:
        """Return the definition or declaration of a symbol in its module."""
        return self.parts[key.module].items[key.name]

    def resolved(self, module: int, name: str) -> Key | None:
        """Return the definition that a name of module `module` (an index) refers to; None if it has none to link."""
        key = Key(module, name)
        if self.item(key).is_defined:
            return key
        if key not in self.definition_of:
            self.definition_of[key] = self._search_definition(module, name)
        return self.definition_of[key]

    def _search_definition(self, module: int, name: str) -> Key | None:
        """Search the definition of a name that a module declares: in the kernel's module, then in the libraries.

        The library that defines the name is recorded in `providers`; a name without a definition is recorded in
        `unresolved` unless it is optional.

        Args:
            module: Index of the module that declares the name.
            name: The name.

        Returns:
            Key of the definition. None for names without one, for functions of the driver, and for presence tests
            (`pyd_has_f`), whose result is recorded for `f`.

        Raises:
            InvalidArgumentError: The definition does not fit the declaration, several libraries define a name that must
                be unique, only a definition in the kernel's module that is not visible has the name, or a presence test
                has another signature than () -> .b32.
        """
        wanted, parts = self.item(Key(module, name)), self.parts[module]
        if name in BUILT_IN:
            return None
        if name.startswith(PRESENCE_PREFIX):
            self._check_presence_test(parts, wanted)
            self._decide_presence(name.removeprefix(PRESENCE_PREFIX))
            return None
        # A definition in the kernel's module precedes those of libraries.
        own = self.kernel.items.get(name)
        if module != KERNEL and own is not None and own.is_offered:
            self._check_compatible(parts, wanted, self.kernel, own)
            return Key(KERNEL, name)
        for index, library in enumerate(self.libraries, 1):
            if index != module and name in library.offered:
                self._check_compatible(parts, wanted, library.parts, library.offered[name])
                self._record_provider(name)
                return Key(index, name)
        if own is not None and own.is_defined:  # but not visible to other modules
            raise InvalidArgumentError(
                f"'{name}' of {parts.name} is imported from elsewhere, and {self.kernel.location(own)} has one for "
                "itself; make that one .visible, or rename it"
            )
        if name not in self.optional:
            self.unresolved[name] = None
        return None

    def _decide_presence(self, symbol: str) -> None:
        """Record the provider of a symbol whose presence the kernel tests, or leave the test to a later link.

        This link decides the test of an optional symbol. A later link may define another missing symbol.
        """
        is_defined = any(symbol in library.offered for library in self.libraries)
        if is_defined or symbol in self.optional:
            self._record_provider(symbol)
        else:
            self.unresolved[symbol] = None

    def _record_provider(self, name: str) -> None:
        """Record the first library that defines a symbol.

        Raise InvalidArgumentError if symbols must be unique and several libraries have definitions that are not weak.
        """
        providers = [library for library in self.libraries if name in library.offered]
        strong = [provider for provider in providers if provider.offered[name].declaration.linkage != "weak"]
        if self.unique and len(strong) > 1:
            a, b = (provider.parts.location(provider.offered[name]) for provider in strong[:2])
            raise InvalidArgumentError(f"'{name}' is defined twice, in {a} and in {b}; leave out one of them")
        if providers:
            self.providers.setdefault(name, providers[0].name)

    def _check_presence_test(self, parts: PtxParts, wanted: Item) -> None:
        """Raise InvalidArgumentError unless a presence test is declared as a function `() -> .b32`.

        A presence test `pyd_has_f` is a declaration that the linker defines: it returns 1 if a library has f, else 0.
        """
        function = wanted.declaration
        if isinstance(function, PtxFunction) and not function.params and [p.size for p in function.returns] == [4]:
            return
        raise InvalidArgumentError(
            f"'{wanted.name}' ({parts.location(wanted)}) asks for a symbol and is no function () -> .b32"
        )

    def _check_compatible(self, parts: PtxParts, wanted: Item, others: PtxParts, definition: Item) -> None:
        """Raise InvalidArgumentError unless a definition fits its declaration: kind, signature or size, state space,
        alignment.

        Args:
            parts: Module that declares the symbol.
            wanted: The declaration.
            others: Module that defines the symbol.
            definition: The definition.
        """
        declared, defined = wanted.declaration, definition.declaration
        name, where_declared, where_defined = wanted.name, parts.location(wanted), others.location(definition)
        if isinstance(declared, PtxFunction) and isinstance(defined, PtxFunction):
            if not fits(declared, defined):
                raise InvalidArgumentError(
                    f"the function '{name}' of {others.name} does not fit its call: {where_declared} calls "
                    f"{signature_text(declared)}, {where_defined} defines {signature_text(defined)}"
                )
        elif isinstance(declared, Variable) and isinstance(defined, Variable):
            is_unsized = declared.sizes[:1] == (0,)  # declared as `[]`, of any size
            has_size = is_unsized or declared.size == defined.size
            has_alignment = declared.align <= defined.align
            if declared.space != defined.space or not has_size or not has_alignment:
                raise InvalidArgumentError(
                    f"the variable '{name}' of {others.name} is not the one that is declared: "
                    f"{where_declared} declares {variable_text(declared)}, "
                    f"{where_defined} defines {variable_text(defined)}"
                )
        else:
            kinds = [
                "a function" if isinstance(symbol, PtxFunction) else "a variable" for symbol in (declared, defined)
            ]
            raise InvalidArgumentError(f"'{name}' is {kinds[0]} in {where_declared} and {kinds[1]} in {where_defined}")
