"""Links PTX: libraries define what a module declares `.extern`. The result is one text.

The text of the module is retained except for the declarations of resolved names. It is preceded by prototypes of the
linked functions and their variables, and followed by the functions. Names of a library that conflict with names of
the module are renamed.

`pyd_has_f`, a function without parameters that returns 32 bits, tests whether `f` was found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.ptx.module import PtxFunction, PtxModule, Variable
from pydispatch.link.ptx.library import (
    BUILT_IN,
    Item,
    PtxLibrary,
    PtxParts,
    open_library,
    read_parts,
    signature_text,
)
from pydispatch.link.ptx.resolve import KERNEL, PRESENCE_PREFIX, Key, Resolver, imported_items
from pydispatch.link.ptx.text import Text, higher, item_text

Source = PtxModule | str | bytes | bytearray | memoryview
"""PTX as a parsed module or as text."""
__all__ = ["PRESENCE_PREFIX", "LinkedPtx", "PtxLibrary", "imports_of", "link", "open_library", "prototypes_of"]


@dataclass(frozen=True)
class LinkedPtx:
    """Result of linking PTX: the text with the definitions of libraries, and what is left unresolved.

    Attributes:
        data: Text of the linked module.
        providers: By resolved symbol, the name of the library that defines it.
        unresolved: Symbols without a definition.
        target: `.target` of the result, such as "sm_80".
        version: PTX version of the result: (major, minor).
        raised: Names of libraries that raised `.target` above that of the module.
    """

    data: str
    providers: dict[str, str]
    unresolved: tuple[str, ...]
    target: str = ""
    version: tuple[int, int] = (0, 0)
    raised: tuple[str, ...] = ()


def imports_of(data: Source, what: str = "PTX") -> tuple[str, ...]:
    """Return the symbols that a module uses and does not define, in the order of the module.

    They include symbols whose presence the module tests (`pyd_has_f` for `f`). `what` names the module in messages.
    """
    return tuple(
        dict.fromkeys(item.name.removeprefix(PRESENCE_PREFIX) for item in imported_items(read_parts(data, what)))
    )


def prototypes_of(data: Source, what: str = "PTX") -> dict[str, str]:
    """Return the signatures of a module's imported functions by name, such as "(.b32, .b32) -> .b32".

    `what` names the module in messages.
    """
    imports = imported_items(read_parts(data, what))
    functions = [item.declaration for item in imports if isinstance(item.declaration, PtxFunction)]
    return {function.name: signature_text(function) for function in functions}


def link(
    data: Source,
    libraries: Sequence[PtxLibrary],
    optional: Collection[str] = (),
    where: str = "PTX",
    unique: bool = False,
) -> LinkedPtx:
    """Resolve a module's imports transitively.

    Args:
        data: The importing module.
        libraries: Libraries in search order.
        optional: Symbols that may be missing. Calls of a missing one trap; other unresolved symbols stay
            imported.
        where: Name of the module in messages.
        unique: Whether a symbol that two libraries define is an error.

    Raises:
        ArtifactError: The module is broken.
        InvalidArgumentError: A function does not fit its declaration or cannot be linked.
    """
    return _PtxLinker(read_parts(data, where), libraries, frozenset(optional), unique).run()


@dataclass
class _PtxLinker(Resolver):
    """Writer of the linked text. `run`, called once, resolves the definitions and returns the text."""

    def run(self) -> LinkedPtx:
        """Collect the definitions that the kernel needs, directly or not, and return the linked text."""
        self.collect()
        names = self._names()
        target, version, raised = self._target()
        return LinkedPtx(
            data="".join(self._text(names, target, version)),
            providers=self.providers,
            unresolved=tuple(self.unresolved),
            target=target,
            version=version,
            raised=raised,
        )

    def _names(self) -> dict[Key, str]:
        """Return the name in the result of each linked library definition; a suffix `$2`, `$3` avoids conflicts."""
        # A name that the kernel's module only declares is not taken if a library defines it.
        resolved = {
            key.name for key, target in self.definition_of.items() if key.module == KERNEL and target is not None
        }
        used = {*(self.kernel.items.keys() - resolved), *self.unresolved, *BUILT_IN}
        imported = {target for target in self.definition_of.values() if target is not None}
        names: dict[Key, str] = {}
        # Imported definitions choose first, so that their names are retained. Otherwise the order is that of `linked`.
        for key in sorted(self.linked, key=lambda key: key not in imported):
            name, suffix = key.name, 1
            # A new name must not occur in any module, where it may be the name of a register or label.
            while name in used or (suffix > 1 and name in self._words):
                suffix += 1
                name = f"{key.name}${suffix}"
            used.add(name)
            names[key] = name
        return names

    @cached_property
    def _words(self) -> frozenset[str]:
        """All words of the modules' texts; a new name must be none of them, since it could be a label or parameter."""
        return frozenset().union(*(parts.words.words for parts in self.parts))

    def _target(self) -> tuple[str, tuple[int, int], tuple[str, ...]]:
        """Return the highest `.target` and `.version` of the linked modules, and the names of the libraries whose
        `.target` is above that of the modules before them: ("sm_80", (7, 8), ("math.ptx",)).
        """
        kernel = self.kernel.module
        target, owner, version = kernel.target, self.kernel.name, kernel.version  # owner: the module with this target
        raised: list[str] = []
        for index in dict.fromkeys(key.module for key in self.linked):
            module, name = self.parts[index].module, self.libraries[index - 1].name  # part 0 is the kernel
            version = max(version, module.version)
            highest = higher((target, owner), (module.target, name))
            if highest != (target, owner):
                target, owner = highest
                raised.append(name)
        return target, version, tuple(raised)

    def _text(self, names: dict[Key, str], target: str, version: tuple[int, int]) -> Iterator[str]:
        """Yield the text of the result: header, prototypes, variables, the kernel's module, functions.

        names: name in the result of each linked definition. target, version: those of the result, such as "sm_80" and
        (8, 0).
        """
        kernel = self.kernel
        yield from self._header(target, version)
        prototypes, variables, functions = list[str](), list[str](), list[str]()
        declared: set[str] = set()  # unresolved names that have a declaration
        for key in self._ordered():
            item, parts = self.item(key), self.parts[key.module]
            text = Text(parts, item, partial(self._name, key.module, names))
            origin = f"// {_file_of(parts.name)}:{item.declaration.line}\n"
            if isinstance(item.declaration, PtxFunction):
                prototypes.append(text.prototype())
                functions.append(f"\n{origin}{text.whole()}\n")
            else:
                variables.append(f"{origin}{text.whole()}\n")
            for name in item.uses:  # unresolved names are declared here, unless the kernel does so
                is_declared = name in kernel.items or name in declared
                if self.resolved(key.module, name) is None and not is_declared:
                    declared.add(name)
                    prototypes.append(self._declaration(Key(key.module, name)))
        yield from prototypes
        yield from variables
        yield from self._kernel_text()
        yield from functions
        yield "\n" if functions else ""

    def _header(self, target: str, version: tuple[int, int]) -> Iterator[str]:
        """Yield the module header: the kernel's own unless a library raised the target or version."""
        module = self.kernel.module
        if target == module.target and version == module.version:
            yield module.text[: module.start]
            return
        options = "".join(f", {option}" for option in module.options)
        yield f".version {version[0]}.{version[1]}\n.target {target}{options}\n.address_size 64\n\n"

    def _name(self, module: int, names: dict[Key, str], name: str) -> str:
        """Return what the word `name` of a module's text becomes in the result: a renamed symbol, or the word itself.

        module: index of the module. names: name in the result of each linked definition.
        """
        if name not in self.parts[module].items:
            return name
        key = self.resolved(module, name)
        return names.get(key, key.name) if key is not None else name

    def _ordered(self) -> list[Key]:
        """Return one linked definition of each statement, in an order in which variables follow the variables that
        their initializers name, as PTX requires definition before use.

        `.global .b64 p = table, q;` thus follows the definition of `table`, and is returned as either p or q.
        Functions may be in any order, since the result declares them by prototypes first.

        This is a depth-first search without recursion. A definition is pushed twice: to be visited, and below its
        dependencies as `ready`, to be added to the result after them.
        """
        done: list[Key] = []
        seen: set[tuple[int, int]] = set()  # module and first token of the statements that have been visited
        for first in self.linked:
            stack = [(first, False)]
            while stack:
                key, ready = stack.pop()
                if ready:
                    done.append(key)
                elif key in self.linked and (statement := (key.module, self.item(key).begin)) not in seen:
                    seen.add(statement)
                    stack.append((key, True))
                    item = self.item(key)
                    if isinstance(item.declaration, Variable):
                        dependencies = [self.resolved(key.module, name) for name in item.uses]
                        stack += [(dependency, False) for dependency in dependencies if dependency is not None]
        return done

    def _declaration(self, key: Key) -> str:
        """Return the declaration of an unresolved name, or the function that replaces it (see `_replacement`)."""
        item, parts = self.item(key), self.parts[key.module]
        body = self._replacement(key.name, item)
        if body is not None:
            return body
        text = parts.module.text[item.declaration.start : item.declaration.end]
        return text.rstrip() + "\n"

    def _replacement(self, name: str, item: Item) -> str | None:
        """Return the function with a body that replaces a declaration, or None if the declaration is retained.

        A presence test `pyd_has_f`, which a kernel calls to ask whether a library defines `f`, becomes a function that
        returns 1 or 0. An optional symbol that no library defines becomes a stub that traps. The test of a
        symbol that no library defines and that is not optional is retained: a later link may decide it.

        Example:
            // A library defines f; g is optional, and no library defines it.
            .extern .func (.param .b32 r) pyd_has_f ();
            .extern .func g (.param .b32 a);

        become, up to white space,

            .func (.param .b32 r) pyd_has_f () { st.param.b32 [r], 1; ret; }
            .func g (.param .b32 a) { trap; ret; }

        Args:
            name: The declared name.
            item: Its declaration, which no definition resolves.
        """
        function = item.declaration
        if not isinstance(function, PtxFunction) or name in BUILT_IN:  # the driver defines the latter
            return None
        symbol = name.removeprefix(PRESENCE_PREFIX)
        if name.startswith(PRESENCE_PREFIX):
            is_present = symbol in self.providers
            if not is_present and symbol not in self.optional:
                return None
            result = function.returns[0].name
            if result == "_":  # unnamed, so that the body could not store it
                result = "func_retval0"
            store = f"st.param.b32 [{result}], {int(is_present)};"
            return f".func (.param .b32 {result}) {name} ()\n{{\n\t{store}\n\tret;\n}}\n"
        if name not in self.optional:
            return None
        head = item_text(self.parts_of(item), item).removeprefix(".extern").strip().rstrip(";").rstrip()
        return f"{head}\n{{\n\ttrap;\n\tret;\n}}\n"

    def _is_resolved(self, item: Item) -> bool:
        """Return whether a library defines what this declaration of the kernel's module declares."""
        return self.definition_of.get(Key(KERNEL, item.name)) is not None

    def parts_of(self, item: Item) -> PtxParts:
        """Return the module, the kernel's or a library's, that a definition or declaration is in."""
        return next(parts for parts in self.parts if parts.items.get(item.name) is item)

    def _kernel_text(self) -> Iterator[str]:
        """Yield the text of the kernel's module after its header, without declarations of resolved names.

        If a library defines f, `.extern .func f (.param .b32 a);` is removed, since the result has the prototype of the
        library's f before this text. A presence test `pyd_has_f` is replaced by a function that returns whether a
        library defines f, and an optional function that no library defines by one that traps. All other text is yielded
        unchanged.
        """
        kernel, text = self.kernel, self.kernel.module.text
        at = kernel.module.start  # offset in `text` of the first character that is not yielded or removed yet
        emitted = set[str]()  # names of the presence tests and stubs, which are emitted once
        # First tokens of the statements that declare unresolved names. One statement may declare several variables:
        # `.extern .global .b32 a, b;`.
        unresolved_statements = {item.begin for item in kernel.declarations if not self._is_resolved(item)}
        for item in sorted(kernel.declarations, key=lambda item: item.declaration.start):
            is_used = Key(KERNEL, item.name) in self.definition_of  # only used names have been searched
            if self._is_resolved(item) or item.name in emitted:
                replacement = ""  # the declaration is removed
            else:
                body = self._replacement(item.name, kernel.items[item.name]) if is_used else None
                if body is None:  # the declaration is retained
                    continue
                emitted.add(item.name)
                replacement = body
            # A statement that declares a resolved and an unresolved variable can be neither removed nor retained.
            if isinstance(item.declaration, Variable) and item.begin in unresolved_statements:
                raise InvalidArgumentError(
                    f"'{item.name}' ({kernel.location(item)}) is declared together with unresolved names; write a "
                    "declaration for each"
                )
            if item.declaration.start >= at:  # else its statement was removed with another variable
                yield text[at : item.declaration.start] + replacement
                at = item.declaration.end
        yield text[at:]


def _file_of(name: str) -> str:
    """Return the file name for a comment: on one line, and without the folder, which must not change the output."""
    return " ".join(name.replace("\\", "/").rpartition("/")[2].split())
