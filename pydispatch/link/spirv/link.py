"""Links SPIR-V: libraries define the functions that a kernel's module imports.

A module imports a function by a declaration with a Linkage decoration. Its parameters are scalars and buffers: a buffer
is a pointer to a block in StorageBuffer, and every call passes a variable for it. The declaration `?name`, a function
without parameters that returns a bool, tests whether `name` was found. docs/vulkan-functions.md says how libraries are
written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.names import Decoration, Op, Storage
from pydispatch.formats.spirv.parts import SpirvParts, read_parts
from pydispatch.link.spirv.library import SpirvLibrary, open_library, signature_text, type_text
from pydispatch.link.spirv.output import SpirvOutput, instruction
from pydispatch.link.spirv.take import FunctionCopy, Taker

NULL, RETURN, RETURN_VALUE, BITCAST, IMPORT = 46, 253, 254, 124, 1
PRESENCE_PREFIX = "?"
"""The prefix of a declaration that tests whether a symbol is present."""

__all__ = ["PRESENCE_PREFIX", "LinkedSpirv", "SpirvLibrary", "imports_of", "link", "open_library"]


@dataclass(frozen=True)
class LinkedSpirv:
    """Result of linking SPIR-V.

    Attributes:
        data: The linked module.
        providers: By resolved symbol, the name of the library that defines it.
        unresolved: Symbols without a definition.
    """

    data: bytes
    providers: dict[str, str]
    unresolved: tuple[str, ...]


def imports_of(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> tuple[str, ...]:
    """Return the symbols that a module calls and does not define, in the order of the module."""
    return _symbols(read_parts(data, what))


def link(
    data: bytes | bytearray | memoryview,
    libraries: Sequence[SpirvLibrary],
    absent: Collection[str] = (),
    what: str = "SPIR-V",
) -> LinkedSpirv:
    """Resolve a module's imports.

    Args:
        data: The importing module.
        libraries: Libraries in search order.
        absent: Symbols that may be missing. A missing one becomes a stub; other unresolved symbols stay
            imported.
        what: Name of the module in messages.

    Raises:
        ArtifactError: A module is broken.
        InvalidArgumentError: A function does not fit its call.
    """
    return _SpirvLinker(read_parts(data, what), libraries).run(frozenset(absent))


def _symbols(kernel: SpirvParts) -> tuple[str, ...]:
    """Return the distinct imported symbols, without the prefix of presence tests."""
    imported = (text for id, (text, kind) in kernel.tables.linkage.items() if kind == IMPORT and id in kernel.functions)
    return tuple(dict.fromkeys(text.removeprefix(PRESENCE_PREFIX) for text in imported))


class _SpirvLinker:
    """State of one link: rewrites the kernels' functions and binds their calls to copies of library functions.

    Attributes:
        takers: Copiers by the index of their library.
        bound: By import and the buffers that a call passes, the id of the called function in the output.
        views: By kernel variable and block type, the variable that aliases it with this type.
    """

    def __init__(self, kernel: SpirvParts, libraries: Sequence[SpirvLibrary]) -> None:
        self.kernel, self.libraries, self.out = kernel, libraries, SpirvOutput(kernel)
        self.takers: dict[int, Taker] = {}
        self.bound: dict[tuple[int, tuple[int, ...]], int] = {}  # import and its buffers → function
        self.views: dict[tuple[int, int], int] = {}

    def run(self, absent: frozenset[str]) -> LinkedSpirv:
        """Link all imports; symbols in `absent` become stubs if no library defines them."""
        kernel, out = self.kernel, self.out
        declared = {
            id: text for id, (text, kind) in kernel.tables.linkage.items() if kind == IMPORT and id in kernel.functions
        }
        for id, text in declared.items():
            self._check_declaration(kernel.functions[id], text)
        providers: dict[str, str] = {}
        sources: dict[str, int] = {}
        for symbol in _symbols(kernel):
            for index, library in enumerate(self.libraries):
                if symbol in library.functions:
                    providers[symbol], sources[symbol] = library.name, index
                    break
        left: dict[int, tuple[str, int]] = {}
        for id, text in declared.items():
            symbol = text.removeprefix(PRESENCE_PREFIX)
            if symbol not in sources and symbol not in absent:
                left[id] = text, IMPORT
        for id, function in kernel.functions.items():
            if function.body:
                self._function(id, function, declared, sources, left)
        for taker in self.takers.values():
            out.take_needs(taker.parts)
        for id in declared.keys() - left.keys():
            out.names.pop(id, None)
            out.decorations.pop(id, None)
            for parameter in kernel.functions[id].parameters:
                out.names.pop(parameter.id, None)
                out.decorations.pop(parameter.id, None)
        unresolved = tuple(dict.fromkeys(text.removeprefix(PRESENCE_PREFIX) for text, _ in left.values()))
        return LinkedSpirv(out.bytes(left), providers, unresolved)

    def _check_declaration(self, function: SpirvFunction, text: str) -> None:
        """Raise ArtifactError if an import has a body, or a presence test is not a function `() -> bool`."""
        if function.body:
            raise self.kernel.tables.fail(function.head.at, f"'{text}' is imported and has a body")
        result = self.kernel.globals[function.head.type_id].op
        if text.startswith(PRESENCE_PREFIX) and (function.parameters or result != Op.TYPE_BOOL):
            raise self.kernel.tables.fail(function.head.at, f"'{text}' asks for a symbol and is no function () -> bool")

    def _function(
        self, id: int, function: SpirvFunction, declared: dict[int, str], sources: dict[str, int], left: Collection[int]
    ) -> None:
        """Emit a function of the kernel, with calls of imports redirected to their definitions.

        Args:
            id: Id of the function.
            function: The function.
            declared: Symbols of all imports by id.
            sources: Index of the defining library by symbol.
            left: Ids of imports that stay unresolved.
        """
        lines = [function.head.words, *(p.words for p in function.parameters)]
        calls: list[int] = []
        uses: set[int] = set()
        for inst in function.body:
            words = inst.words
            if inst.op == Op.FUNCTION_CALL:
                callee = words[3]
                if callee in declared and callee not in left:
                    words = self._call(inst, callee, declared[callee], sources)
                elif callee not in declared and not self.kernel.functions[callee].body:
                    raise self.kernel.tables.fail(
                        inst.at, f"a call of id {callee}, which has neither a body nor a symbol"
                    )
                calls.append(words[3])
            uses.update(used for used in inst.uses() if used in self.out.variables)
            lines.append(words)
        lines.append(instruction(Op.FUNCTION_END, []))
        self.out.put(id, lines, calls, uses, (inst.op for inst in function.body))

    def _call(self, inst: SpirvInstruction, callee: int, text: str, sources: dict[str, int]) -> list[int]:
        """Return the words of a call of a linked import, without its buffer arguments.

        Buffers are bound statically: each set of buffers has its own copy of the callee.
        """
        function = self.kernel.functions[callee]
        buffers: list[int] = []
        rest: list[int] = []
        for parameter, argument in zip(function.parameters, inst.words[4:], strict=True):
            if not self._is_buffer(parameter.type_id):
                rest.append(argument)
                continue
            if self.kernel.type_of(argument) != parameter.type_id or argument not in self.out.variables:
                raise self.kernel.tables.fail(
                    inst.at, f"the call of '{text}' passes a buffer that is no variable of the module"
                )
            buffers.append(argument)
        key = callee, tuple(buffers)
        if key not in self.bound:
            self.bound[key] = self._bind(function, text, tuple(buffers), sources)
        return instruction(Op.FUNCTION_CALL, [inst.type_id, inst.id, self.bound[key], *rest])

    def _is_buffer(self, type_: int) -> bool:
        pointee = self.kernel.pointee(type_)
        return pointee is not None and pointee[0] == Storage.STORAGE_BUFFER

    def _bind(self, function: SpirvFunction, text: str, buffers: tuple[int, ...], sources: dict[str, int]) -> int:
        """Return the id of the function that implements an import for these buffers: a library's function or a stub."""
        symbol = text.removeprefix(PRESENCE_PREFIX)
        source = sources.get(symbol)
        if text.startswith(PRESENCE_PREFIX):
            result = function.head.type_id
            value = self.out.share(Op.CONSTANT_FALSE if source is None else Op.CONSTANT_TRUE, [], result)
            return self._constant_function(function, value, f"has {symbol}")
        if source is None:
            result = function.head.type_id
            is_void = self.kernel.globals[result].op == Op.TYPE_VOID
            value = 0 if is_void else self.out.share(NULL, [], result)
            return self._constant_function(function, value, f"no {symbol}")
        if source not in self.takers:
            self.takers[source] = Taker(self.libraries[source], self.out)
        taker = self.takers[source]
        callee = _Binding(self, taker, function, symbol, buffers).make()
        taker.finish()
        return callee

    def _constant_function(self, function: SpirvFunction, value: int, name: str) -> int:
        """Add a function that ignores its arguments and returns a constant; return its id. `value` 0 means a void
        function."""
        out, new_id = self.out, self.out.id()
        rest = [p.type_id for p in function.parameters if not self._is_buffer(p.type_id)]
        type_ = out.share(Op.TYPE_FUNCTION, [function.head.type_id, *rest])
        lines = [instruction(Op.FUNCTION, [function.head.type_id, new_id, 0, type_])]
        lines += [instruction(Op.FUNCTION_PARAMETER, [parameter, out.id()]) for parameter in rest]
        lines += [
            instruction(Op.LABEL, [out.id()]),
            instruction(RETURN_VALUE, [value]) if value else instruction(RETURN, []),
        ]
        lines.append(instruction(Op.FUNCTION_END, []))
        out.put(new_id, lines, (), (), ())
        out.names[new_id] = name
        return new_id

    def view(self, variable: int, block: int) -> int:
        """Return a variable with the library's block type and the binding of the kernel's variable.

        This is the kernel's variable if the types agree, else an added variable that aliases it.
        """
        out = self.out
        own = out.types[out.variables[variable][0]][1][1]
        if out.same(own) == block or out.view_key(own) == out.view_key(block):
            return variable
        key = variable, block
        if key not in self.views:
            pointer = out.share(Op.TYPE_POINTER, [Storage.STORAGE_BUFFER, block])
            inherited = (Decoration.DESCRIPTOR_SET, Decoration.BINDING, Decoration.NON_WRITABLE)
            decorations = [d for d in out.decorations.get(variable, ()) if d[0] in inherited]
            view = self.views[key] = out.add(Op.VARIABLE, [Storage.STORAGE_BUFFER], pointer, decorations)
            out.decorate(view, 20)  # Aliased
            out.decorate(variable, 20)
        return self.views[key]


class _Binding:
    """Resolution of one import, for one set of buffers, to a function of a library."""

    def __init__(
        self, linker: _SpirvLinker, taker: Taker, function: SpirvFunction, symbol: str, buffers: tuple[int, ...]
    ) -> None:
        self.linker, self.taker, self.out, self.kernel = linker, taker, linker.out, linker.kernel
        self.function, self.symbol, self.buffers = function, symbol, buffers
        self.scalars = [p.type_id for p in function.parameters if not linker._is_buffer(p.type_id)]

    def make(self) -> int:
        """Return the id of the function in the output that calls of the import call.

        Raises InvalidArgumentError if no overload of the library fits the call.
        """
        library, parts = self.taker.library, self.taker.parts
        candidates = library.functions[self.symbol]
        for candidate in candidates:
            matched = self._match(parts.functions[candidate])
            if matched is not None:
                return self._bind_copy(candidate, matched)
        called = signature_text(self.kernel, self.function, self.symbol)
        have = " or ".join(signature_text(parts, parts.functions[id], self.symbol) for id in candidates)
        raise InvalidArgumentError(
            f"the function '{self.symbol}' of {library.name} does not fit its call: the program calls "
            f"{called}, the function is {have}; a buffer may be left out of its parameters, not its offset"
        )

    def _match(self, function: SpirvFunction) -> list[tuple[int, int]] | None:
        """Match a library function's parameters with those of the import.

        Returns pairs (parameter position, buffer index) for buffer parameters; None if the signatures do not fit.
        Buffer parameters may be missing in the library function, which then uses global buffer variables.
        """
        matched: list[tuple[int, int]] = []
        position, buffer = 0, 0
        parameters = function.parameters
        for wanted in self.function.parameters:
            if self.linker._is_buffer(wanted.type_id):
                if position < len(parameters) and self.taker.is_buffer_pointer(parameters[position].type_id):
                    matched.append((position, buffer))
                    position += 1
                buffer += 1
            elif position < len(parameters) and self._alike(
                wanted.type_id, self._value_type(parameters[position].type_id)
            ):
                position += 1
            else:
                return None
        if position != len(parameters) or not self._alike(self.function.head.type_id, function.head.type_id):
            return None
        return matched

    def _value_type(self, type_: int) -> int:
        """Return the type of the value passed for a parameter; GLSL passes values by pointers to variables of the
        caller."""
        pointee = self.taker.parts.pointee(type_)
        return pointee[1] if pointee is not None and pointee[0] == Storage.FUNCTION else type_

    def _alike(self, own: int, theirs: int) -> bool:
        """Return whether a type of the kernel and one of the library are the same, except for the sign of integers."""
        a, b = self.kernel.globals[own], self.taker.parts.globals[theirs]
        if a.op != b.op or a.op not in (Op.TYPE_VOID, Op.TYPE_BOOL, Op.TYPE_INT, Op.TYPE_FLOAT):
            return False
        return a.op in (Op.TYPE_VOID, Op.TYPE_BOOL) or a.words[2] == b.words[2]

    def _bind_copy(self, candidate: int, matched: Sequence[tuple[int, int]]) -> int:
        """Request a copy of a matching function with the call's buffers bound, and return its id or that of an adapter.

        A global buffer variable of the library denotes the call's buffer whose index is the variable's binding.
        """
        taker, out = self.taker, self.out
        function = taker.parts.functions[candidate]
        used: list[tuple[int, int]] = []
        for variable in taker.buffers_of(candidate):
            binding = taker.parts.tables.decoration(variable, Decoration.BINDING) or 0
            if binding >= len(self.buffers):
                name = taker.parts.tables.names.get(variable, "")
                raise InvalidArgumentError(
                    f"the function '{self.symbol}' of {taker.library.name} uses the buffer '{name}' at binding "
                    f"{binding}; bindings denote the buffers of the call, which passes {len(self.buffers)}"
                )
            used.append((variable, self._view(variable_type(taker.parts, variable), binding)))
        arguments = [
            (position, self._view(function.parameters[position].type_id, binding)) for position, binding in matched
        ]
        copy = FunctionCopy(candidate, tuple(used), tuple(arguments))
        callee = taker.request(copy)
        type_ = taker.function_type(function, (position for position, _ in arguments))
        own = out.share(
            Op.TYPE_FUNCTION, [self.out.same(self.function.head.type_id), *map(self.out.same, self.scalars)]
        )
        return callee if type_ == own else self._adapter(function, copy, callee, own)

    def _view(self, pointer: int, index: int) -> int:
        """Return the variable that gives the library's block type to buffer `index` of the call.

        Raises InvalidArgumentError if the element types have different widths.
        """
        parts, out, variable = self.taker.parts, self.out, self.buffers[index]
        pointee = parts.pointee(pointer)
        assert pointee is not None
        own = out.types[out.variables[variable][0]][1][1]
        mine, theirs = _element(self.kernel, own), _element(parts, pointee[1])
        if mine is not None and theirs is not None and not _compatible(mine, theirs):
            raise InvalidArgumentError(
                f"the function '{self.symbol}' of {self.taker.library.name} takes buffer {index} for "
                f"{type_text(parts, pointee[1])}, the program passes {type_text(self.kernel, own)}"
            )
        return self.linker.view(variable, self.taker.type(pointee[1]))

    def _adapter(self, function: SpirvFunction, copy: FunctionCopy, callee: int, type_: int) -> int:
        """Add a function with the import's signature that converts its arguments and calls `callee`; return its id.

        Integers of other sign are bitcast; GLSL's by-pointer parameters get local variables.
        """
        out, taker, adapter = self.out, self.taker, self.out.id()
        result, theirs = self.function.head.type_id, taker.type(function.head.type_id)
        skipped = {position for position, _ in copy.arguments}
        lines = [instruction(Op.FUNCTION, [result, adapter, 0, type_])]
        own = [out.id() for _ in self.scalars]
        lines += [instruction(Op.FUNCTION_PARAMETER, list(pair)) for pair in zip(self.scalars, own, strict=True)]
        variables: list[list[int]] = []
        code: list[list[int]] = []
        passed: list[int] = []
        rest = [p.type_id for position, p in enumerate(function.parameters) if position not in skipped]
        for value, source, parameter in zip(own, self.scalars, rest, strict=True):
            wanted = taker.type(self._value_type(parameter))
            if wanted != out.same(source):
                cast = out.id()
                code.append(instruction(BITCAST, [wanted, cast, value]))
                value = cast
            if wanted != taker.type(parameter):
                pointer = out.id()
                variables.append(instruction(Op.VARIABLE, [taker.type(parameter), pointer, Storage.FUNCTION]))
                code.append(instruction(Op.STORE, [pointer, value]))
                value = pointer
            passed.append(value)
        called = out.id()
        code.append(instruction(Op.FUNCTION_CALL, [theirs, called, callee, *passed]))
        if self.kernel.globals[result].op == Op.TYPE_VOID:
            code.append(instruction(RETURN, []))
        else:
            if theirs != out.same(result):
                cast = out.id()
                code.append(instruction(BITCAST, [result, cast, called]))
                called = cast
            code.append(instruction(RETURN_VALUE, [called]))
        lines += [instruction(Op.LABEL, [out.id()]), *variables, *code, instruction(Op.FUNCTION_END, [])]
        out.put(adapter, lines, (callee,), (), ())
        out.names[adapter] = self.symbol
        return adapter


def variable_type(parts: SpirvParts, id: int) -> int:
    """Return the pointer type of a variable."""
    return parts.globals[id].type_id


def _element(parts: SpirvParts, block: int) -> tuple[int, int] | None:
    """Return (opcode, bits) of the scalar type of a block with one array of scalars or vectors; None for other
    blocks."""
    inst = parts.globals.get(block)
    members = inst.words[2:] if inst is not None and inst.op == Op.TYPE_STRUCT else []
    inner = parts.globals.get(members[0]) if len(members) == 1 else None
    for wrappers in ((Op.TYPE_ARRAY, Op.TYPE_RUNTIME_ARRAY), (Op.TYPE_VECTOR,)):
        if inner is not None and inner.op in wrappers:
            inner = parts.globals.get(inner.words[2])
    return (inner.op, inner.words[2]) if inner is not None and inner.op in (Op.TYPE_INT, Op.TYPE_FLOAT) else None


def _compatible(lhs: tuple[int, int], rhs: tuple[int, int]) -> bool:
    """Return whether two scalar types (opcode, bits) may share memory.

    They have the same width and kind. Below 32 bits the kind is not compared, because kernels store narrow floats as
    integers.
    """
    return lhs[1] == rhs[1] and (lhs[0] == rhs[0] or lhs[1] < 32)
