"""LLVM modules of a variant, and their compilation to objects.

Exports that share nothing have one module each; in a fallback variant, exports that differ only in integers share one.

Each module is compiled separately, so that its code does not depend on the rest of the program. Modules are compiled in
parallel processes, and results are cached by text, machine and tools.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from pydispatch.compiler import devlib
from pydispatch.compiler.backends.cpu.clock import Clock
from pydispatch.compiler.backends.cpu.loops import LoopProperties, properties_of
from pydispatch.compiler.backends.cpu.shared_code import Instance, Template, instance_of, shared_module
from pydispatch.compiler.emit.llvm.cpu.library import QUERY_SYMBOL, library
from pydispatch.compiler.emit.llvm.cpu.platform import CpuPlatform
from pydispatch.compiler.emit.llvm.emitter import emit_module
from pydispatch.compiler.emit.llvm.function import export_symbol
from pydispatch.compiler.emit.llvm.module import Symbols, symbols_of
from pydispatch.compiler.kernel_ir.calls import is_declaration
from pydispatch.compiler.kernel_ir.fallbacks import resolve_fallbacks
from pydispatch.compiler.kernel_ir.kernel import Export, Variant
from pydispatch.compiler.kernel_ir.readers import quoted
from pydispatch.compiler.target.backend import Dump
from pydispatch.compiler.target.cpu import Machine
from pydispatch.compiler.toolchain import cache, foreign, llvm, machines, objects
from pydispatch.compiler.worker import llvm_process
from pydispatch.distributions import version
from pydispatch.errors import CompileError
from pydispatch.formats.artifact.imports import ImportSignature

Linked = tuple[str, bytes, bool]
"""Bitcode that is linked into a module: its name, its bytes, and whether its CPU features must be checked, since it was
not compiled here."""


@dataclass(frozen=True)
class Unit:
    """LLVM module that is compiled to one object. `Units.emit` creates it, and `UnitContext.compile` compiles it.

    Attributes:
        variant: The variant, with only the exports whose code is in this module.
        text: LLVM IR.
        visible_symbols: Symbols that other objects or the runtime refer to; all others become internal.
        defined_elsewhere: Symbols that other units define; only the unit of library tables, which is last, has some.
        stem: Part of the names of dumped files.
        loops: What the loops of its kernels contain.
        notes: For dumps: a line for each parallel loop around sequential loops, which says whether its iterations
            became lanes of vectors, or why not.
    """

    variant: Variant
    text: str
    visible_symbols: frozenset[str]
    defined_elsewhere: frozenset[str] = frozenset()
    stem: str = ""
    loops: LoopProperties = field(default_factory=LoopProperties)
    notes: tuple[str, ...] = ()


@dataclass
class Units:
    """Generator of the LLVM modules of one variant; its kernels are divided into several modules, the units.

    The backend creates one for each variant. A `UnitContext` compiles the modules that `emit` yields.

    The attributes after `machine` are complete when `emit` has yielded the last module.

    Attributes:
        variant: The variant.
        machine: The CPU to compile for.
        alignment: Alignment in bytes that the code requires of bindings.
        imports: Symbols to resolve at load, with '?' before optional ones.
        signatures: Types of the arguments and results of the imports.
    """

    variant: Variant
    machine: Machine
    alignment: int = 1
    imports: tuple[str, ...] = ()
    signatures: tuple[ImportSignature, ...] = ()
    _pages: list[int] = field(default_factory=list)  # of 4096 bytes of local memory, per export emitted so far

    def emit(self, provided: Callable[[], frozenset[str]]) -> Iterator[Unit]:
        """Yield the LLVM modules of the variant; each is compiled to one object.

        One of the modules has the library tables, which describe the exports to the runtime: functions, names, numbers
        of bindings. Depending on the variant, the modules are

        - the tables alone, if the kernels are in the user's objects; an empty module if the objects have tables, too
        - one module of all exports, with the tables, if there is only one export, or if the exports share objects,
          constants or imports
        - one module for each export, and then one of the tables. In a fallback variant, exports that differ only in
          integers share a module

        Args:
            provided: Function that returns the symbols that objects of the variant define; called only if needed.

        Raises:
            CompileError: At the operation that cannot be lowered.
        """
        variant = self.variant
        if variant.module is None:
            yield self._tables_of_objects(is_whole_library=QUERY_SYMBOL in provided())
            return
        symbols = symbols_of(resolve_fallbacks(variant.module, provided))
        calls_imports = any(is_declaration(function) for function in symbols.functions.values())
        # Objects, constants and imports are shared by the exports of a library, so these need one module.
        exports_share = variant.objects or variant.constants or calls_imports
        if len(variant.exports) == 1 or exports_share:
            text, notes = self._emit(variant.executable, variant.exports, symbols)
            unit = Unit(variant, text, frozenset([QUERY_SYMBOL]), notes=notes)
            yield _with_properties_of_loops(unit, symbols)
            return
        units = (self._unit(export, symbols) for export in variant.exports)
        # LLVM compiles shared code without knowing the sizes, so only fallbacks share it.
        yield from _with_shared_code(list(units)) if variant.is_fallback else units
        kernels = [export_symbol(export.name) for export in variant.exports]
        # The last unit has the library tables of all exports.
        yield replace(self._library(kernels, self._pages), defined_elsewhere=frozenset(kernels))

    def _unit(self, export: Export, symbols: Symbols) -> Unit:
        """Return the unit of one export, without library tables."""
        variant = self.variant
        text, notes = self._emit(executable=None, exports=(export,), symbols=symbols)
        one = replace(variant, exports=(export,), location=export.location or variant.location)
        unit = Unit(one, text, frozenset([export_symbol(export.name)]), stem=export.name, notes=notes)
        return _with_properties_of_loops(unit, symbols)

    def _emit(self, executable: str | None, exports: Sequence[Export], symbols: Symbols) -> tuple[str, tuple[str, ...]]:
        """Generate the LLVM IR of exports, and record their alignment, imports and local memory.

        Return the text and the notes of a `Unit`. Local memory, the working memory of a workgroup, is recorded in
        `_pages` in pages of 4096 bytes, as the library tables state it.

        Args:
            executable: Name of the executable for the library tables; None for a module without tables.
            exports: The exports.
            symbols: Functions of the variant's module.
        """
        machine, constants = self.machine, self.variant.constants
        # The platform derives the import table from the functions. `emit` divides a variant into modules without tables
        # only if none of its functions calls imports.
        functions = None if executable is None else symbols.functions
        platform = CpuPlatform(machine.arch, machine.has, executable, exports, constants, functions)
        notes: list[str] = []
        text = emit_module(symbols, platform, [export.name for export in exports], notes=notes)
        self.alignment = max(self.alignment, platform.alignment)
        # If there are several modules, all of them have no imports: these lists need not be merged with earlier ones.
        self.imports = tuple(entry.marked_symbol for entry in platform.imports)
        self.signatures = platform.import_calls.signatures
        self._pages += platform.pages
        return text, tuple(notes)

    def _tables_of_objects(self, is_whole_library: bool) -> Unit:
        """Build the unit of a variant whose kernels are all in the user's objects; the exports are C functions.

        The unit contains only the library tables.

        is_whole_library: whether the objects define QUERY_SYMBOL, which the linker takes from them; the unit then has
            no code.
        """
        exports = self.variant.exports
        if is_whole_library:
            return Unit(self.variant, "", frozenset([QUERY_SYMBOL]))
        # 0 pages: the tables reserve only the local memory that the exports declare.
        return self._library([export.name for export in exports], pages=[0] * len(exports))

    def _library(self, functions: Sequence[str], pages: Sequence[int]) -> Unit:
        """Return a unit that contains only the library tables.

        Args:
            functions: Symbol of each export, which another object defines.
            pages: For each export, the pages of local memory that its code uses.
        """
        variant = self.variant
        lines = [f"declare hidden i32 @{quoted(name)}(ptr, ptr, ptr)" for name in functions]
        tables = library(
            variant.executable,
            variant.exports,
            imports=(),
            constants=len(variant.constants),
            pages=pages,
            functions=functions,
        )
        text = "\n".join([*lines, *(text for _, text in tables)])
        return Unit(variant, text, frozenset([QUERY_SYMBOL]))


@dataclass(frozen=True)
class UnitContext:
    """Code, objects and settings that all units of a variant are compiled and linked with.

    Attributes:
        machine: The CPU to compile for.
        user_bitcode: Bitcode of the user that is linked into each unit.
        user_objects: Objects of the user that are linked with the units; undefined symbols are checked against them.
        clock: Measures the time of each step.
        dump: Writes intermediate texts; None if they are not requested.
    """

    machine: Machine
    user_bitcode: Sequence[Linked]
    user_objects: Sequence[objects.Checked]
    clock: Clock
    dump: Dump | None

    def compile(self, units: Iterator[Unit]) -> list[bytes]:
        """Compile the units in parallel, and return their objects in order. Raises the CompileError of the first unit
        that fails.
        """
        with ThreadPoolExecutor(llvm_process.size()) as threads:
            pending = [threads.submit(self._object, unit) for unit in units]
            try:
                return [future.result() for future in pending]
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _object(self, unit: Unit) -> bytes:
        """Return the object code of a unit, from the cache if possible.

        Units with bitcode or objects of the user are not cached: `_link` checks undefined symbols against the objects,
        and the key has neither the bitcode nor the objects.
        """
        is_cached = self.dump is None and not self.user_bitcode and not self.user_objects
        inputs = (
            machines.words(self.machine),
            sorted(unit.visible_symbols),
            unit.text,
            astuple(unit.loops),
            unit.variant.is_fallback,
        )
        key = cache.digest("unit", _tools(), *inputs) if is_cached else None
        code = None if key is None else cache.load(key)
        if code is None:
            code = self._compile(unit)
            if key is not None:
                cache.store(key, code)
        # Count the exports as compiled, for the report of progress. A unit with symbols that other units define has
        # only the library tables; the code of its exports was counted with those units.
        if not unit.defined_elsewhere:
            for export in unit.variant.exports:
                unit.variant.report_compiled(export.name)
        return code

    def _compile(self, unit: Unit) -> bytes:
        """Compile a unit by LLVM, and return the object code.

        LLVM runs in another process. Raises CompileError also if LLVM aborts that process.
        """

        def dump(suffix: str, content: bytes | str) -> object:
            """Write an intermediate text of `unit`, and return its path; return None if texts are not requested."""
            if self.dump is None:
                return None
            return self.dump(f".{unit.stem}{suffix}" if unit.stem else suffix, content)

        dumped: list[tuple[str, bytes | str]] = [(".ll", unit.text)]  # (suffix, content) of the files to dump
        if unit.notes:
            dumped.append((".vectors.txt", "\n".join(unit.notes) + "\n"))
        try:
            with self.clock("parse"):
                opened = llvm.opened(unit.text, self.machine)
            with opened as module:
                self._link(module, unit)
                with self.clock("optimize"):
                    # The sums of register blocks are in registers from the start. Promotion of memory to registers and
                    # loop strength reduction would take long and find nothing.
                    module.optimize(self._effort(unit), promote_memory=not unit.loops.register_blocks)
                left_out = _passes_to_leave_out(unit.loops)  # passes of code generation, such as "lsr"
                with self.clock("codegen"):
                    code = module.object(left_out)
                if self.dump:
                    dumped += [(".optimized.ll", module.text()), (".s", module.assembly(left_out))]
        except llvm_process.Died as died:
            raise died.error_for(unit.variant, self.machine.cpu, dump(".ll", unit.text)) from None
        except CompileError as error:
            if error.location:
                raise
            raise CompileError(error.message, unit.variant.location, error.note) from error
        for suffix, content in (*dumped, (".o", code)):
            dump(suffix, content)
        return code

    def _effort(self, unit: Unit) -> machines.Effort:
        """Return the optimization effort: full for code of users, less for a variant that is only a fallback, and the
        short pipeline `BLOCKS` for products in register blocks.
        """
        if self.user_bitcode or self.user_objects:
            return machines.FULL
        if unit.variant.is_fallback:
            return machines.LESS
        # LLVM does not vectorize a loop whose loads at a stride are under a condition. Only with full effort does it
        # move a condition that the loop does not change out of the loop.
        has_short_pipeline = unit.loops.register_blocks and not unit.loops.strided_loads_under_conditions
        return machines.BLOCKS if has_short_pipeline else machines.FULL

    def _link(self, module: llvm.LlvmModule, unit: Unit) -> None:
        """Link the user's bitcode and the device library into a module, and internalize the symbols that no other
        object uses.
        """
        with self.clock("bitcode"):
            for name, data, check_features in self.user_bitcode:
                module.link(name, data, check_features=check_features)
            undefined = self._link_device_library(module)
            # Check that every symbol that this unit or an object of the user calls is defined somewhere.
            own, provided = module.defined(), devlib.provided_symbols()
            objects.check_undefined(
                undefined - unit.defined_elsewhere,
                user=f"executable '{unit.variant.executable}'",
                checked=self.user_objects,
                provided=provided,
                location=unit.variant.location,
                own=own,
            )
            objects.check_needs(self.user_objects, own, provided)
            called_by_objects = {symbol for file in self.user_objects for symbol in file.undefined}
            module.internalize(unit.visible_symbols | called_by_objects)

    def _link_device_library(self, module: llvm.LlvmModule) -> set[str]:
        """Link the functions of the device library that LLVM can inline, such as expf, into a module.

        The linker adds others later. A definition of the user has precedence. Return the symbols left undefined.
        """
        undefined = module.undefined()
        inlined = undefined & devlib.inlinable_symbols()
        inlined -= {symbol for file in self.user_objects for symbol in file.defined}
        if not inlined:
            return undefined
        machine = self.machine
        module.link("device library", devlib.bitcode(machine.arch, machine.cpu, machine.features, inlined))
        return module.undefined()


def _with_shared_code(units: Sequence[Unit]) -> list[Unit]:
    """Return the units of single exports, where units that differ only in integers are replaced by one joined unit."""
    alike: dict[tuple[Template, LoopProperties], list[tuple[Unit, Instance]]] = {}
    others: list[Unit] = []
    for unit in units:
        instance = instance_of(unit.text)
        if instance is None:
            others.append(unit)
        else:
            alike.setdefault((instance.template, unit.loops), []).append((unit, instance))
    return [*map(_joined, alike.values()), *others]


def _joined(members: Sequence[tuple[Unit, Instance]]) -> Unit:
    """Return one unit for units whose modules are instances of one template."""
    units = [unit for unit, _ in members]
    if len(units) == 1:
        return units[0]
    exports = tuple(export for unit in units for export in unit.variant.exports)
    return replace(
        units[0],
        variant=replace(units[0].variant, exports=exports),
        text=shared_module([instance for _, instance in members]),
        visible_symbols=frozenset().union(*(unit.visible_symbols for unit in units)),
        notes=tuple(note for unit in units for note in unit.notes),
    )


def _with_properties_of_loops(unit: Unit, symbols: Symbols) -> Unit:
    """Return the unit with the properties of its kernels' loops."""
    return replace(unit, loops=properties_of([symbols.functions[export.name] for export in unit.variant.exports]))


def _passes_to_leave_out(loops: LoopProperties) -> list[llvm.CodePass]:
    """Return the passes of code generation that kernels with such loops are better without, on x86-64."""
    passes: list[llvm.CodePass] = []
    if loops.register_blocks:
        passes.append("lsr")
    if loops.constants_after_blocks:
        passes.append("machine-licm")
    return passes


@functools.cache
def _tools() -> str:
    """Return a digest of what the generated code depends on besides text and machine: LLVM, this pipeline of passes,
    and the device library.
    """
    pipeline = [Path(file).read_bytes() for file in (__file__, llvm.__file__, foreign.__file__)]
    return cache.digest(version("llvmlite"), llvm_process.version(), pipeline, devlib.fingerprint())
