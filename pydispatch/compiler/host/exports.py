"""Index of executables for host functions: indices of exports, grids, layouts, conditions and constants.

Code is emitted into functions of the host program, whose registers are named by their indices. `NONE` is the index of
an absent function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation, Region

from pydispatch.compiler.host.scalar_table import EQ
from pydispatch.compiler.host.scalars import Registers, ScalarLowering
from pydispatch.compiler.kernel_ir.kernel import Layout
from pydispatch.compiler.kernel_ir.words import words_of
from pydispatch.compiler.target.backend import require_backend
from pydispatch.compiler.target.variants import (
    constant_blocks,
    constant_words,
    exports_of,
    layout_of,
    ordinals_of,
    users_alignment,
    variants_of,
)
from pydispatch.errors import CompileError
from pydispatch.formats.program.program import (
    NONE,
    ExportEntry,
    FunctionArgument,
    Numerical,
    Opcode,
    Program,
    ProgramExecutable,
    ProgramFunction,
    Result,
    dtype_word,
)
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.dialects.hal.tiles import tiles_of


@dataclass
class _Variant:
    """Variant of an executable: code for one kind of target, with its exports by name and their ordinals by name."""

    op: hal.ExecutableVariantOp
    exports: dict[str, hal.ExecutableExportOp]
    ordinals: dict[str, int]


def _with_exports(variant: hal.ExecutableVariantOp) -> _Variant:
    """Return a variant with its exports and their ordinals by name."""
    return _Variant(variant, {e.sym_name.data: e for e in exports_of(variant)}, ordinals_of(variant))


class Executables:
    """Index of executables and exports in the host program; it also inlines their host regions.

    The lowering of a module creates one. The lowering of each dispatch then calls `find`, `grid` and the queries of the
    layout; an export is added to the program when it is first dispatched.

    Attributes:
        program: The host program.
        ops: Name of an executable → its operation.
        variants: Name of an executable → its variants, in their order in the module.
        index_of_executable: Name of an executable → its index in the program.
    """

    def __init__(self, module: ModuleOp, program: Program) -> None:
        """Add the executables of `module` to `program`.

        Also add the functions that run when the program is loaded: for each variant with a condition one that evaluates
        it, and for each executable with constants one that computes them.
        """
        self.program = program
        self.ops = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, hal.ExecutableOp)}
        self.variants = {name: [_with_exports(variant) for variant in variants_of(op)] for name, op in self.ops.items()}
        self.index_of_executable: dict[str, int] = {}
        self._exports: dict[tuple[str, str], int] = {}  # (executable, export) → index of the export in the program
        self._alignments: dict[str, int] = {}  # executable → alignment that it states for its bindings
        # The conditions of variants and the constants of an executable are functions of the program; the table has
        # their indices.
        for name, op in self.ops.items():
            self.index_of_executable[name] = len(program.executables)
            entry = ProgramExecutable(name)
            program.executables.append(entry)
            entry.variant_conditions = [self._condition(v) for v in variants_of(op)]
            entry.constants_function = self._constants(op)

    # -- functions that run at load

    def _condition(self, variant: hal.ExecutableVariantOp) -> int:
        """Add the function that returns whether a variant may be used on the device, and return the function's index.

        Return NONE for a variant without a condition.
        """
        for op in variant.body.block.ops:
            if isinstance(op, hal.ExecutableConditionOp):
                function = self.program.add_function(f"{variant.sym_name.data}.condition", public=False)
                (value,) = inline(function, op.body, arguments=[])
                add_scalar_result(function, value)
                return self.program.function_index(function)
        return NONE

    def _constants(self, op: hal.ExecutableOp) -> int:
        """Add the function that computes the executable constants from the index of the chosen variant.

        Return its index; NONE if there are no constants. The function computes the constants of all variants and
        selects those of the chosen one. Raises CompileError if the variants declare different numbers of words.
        """
        variants = variants_of(op)
        counts = {len(constant_words(v)) for v in variants}
        if counts == {0}:
            return NONE
        if len(counts) > 1:
            raise CompileError(
                f"the variants of '@{op.sym_name.data}' declare different numbers of constants: {sorted(counts)}",
                location_of(op),
                "give every variant a hal.executable.constant.block with as many keys; one of 64 bits counts twice",
            )
        # Compute the constants of all variants. Begin with those of variant 0; for each other variant, select its own
        # if it is the chosen one.
        function = self.program.add_function(f"{op.sym_name.data}.constants", public=False)
        function.add_argument(FunctionArgument(dtype_word(Numerical.INTEGER, 64), dims=None, name="variant"))
        chosen = function.scalar_argument(0)
        values: list[int] = []
        for variant_index, variant in enumerate(variants):
            own_values = [r for block in constant_blocks(variant) for r in _constant_words(function, block)]
            if not values:
                values = own_values
                continue
            is_chosen = function.compare(Opcode.CMP, EQ, chosen, function.constant(variant_index))
            values = [_select(function, is_chosen, own, other) for other, own in zip(values, own_values, strict=True)]
        for value in values:
            add_scalar_result(function, value)
        return self.program.function_index(function)

    # -- what a dispatch needs

    def find(self, references: Sequence[SymbolRefAttr], op: Operation) -> tuple[hal.ExecutableOp, str]:
        """Return the executable and the name of its export that the entry points of a dispatch, `references`, name.

        Each entry point is @executable::@export, or has a variant in between, which does not restrict the choice.
        Raises CompileError if one is undefined, or they name different exports.
        """
        exports: set[tuple[str, str]] = set()
        for reference in references:
            # @executable::@export, or @executable::@variant::@export.
            path = [reference.root_reference.data, *(n.data for n in reference.nested_references.data)]
            executable = self.ops.get(path[0])
            if executable is None:
                raise CompileError(
                    f"there is no executable '@{path[0]}'", location_of(op),
                    f"executables: {', '.join('@' + n for n in self.ops) or 'none'}",
                )  # fmt: skip
            if len(path) < 2:
                raise CompileError(f"'@{path[0]}' names no export", location_of(op), "write @executable::@export")
            self._require_export(executable, path, op)
            exports.add((path[0], path[-1]))
        if len(exports) != 1:
            raise CompileError("the entry points of a dispatch name different exports", location_of(op))
        name, export = exports.pop()
        return self.ops[name], export

    def _require_export(self, executable: hal.ExecutableOp, path: list[str], op: Operation) -> None:
        """Raise CompileError unless every variant of an executable has the export `path[-1]`.

        path: names of the executable and the export, as a dispatch writes them. op: the dispatch, for messages.
        """
        for variant in self.variants[executable.sym_name.data]:
            if path[-1] not in variant.exports:
                raise CompileError(
                    f"executable '@{path[0]}' has no export '@{path[-1]}' in variant '@{variant.op.sym_name.data}'",
                    location_of(op),
                    f"exports: {', '.join('@' + n for n in variant.exports) or 'none'}",
                )

    def _declarations(self, executable: hal.ExecutableOp, export: str) -> list[hal.ExecutableExportOp]:
        """Return the declarations of an export, one of each variant that has it."""
        variants = self.variants[executable.sym_name.data]
        return [variant.exports[export] for variant in variants if export in variant.exports]

    def layout(self, executable: hal.ExecutableOp, export: str) -> Layout:
        """Return the layout of an export: its number of constants, and its bindings.

        The layout is the one that the first variant declares. Raises CompileError if another variant declares another
        number of constants or bindings.
        """
        layouts = [layout_of(declaration) for declaration in self._declarations(executable, export)]
        for other in layouts[1:]:
            if (other.constants, len(other.bindings)) != (layouts[0].constants, len(layouts[0].bindings)):
                raise CompileError(
                    f"the variants of '@{executable.sym_name.data}' declare different layouts for '@{export}'",
                    location_of(executable),
                )
        return layouts[0]

    def alignment(self, executable: hal.ExecutableOp) -> int:
        """Return the alignment in bytes that an executable requires of its bindings; 1 if it requires only that of
        their elements.
        """
        name = executable.sym_name.data
        if name not in self._alignments:
            self._alignments[name] = _stated_alignment(executable)
        return self._alignments[name]

    def binding_order(self, executable: hal.ExecutableOp, export: str) -> Attribute | None:
        """Return the `hal.interface.bindings` of an export, the binding of each tensor operand and result, as its first
        variant declares them; None if it has no such attribute.
        """
        declarations = self._declarations(executable, export)
        return declarations[0].attributes.get("hal.interface.bindings") if declarations else None

    def slice_bytes(self, executable: hal.ExecutableOp, export: str) -> tuple[int, ...]:
        """Return for each binding the bytes that one workgroup accesses, if workgroup i accesses slice i of it.

        Consecutive dispatches can then run tile by tile, which only CPUs do. The tuple is empty if the CPU variants
        state no or different sizes, or if the export may be replaced by its fallback.
        """
        variants = self.variants[executable.sym_name.data]
        # Backends of GPUs have invocations (threads of a workgroup), those of CPUs have none.
        cpu_exports = [v.exports[export] for v in variants if not require_backend(v.op.target).has_invocations]
        # An export with a condition may be replaced by its fallback, which may access other slices.
        distinct_sizes = {() if export_op.condition.blocks else tiles_of(export_op) for export_op in cpu_exports}
        return distinct_sizes.pop() if len(distinct_sizes) == 1 else ()

    def export_number(self, executable: hal.ExecutableOp, export: str) -> int:
        """Return the index of an export in the program's table; add it on first use.

        Raises CompileError if its ordinals differ between variants: the table has one ordinal for all.
        """
        key = executable.sym_name.data, export
        if key in self._exports:
            return self._exports[key]
        # The ordinal is that of the kernel in the code of each variant.
        ordinals = {variant.ordinals[export] for variant in self.variants[key[0]]}
        if len(ordinals) > 1:
            raise CompileError(
                f"export '@{export}' has different ordinals in the variants of '@{executable.sym_name.data}': "
                f"{sorted(ordinals)}",
                location_of(executable),
            )
        # The entry of the table.
        layout = self.layout(executable, export)
        executable_index = self.index_of_executable[key[0]]
        self._exports[key] = len(self.program.exports)
        self.program.exports.append(
            ExportEntry(
                executable=executable_index,
                ordinal=ordinals.pop(),
                name=export,
                constant_count=layout.constants,
                binding_count=len(layout.bindings),
            )
        )
        return self._exports[key]

    def grid(
        self,
        function: ProgramFunction,
        executable: hal.ExecutableOp,
        export: str,
        workload: Sequence[int],
        op: Operation,
    ) -> tuple[int, tuple[int, int, int]]:
        """Emit the choice between variants and fallbacks; return the registers of the export's index and of its grid.

        The grid is the number of workgroups in x, y and z. Each variant has its own grid function, and an export may
        defer to its fallback on some devices.

        Args:
            function: Receives the code.
            executable: The executable.
            export: Name of the export.
            workload: Registers of the workload: the values in brackets of a dispatch, from which the grid is computed.
            op: The dispatch, for messages.
        """
        choices = [
            self._with_fallbacks(function, executable, variant, export, workload, op)
            for variant in self.variants[executable.sym_name.data]
        ]
        # Begin with variant 0; each other variant replaces its registers at run time if the device has chosen that
        # variant.
        export_register, grid = choices[0]
        for i, (other_register, other_grid) in enumerate(choices[1:], 1):
            if (export_register, grid) == (other_register, other_grid):  # nothing to choose
                continue
            # The instruction VARIANT returns the index of the variant that the device has chosen.
            chosen_variant = function.emit(Opcode.VARIANT, self.index_of_executable[executable.sym_name.data])
            is_chosen = function.compare(Opcode.CMP, EQ, chosen_variant, function.constant(i))
            export_register = _select(function, is_chosen, other_register, export_register)
            x, y, z = (_select(function, is_chosen, other, size) for size, other in zip(grid, other_grid, strict=True))
            grid = (x, y, z)
        return export_register, grid

    def _with_fallbacks(
        self, function: ProgramFunction, executable: hal.ExecutableOp, variant: _Variant, export: str,
        workload: Sequence[int], op: Operation, seen: tuple[str, ...] = (),
    ) -> tuple[int, tuple[int, int, int]]:  # fmt: skip
        """Emit the choice between an export of one variant and its fallbacks; return the registers of the export's
        index and of its grid.

        The fallback is chosen if the condition of the export is false on the device. An export without a condition is
        always chosen. Raises CompileError if fallbacks form a cycle, or if a fallback is undefined or has another
        layout.

        Args:
            function: Receives the code.
            executable: The executable.
            variant: The variant.
            export: Name of the export.
            workload: Registers of the workload: the values in brackets of a dispatch, from which the grid is computed.
            op: The dispatch, for messages.
            seen: Names of the exports that this one is, directly or through others, a fallback of.
        """
        # The export itself.
        declaration = variant.exports[export]
        _check_workload(declaration, export, len(workload), op)
        export_register = function.constant(self.export_number(executable, export))
        x, y, z = inline(function, declaration.count, workload)
        if not declaration.condition.blocks or declaration.condition_fallback is None:
            return export_register, (x, y, z)
        # Its fallback, which must bind the same buffers and constants.
        fallback = declaration.condition_fallback.root_reference.data
        if fallback in (*seen, export):
            raise CompileError(f"the fallbacks of '@{export}' form a cycle", location_of(declaration))
        self._require_export(executable, [executable.sym_name.data, fallback], declaration)
        if self.layout(executable, fallback) != self.layout(executable, export):
            raise CompileError(
                f"'@{fallback}' cannot stand in for '@{export}': their layouts differ", location_of(declaration)
            )
        # Evaluate the condition, and select the index and the grid of the export or of its fallback.
        (condition,) = inline(function, declaration.condition, arguments=[])
        other_register, other_grid = self._with_fallbacks(
            function, executable, variant, fallback, workload, op, (*seen, export)
        )
        x, y, z = (_select(function, condition, own, other) for own, other in zip((x, y, z), other_grid, strict=True))
        return _select(function, condition, export_register, other_register), (x, y, z)


def _check_workload(declaration: hal.ExecutableExportOp, export: str, size: int, op: Operation) -> None:
    """Raise CompileError unless an export has a workgroup count, computed from a workload of `size` values.

    op: the dispatch, for messages.
    """
    if not declaration.count.blocks:
        raise CompileError(
            f"export '@{export}' has no workgroup count", location_of(declaration),
            "give it a region: count(%device: !hal.device, %size: index) -> (index, index, index) { ... }",
        )  # fmt: skip
    # The device, an argument of the region, is no value of the workload.
    expected = sum(not isinstance(type, hal.DeviceType) for type in declaration.count.block.arg_types)
    if expected != size:
        raise CompileError(
            f"the workgroup count of '@{export}' takes {expected} values, the dispatch gives {size}",
            location_of(op),
            "the workload stands in brackets: flow.dispatch @executable::@export[%size](...)",
        )


def _stated_alignment(executable: hal.ExecutableOp) -> int:
    """Return the largest alignment in bytes that any variant states for its bindings; 1 if none states one."""
    alignment = 1
    for variant in variants_of(executable):
        has_only_objects = not any(isinstance(op, ModuleOp) for op in variant.body.block.ops)
        if has_only_objects:  # the user's compiled kernels, whose exports state the alignment
            alignment = max(alignment, users_alignment(variant))
        for op in walk(variant):
            stated = op.properties.get("alignment") if isinstance(op, hal.InterfaceBindingSubspanOp) else None
            if isinstance(stated, IntegerAttr):
                alignment = max(alignment, stated.value.data)
    return alignment


def _select(function: ProgramFunction, condition: int, lhs: int, rhs: int) -> int:
    """Emit the choice of register `lhs` if `condition` is true, else `rhs`, and return its register.

    Nothing is emitted if both are the same.
    """
    return lhs if lhs == rhs else function.emit(Opcode.SELECT, condition, lhs, rhs)


def inline(function: ProgramFunction, region: Region, arguments: Sequence[int]) -> list[int]:
    """Lower a region of host code into a function, and return the registers of the values that it yields.

    Raises CompileError for an operation that host code does not have.

    Args:
        function: The function that receives the code.
        region: A workgroup count, condition or constant block: scalar code of one block.
        arguments: Registers of the region's arguments other than the device, which has none.
    """
    block = region.block
    values = [a for a in block.args if not isinstance(a.type, hal.DeviceType)]
    registers: Registers = dict(zip(values, arguments, strict=True))
    lowering = ScalarLowering(function)
    for op in block.ops:
        if op.next_op is None:  # the terminator, which yields its operands
            return [registers[v] for v in op.operands]
        if not lowering.lower(op, registers):
            raise CompileError(
                f"'{op.name}' is not supported in host code", location_of(op),
                "a workgroup count, condition or constant is computed with arith, math, affine and hal.device.query",
            )  # fmt: skip
    return []  # the block is empty


def _constant_words(function: ProgramFunction, block: hal.ExecutableConstantBlockOp) -> list[int]:
    """Return the registers whose low 32 bits are the words of a block of executable constants.

    A 64-bit constant has two words, low word first; an index has one. The register of a low word has all 64 bits,
    because SPIR-V kernels of users take a 64-bit specialization constant from that register alone.
    """
    registers: list[int] = []
    for register, type in zip(
        inline(function, block.body, arguments=[]), block.function_type.outputs.data, strict=True
    ):
        registers.append(register)
        if not isinstance(type, IndexType) and words_of(type, location_of(block)) == 2:
            registers.append(function.binary(Opcode.SHRU, register, function.constant(32), width=64))
    return registers


def add_scalar_result(function: ProgramFunction, register: int) -> None:
    """Add the 64-bit integer in `register` to the results of a function."""
    function.results.append(Result(dtype_word(Numerical.INTEGER, 64), dims=None, register=register))
