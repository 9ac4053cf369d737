"""Links SPIR-V: libraries define the functions that a kernel's module imports.

A module imports a function by a declaration with a Linkage decoration. Its parameters are scalars and buffers: a buffer
is a pointer to a block in StorageBuffer, and every call passes a variable for it. The declaration `?name`, a function
without parameters that returns a bool, tests whether `name` was found. docs/vulkan-functions.md says how libraries are
written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.names import Op
from pydispatch.formats.spirv.parts import SpirvParts, read_parts
from pydispatch.link.spirv.binding import Binding
from pydispatch.link.spirv.encode import encoded_module
from pydispatch.link.spirv.function_writer import write_requested_copies
from pydispatch.link.spirv.library import SpirvLibrary, open_library
from pydispatch.link.spirv.output import SpirvOutput, instruction
from pydispatch.link.spirv.take import FunctionCopier

IMPORT = 1
"""Linkage type of a declaration that another module defines."""
PRESENCE_PREFIX = "?"
"""The prefix of a declaration that tests whether a symbol is present."""

__all__ = ["PRESENCE_PREFIX", "LinkedSpirv", "SpirvLibrary", "imports_of", "link", "open_library"]


@dataclass(frozen=True)
class LinkedSpirv:
    """Result of linking SPIR-V: the module with the functions of libraries, and what is left unresolved.

    Attributes:
        data: The linked module.
        providers: By resolved symbol, the name of the library that defines it.
        unresolved: Symbols without a definition.
    """

    data: bytes
    providers: dict[str, str]
    unresolved: tuple[str, ...]


def imports_of(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> tuple[str, ...]:
    """Return the symbols that a module imports, or whose presence it tests, in the order of the module.

    `what` names the module in messages.
    """
    return _imported_symbols(read_parts(data, what))


def link(
    data: bytes | bytearray | memoryview,
    libraries: Sequence[SpirvLibrary],
    absent: Collection[str] = (),
    what: str = "SPIR-V",
) -> LinkedSpirv:
    """Redirect a module's calls of imports to copies of library functions, and return the linked module.

    For example, a module declares the import `scale` (a buffer, an offset) and the presence test `?scale`, and calls
    both. If a library defines `scale`, the linked module has a copy of it that accesses this buffer directly, the call
    passes the offset alone, and the test is a function that returns true. If no library defines it and `absent` has it,
    the import is a stub that returns zero, and the test returns false. Otherwise both stay imported, for a later link.

    Args:
        data: The importing module.
        libraries: Libraries in search order.
        absent: Symbols that may be missing. Code that calls such a function tests its presence first.
        what: Name of the module in messages.

    Raises:
        ArtifactError: A module is broken.
        InvalidArgumentError: A function does not fit its call.
    """
    return _SpirvLinker(read_parts(data, what), libraries).run(frozenset(absent))


def _imported_symbols(kernel: SpirvParts) -> tuple[str, ...]:
    """Return the distinct imported symbols, without the prefix of presence tests (`?f` tests for `f`)."""
    imported = (text for id, (text, kind) in kernel.tables.linkage.items() if kind == IMPORT and id in kernel.functions)
    return tuple(dict.fromkeys(text.removeprefix(PRESENCE_PREFIX) for text in imported))


class _SpirvLinker:
    """State of one link: rewrites the kernels' functions and binds their calls to copies of library functions.

    `run` is called once; other methods are its steps.

    Attributes:
        kernel: The importing module.
        libraries: Libraries in search order.
        out: The module that linking makes.
        copiers: Copiers by the index of their library.
        bound: (id of an import, ids of the buffer variables that a call passes) → id of the function that implements
            the import for these buffers.
    """

    def __init__(self, kernel: SpirvParts, libraries: Sequence[SpirvLibrary]) -> None:
        """Begin with an output that has the kernels' globals; no import is bound yet."""
        self.kernel, self.libraries, self.out = kernel, libraries, SpirvOutput(kernel)
        self.copiers: dict[int, FunctionCopier] = {}  # index of a library -> its copier
        self.bound: dict[tuple[int, tuple[int, ...]], int] = {}  # (import, buffers of a call) -> linked function

    def run(self, absent: frozenset[str]) -> LinkedSpirv:
        """Link all imports, and return the encoded module with the libraries that were used and the unresolved symbols.

        Symbols in `absent` become stubs if no library defines them; other undefined ones stay imported. Raise
        ArtifactError for a broken module, InvalidArgumentError for a library's function that does not fit its call.
        """
        kernel, out = self.kernel, self.out
        declared = {  # id of an import → its symbol, with the prefix of a presence test
            id: text for id, (text, kind) in kernel.tables.linkage.items() if kind == IMPORT and id in kernel.functions
        }
        for id, text in declared.items():
            self._check_declaration(kernel.functions[id], text)
        library_of = self._defining_libraries()
        decided = library_of.keys() | absent
        unresolved: dict[int, tuple[str, int]] = {  # id → (symbol, with the prefix of a presence test, IMPORT)
            id: (text, IMPORT) for id, text in declared.items() if text.removeprefix(PRESENCE_PREFIX) not in decided
        }
        # Copy the kernels' functions with redirected calls, and what the called library functions need.
        for id, function in kernel.functions.items():
            if function.body:
                self._rewrite_function(id, function, declared, library_of, unresolved)
        for copier in self.copiers.values():  # the libraries from which _rewrite_function() copied
            out.add_requirements(copier.parts)
        # Remove the linked declarations, and report what was linked.
        for id in declared.keys() - unresolved.keys():
            self._forget_declaration(id, kernel.functions[id])
        providers = {symbol: self.libraries[index].name for symbol, index in library_of.items()}
        symbols = tuple(dict.fromkeys(text.removeprefix(PRESENCE_PREFIX) for text, _ in unresolved.values()))
        return LinkedSpirv(encoded_module(out, unresolved), providers, symbols)

    def _defining_libraries(self) -> dict[str, int]:
        """Return, for each imported symbol that a library defines, the index of the first that does."""
        library_of: dict[str, int] = {}
        for symbol in _imported_symbols(self.kernel):
            for index, library in enumerate(self.libraries):
                if symbol in library.functions:
                    library_of[symbol] = index
                    break
        return library_of

    def _forget_declaration(self, id: int, function: SpirvFunction) -> None:
        """Remove the names and decorations of an import that was linked, and of its parameters."""
        for forgotten in (id, *(parameter.id for parameter in function.parameters)):
            self.out.names.pop(forgotten, None)
            self.out.decorations.pop(forgotten, None)

    def _check_declaration(self, function: SpirvFunction, text: str) -> None:
        """Raise ArtifactError if an import has a body, or a presence test is not a function `() -> bool`."""
        if function.body:
            raise self.kernel.tables.fail(function.head.at, f"'{text}' is imported and has a body")
        result = self.kernel.globals[function.head.type_id].op
        if text.startswith(PRESENCE_PREFIX) and (function.parameters or result != Op.TYPE_BOOL):
            raise self.kernel.tables.fail(function.head.at, f"'{text}' asks for a symbol and is no function () -> bool")

    def _rewrite_function(
        self, id: int, function: SpirvFunction, declared: dict[int, str], library_of: dict[str, int],
        unresolved: Collection[int],
    ) -> None:  # fmt: skip
        """Add a function of the kernel to the output, with calls of imports redirected to their definitions.

        The output also gets the functions that it calls and the global variables that it uses. Raise ArtifactError for
        a call of a function that has neither a body nor a symbol.

        Args:
            id: Id of the function.
            function: The function.
            declared: Symbols of all imports by id, with the prefix of presence tests.
            library_of: Index of the defining library by symbol.
            unresolved: Ids of imports that stay unresolved.
        """
        lines = [function.head.words, *(p.words for p in function.parameters)]
        calls: list[int] = []  # ids of the called functions
        uses: set[int] = set()  # ids of the global variables that the function uses
        for inst in function.body:
            words = inst.words
            if inst.op == Op.FUNCTION_CALL:
                callee = words[3]
                if callee in declared and callee not in unresolved:
                    words = self._redirected_call(inst, callee, declared[callee], library_of)
                elif callee not in declared and not self.kernel.functions[callee].body:
                    raise self.kernel.tables.fail(
                        inst.at, f"a call of id {callee}, which has neither a body nor a symbol"
                    )
                calls.append(words[3])
            uses.update(used for used in inst.uses() if used in self.out.variables)
            lines.append(words)
        lines.append(instruction(Op.FUNCTION_END, []))
        self.out.add_function(id, lines, calls=calls, uses=uses, ops=(inst.op for inst in function.body))

    def _redirected_call(self, inst: SpirvInstruction, callee: int, text: str, library_of: dict[str, int]) -> list[int]:
        """Return the words of the call `inst` of an import, redirected to a linked function without buffer arguments.

        Buffers are bound statically: each set of buffers has its own copy of the callee, `bound[callee, buffers]`,
        which is created for the first call. For f(a, 0, n) with the buffer a, the result is the call f_a(0, n). Raise
        ArtifactError for a buffer argument that is no variable of the module.

        callee: id of the import. text: its symbol, with the prefix of a presence test. library_of: index of the
        defining library by symbol.
        """
        function = self.kernel.functions[callee]
        buffers: list[int] = []
        other_arguments: list[int] = []
        for parameter, argument in zip(function.parameters, inst.words[4:], strict=True):
            if not self.kernel.is_buffer(parameter.type_id):
                other_arguments.append(argument)
                continue
            if self.kernel.type_of(argument) != parameter.type_id or argument not in self.out.variables:
                raise self.kernel.tables.fail(
                    inst.at, f"the call of '{text}' passes a buffer that is no variable of the module"
                )
            buffers.append(argument)
        # The linked function for these buffers, which the first call with them adds to the output.
        key = callee, tuple(buffers)
        if key not in self.bound:
            self.bound[key] = self._bind(function, text, tuple(buffers), library_of)
        return instruction(Op.FUNCTION_CALL, [inst.type_id, inst.id, self.bound[key], *other_arguments])

    def _bind(self, function: SpirvFunction, text: str, buffers: tuple[int, ...], library_of: dict[str, int]) -> int:
        """Return the id of the function of the output that replaces an import in calls with these buffers.

        There are three cases:
        - A presence test becomes a function that returns whether a library defines the symbol, which is known here.
        - An import that no library defines becomes a function that returns zero: the kernel tests its presence first.
        - Other imports become a copy of the library's function, or an adapter that converts arguments for the copy.

        Args:
            function: Declaration of the import in the kernel.
            text: Its symbol. A presence test has the prefix PRESENCE_PREFIX before the symbol that it tests.
            buffers: Ids of the variables that the calls pass as buffers. The copy accesses these variables directly.
            library_of: Index of the defining library by symbol.
        """
        symbol = text.removeprefix(PRESENCE_PREFIX)
        source = library_of.get(symbol)
        if text.startswith(PRESENCE_PREFIX):
            result = function.head.type_id
            value = self.out.share(Op.CONSTANT_FALSE if source is None else Op.CONSTANT_TRUE, operands=[], type_=result)
            return self._constant_function(function, value, name=f"has {symbol}")
        if source is None:
            result = function.head.type_id
            is_void = self.kernel.globals[result].op == Op.TYPE_VOID
            value = 0 if is_void else self.out.share(Op.CONSTANT_NULL, operands=[], type_=result)
            return self._constant_function(function, value, name=f"no {symbol}")
        if source not in self.copiers:
            self.copiers[source] = FunctionCopier(self.libraries[source], self.out)
        copier = self.copiers[source]
        callee = Binding(self.kernel, self.out, copier, function, symbol, buffers).request_copy()
        write_requested_copies(copier)
        return callee

    def _constant_function(self, function: SpirvFunction, value: int, name: str) -> int:
        """Add a function that returns a constant, for calls of the import `function`; return its id.

        It replaces a presence test (the import `?f`, which returns whether a library defines `f`), or an import that no
        library defines. It lacks the import's buffer parameters, since redirected calls pass no buffers. For `?f`:

            %new_id = OpFunction %bool None %type
            %label = OpLabel
            OpReturnValue %value
            OpFunctionEnd

        Args:
            function: Declaration of the import in the kernel.
            value: Id of the constant, in the output; 0 for a void function.
            name: Name for debuggers.
        """
        out, new_id = self.out, self.out.id()
        parameter_types = [p.type_id for p in function.parameters if not self.kernel.is_buffer(p.type_id)]
        type_ = out.share(Op.TYPE_FUNCTION, [function.head.type_id, *parameter_types])
        lines = [instruction(Op.FUNCTION, [function.head.type_id, new_id, 0, type_])]  # 0: FunctionControl None
        lines += [instruction(Op.FUNCTION_PARAMETER, [type_id, out.id()]) for type_id in parameter_types]
        lines += [
            instruction(Op.LABEL, [out.id()]),
            instruction(Op.RETURN_VALUE, [value]) if value else instruction(Op.RETURN, []),
        ]
        lines.append(instruction(Op.FUNCTION_END, []))
        out.add_function(new_id, lines)
        out.names[new_id] = name
        return new_id
