"""CPU part of the LLVM emitter: library ABI 0.6, in which one thread executes a whole workgroup.

Offsets are those of csrc/include/pydispatch/library.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.cpu.imports import ImportCalls
from pydispatch.compiler.emit.llvm.cpu.library import library
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, export_symbol
from pydispatch.compiler.emit.llvm.module import ModuleWriter
from pydispatch.compiler.emit.llvm.platform import Platform
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.emit.llvm.values import Value
from pydispatch.compiler.kernel_ir.kernel import Export
from pydispatch.compiler.kernel_ir.readers import quoted
from pydispatch.compiler.kernel_ir.types import bit_width, is_float

PAGE = 4096
"""Size in bytes of a page, the unit in which the local memory of workgroups is counted."""
MAX_CONSTANTS = MAX_BINDINGS = 64
"""Maximum number of 32-bit constants, and of bindings, of an export."""
MAX_PAGES = 0xFFFF
"""Maximum number of pages (`PAGE` bytes each) of local memory: the library's tables have 16 bits for it."""

_WORD_BITS, _WORD_BYTES = 32, 4
"""Size of the words that constants consist of."""

_CONSTANTS, _PROCESSOR = 0, 32
"""Offsets in `%env`, the environment of the executable: pointer to its constants, and data on the processor."""
_GRID = {
    "size": ("%dispatch", ((0, "i32"), (4, "i32"), (8, "i16"))),
    "count": ("%dispatch", ((12, "i32"), (16, "i32"), (20, "i16"))),
    "id": ("%workgroup", ((0, "i32"), (4, "i32"), (8, "i16"))),
}
"""Queried property of the grid -> (parameter with a pointer, (offset in bytes, LLVM type) along x, y and z)."""
_STATE_CONSTANTS, _BINDINGS = 24, 32
"""Offsets in `%dispatch`: pointers to the dispatch constants, and to the pointers of bindings."""
_PROCESSOR_ID, _LOCAL_MEMORY = 12, 16
"""Offsets in `%workgroup`: the number of the processor, and the pointer to local memory."""


class CpuPlatform(Platform[FunctionEmitter]):
    """Target of the LLVM emitter for one module of a CPU executable: its calls, tables, imports and local memory.

    Attributes:
        alignment: Alignment in bytes that the functions emitted so far require of bindings.
        local_memory: Bytes of local memory that those functions reserve, together.
        imports: The functions that they import.
    """

    parameters = ("ptr %env", "ptr %dispatch", "ptr %workgroup")

    def __init__(
        self,
        arch: str,
        features: frozenset[str],
        executable: str | None,
        exports: Sequence[Export],
        constants: Sequence[str] = (),
        functions: Mapping[str, FuncOp] | None = None,
    ) -> None:
        """Collect the imports that the exports reach; no function is emitted yet.

        Args:
            arch: The architecture, such as "x86_64".
            features: LLVM features that code may use.
            executable: Name of the executable for the library's tables; None if another module contains the tables.
            exports: The exports of the executable.
            constants: Keys of the 32-bit words of executable constants; a key of 64 bits occurs twice.
            functions: The functions of the module, by name; None for a module whose functions call no imports.
        """
        self.arch = arch
        self.features = features
        self.alignment = 1  # bytes; binding() raises it
        self.local_memory = 0  # bytes; workgroup_memory() raises it
        self.constant_words = max((export.layout.constants for export in exports), default=0)
        names = [export.name for export in exports]
        self.import_calls = ImportCalls(functions or {}, names, self._load_field)
        self.imports = self.import_calls.table
        self._executable = executable
        self._exports = exports
        self._constants = tuple(constants)

    def export_header(self, name: str) -> str:
        """Return the `define` line of an export."""
        pointer = "ptr noalias noundef nonnull readonly align 16"
        names = ", ".join(f"{pointer} {name}" for name in ("%env", "%dispatch", "%workgroup"))
        # The library tables refer to this symbol. They are in another module if this module has no executable name.
        has_tables = self._executable is not None
        linkage = "internal" if has_tables else "hidden"
        return f"define {linkage} i32 @{quoted(export_symbol(name))}({names}) #0"

    def export_return(self, emitter: FunctionEmitter, status: str | None) -> None:
        """Emit the return of an export: `status`, the name of an i32, or 0 (success) for None."""
        emitter.body.emit(f"ret i32 {status or 0}")

    def _load_field(
        self, emitter: FunctionEmitter, base: str, offset: int, type_: str, align: int, metadata: str = ""
    ) -> str:
        """Emit the load of a field at `base` + `offset` into the entry block, once, and return it.

        The structures of the runtime do not change while a workgroup runs.

        Args:
            emitter: Emitter of the function.
            base: Pointer to the structure.
            offset: Offset of the field in bytes.
            type_: LLVM type of the field.
            align: Its alignment in bytes.
            metadata: Further metadata of the load, such as ", !align !7".
        """

        def make() -> str:
            """Emit the load of the field of type `type_` at `base` + `offset` into the entry block."""
            # !invariant.load refers to an empty node.
            empty = emitter.once("empty", lambda: str(emitter.module.metadata("!{}")))
            address = base if offset == 0 else emitter.body.let_entry(f"getelementptr i8, ptr {base}, i64 {offset}")
            load = f"load {type_}, ptr {address}, align {align}, !invariant.load !{empty}{metadata}"
            return emitter.body.let_entry(load)

        return emitter.once((base, offset, type_), make)

    def binding(self, emitter: FunctionEmitter, ordinal: int, align: int) -> str:
        """Return the pointer of a binding, which is loaded once in the entry block.

        `align` is the alignment in bytes that the code requires of it, and that LLVM may assume.
        """
        self.alignment = max(self.alignment, align)
        pointers = self._load_field(emitter, "%dispatch", _BINDINGS, "ptr", align=8)
        alignment_node = emitter.once(("align", align), lambda: str(emitter.module.metadata(f"!{{i64 {align}}}")))
        return self._load_field(emitter, pointers, 8 * ordinal, "ptr", align=8, metadata=f", !align !{alignment_node}")

    def constant(self, emitter: FunctionEmitter, ordinal: int, type_: Attribute, words: int) -> str:
        """Return a dispatch constant of the layout, from 32-bit word `ordinal` on.

        `words` is the number of words of a constant of type index, 1 or 2. Other types state their own width.
        """
        table = self._load_field(emitter, "%dispatch", _STATE_CONSTANTS, "ptr", align=8)
        return self._word(emitter, table, ordinal, type_, count=words)

    def _word(self, emitter: FunctionEmitter, words: str, ordinal: int, type_: Attribute, count: int) -> str:
        """Return a scalar constant from 32-bit words: a narrow scalar is the low bits of a word, an index is unsigned.

        Args:
            emitter: Emitter of the function.
            words: Pointer to the words.
            ordinal: Index of the scalar's first word.
            type_: Type of the scalar.
            count: Number of words of an index, 1 or 2.
        """
        offset = _WORD_BYTES * ordinal
        if isinstance(type_, IndexType):  # an i64 in LLVM IR
            if count == 2:
                return self._load_field(emitter, words, offset, "i64", align=_WORD_BYTES)
            word = self._load_field(emitter, words, offset, "i32", align=_WORD_BYTES)
            return emitter.once((words, ordinal, "index"), lambda: emitter.body.let_entry(f"zext i32 {word} to i64"))
        width = bit_width(type_)
        if width in (_WORD_BITS, 2 * _WORD_BITS):  # two words have the alignment of one
            return self._load_field(emitter, words, offset, scalar(type_), align=_WORD_BYTES)
        if width > _WORD_BITS:
            note = "split it into i32 or i64 constants"
            raise emitter.error(f"a constant of type {type_} is not made of 32-bit words", note)
        word = self._load_field(emitter, words, offset, "i32", align=_WORD_BYTES)
        return emitter.once((words, ordinal, str(type_)), lambda: _low_bits(emitter, word, type_))

    def executable_constant(self, emitter: FunctionEmitter, key: str, type_: Attribute) -> str:
        """Return the executable constant that `key` names, one of the platform's `constants`, as a scalar of `type_`.

        Raises:
            CompileError: The key is unknown, or the type is too wide for it.
        """
        if key not in self._constants:
            defined = ", ".join(self._constants) or "none"
            raise emitter.error(
                f"executable constant '{key}' has no hal.executable.constant.block", f"defined are: {defined}"
            )
        ordinal = self._constants.index(key)
        is_wide = not isinstance(type_, IndexType) and bit_width(type_) > 32
        has_two_words = self._constants[ordinal : ordinal + 2] == (key, key)  # a constant of 64 bits is listed twice
        if is_wide and not has_two_words:
            raise emitter.error(f"executable constant '{key}' is one 32-bit word, got {type_}")
        words = self._load_field(emitter, "%env", _CONSTANTS, "ptr", align=8)
        return self._word(emitter, words, ordinal, type_, count=2 if is_wide else 1)

    def grid(self, emitter: FunctionEmitter, grid_property: str, dimension: int) -> str:
        """Return a workgroup id, count or size as i64.

        `grid_property` is "id", "count" or "size"; `dimension` is 0 for x, 1 for y, 2 for z.
        """
        base, fields = _GRID[grid_property]
        offset, type_ = fields[dimension]
        value = self._load_field(emitter, base, offset, type_, align=4 if type_ == "i32" else 2)
        return emitter.once((grid_property, dimension), lambda: emitter.body.let_entry(f"zext {type_} {value} to i64"))

    def workgroup_memory(self, emitter: FunctionEmitter, byte_size: int, align: int) -> str:
        """Reserve bytes of the module's local memory, and return a pointer to them.

        No two reservations overlap, whichever functions they are in.
        """
        align = max(align, 64)  # no two reservations share a cache line
        start = -(-self.local_memory // align) * align  # the end of earlier reservations, aligned
        self.local_memory = start + byte_size
        if self.local_memory > MAX_PAGES * PAGE:
            raise emitter.error(f"workgroup memory of {self.local_memory} bytes, the limit is {MAX_PAGES * PAGE}")
        base = self._load_field(emitter, "%workgroup", _LOCAL_MEMORY, "ptr", align=8)
        return emitter.body.let_entry(f"getelementptr inbounds i8, ptr {base}, i64 {start}")

    def barrier(self, emitter: FunctionEmitter) -> None:
        """Emit nothing: one thread runs the whole workgroup."""

    def field(self, emitter: FunctionEmitter, name: str) -> tuple[str, str]:
        """Return a field of `hal.import.fields` that an import requests, as (LLVM type, operand)."""
        if name == "processor_id":
            return "i32", self._load_field(emitter, "%workgroup", _PROCESSOR_ID, "i32", align=4)
        if name == "processor_data":
            return "ptr", emitter.once(
                "processor", lambda: emitter.body.let_entry(f"getelementptr i8, ptr %env, i64 {_PROCESSOR}")
            )
        raise emitter.error(f"unknown entry '{name}' in hal.import.fields", "known are: processor_id, processor_data")

    def import_call(self, emitter: FunctionEmitter, callee: FuncOp, operands: list[Value]) -> list[str]:
        """Emit a call through the import table, and return its results."""
        return self.import_calls.call(emitter, callee, operands)

    def import_available(self, emitter: FunctionEmitter, callee: FuncOp) -> str:
        """Return whether an import was found, an i1."""
        return self.import_calls.available(emitter, callee)

    @property
    def pages(self) -> list[int]:
        """Local memory of each export, in units of 4096 bytes. It is the same for all: that of the whole module, whose
        reservations do not overlap."""
        return [-(-self.local_memory // PAGE)] * len(self._exports)

    def finish(self, module: ModuleWriter) -> None:
        """Add the library's tables and its query function to the module, unless another module contains them."""
        if self._executable is None:  # another module contains them
            return
        tables = library(
            self._executable,
            self._exports,
            imports=self.imports,
            constants=len(self._constants),
            pages=self.pages,
            functions=[export_symbol(export.name) for export in self._exports],
        )
        module.globals.update(tables)


def _low_bits(emitter: FunctionEmitter, word: str, type_: Attribute) -> str:
    """Emit, in the entry block, a scalar of fewer than 32 bits from the low bits of an i32."""
    width = bit_width(type_)
    narrow = emitter.body.let_entry(f"trunc i32 {word} to i{width}")
    if not is_float(type_):
        return narrow
    return emitter.body.let_entry(f"bitcast i{width} {narrow} to {scalar(type_)}")
