"""Format of the kernels of a CUDA variant in an artifact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.strict import count, listed, table, text
from pydispatch.formats.elf.reader import is_elf
from pydispatch.formats.ptx.parameters import Parameters, parameters_of

if TYPE_CHECKING:
    from pydispatch._core.commands import Export

PTX, CUBIN = "ptx", "cubin"
MAX_THREADS = 1024
"""Invocations of a block that any device starts."""

Block = tuple[int, int, int]  # threads along x, y and z


@dataclass(frozen=True)
class DeclaredKernel:
    """Kernel (entry) as the PTX or cubin module that defines it declares it.

    Attributes:
        name: Symbol of the kernel.
        parameters: Size of each parameter in bytes.
        required_block: Block size of .reqntid, 1 to 3 numbers of threads along x, y and z; None if not declared.
        maximum_block: Block size of .maxntid in the same form; None if not declared.
    """

    name: str
    parameters: tuple[int, ...]
    required_block: tuple[int, ...] | None
    maximum_block: tuple[int, ...] | None


@dataclass(frozen=True)
class KernelEntry:
    """Kernel that an export launches, as the artifact describes it: name, block size and parameters.

    Attributes:
        ordinal: Index of the export in its executable.
        name: Name of the export.
        module: Index of the module that contains the kernel.
        symbol: Name of the kernel in the module.
        block: Invocations of a thread block along x, y and z.
        shared: Dynamic workgroup memory (CUDA's shared memory) of a block in bytes.
        bindings: Number of bindings (buffers), whose addresses are the first parameters.
        sizes: Sizes in bytes of the parameters after the bindings. Empty if `described` is set.
        described: Layout of all parameters of a hand-written kernel, as the program states it. None for the usual
            parameters: the addresses of the bindings, then the constants.
        constants: Number of 32-bit words of constants that a dispatch passes; only used with `described`.
    """

    ordinal: int
    name: str
    module: int
    symbol: str
    block: Block
    shared: int
    bindings: int
    sizes: tuple[int, ...]
    described: Parameters | None = None
    constants: int = 0


class ModuleRange(NamedTuple):
    """Range of one module in the code of a variant. offset, size: in bytes. kind: PTX or CUBIN."""

    offset: int
    size: int
    kind: str


def kind_of(data: bytes | memoryview) -> str:
    """Return the kind of code: cubin for an ELF file, else PTX."""
    return CUBIN if is_elf(data) else PTX


def declared_kernels(data: bytes, kind: str, where: str) -> list[DeclaredKernel]:
    """Return the kernels that a module declares. Raise ArtifactError if the module is broken.

    kind: PTX or CUBIN. where: text that the message begins with.
    """
    if kind == CUBIN:
        from pydispatch.formats.elf import cubin

        return [
            DeclaredKernel(entry.name, tuple(entry.parameters), entry.required, entry.maximum)
            for entry in cubin.read(data, where).entries
        ]
    from pydispatch.formats.ptx import interface, read

    module = read.read(data, where)
    return [
        DeclaredKernel(
            entry.name, tuple(interface.parameter_sizes(entry)), entry.directives.get("reqntid"),
            entry.directives.get("maxntid"),
        )
        for entry in module.entries
    ]  # fmt: skip


class PtxParts:
    """Contents of the key "ptx" of a variant: modules, entry points and launch metadata.

    A file that is supplied for a declared executable counts as one module. Lists with an item per export are in the
    order of the ordinals, and empty if the key lacks them.

    Attributes:
        where: Begin of error messages.
        modules: Range of each module in the code.
        entries: (index of the module, symbol) of each export's kernel; None if kernels are found by the names of the
            exports.
        blocks: Block size of each export; None for one that the kernel itself states.
        shared: Bytes of dynamic workgroup memory of each export.
        parameters: Size in bytes of each parameter after the bindings, by export.
        constants: Names of the variables that are set when the module is loaded.
        described: Layout of all parameters of each export, which the program states for a hand-written kernel. None
            stands for the usual parameters: the addresses of the bindings, then the constants.
    """

    def __init__(self, code: bytes | memoryview, notes: object, where: str) -> None:
        """Read which modules a variant has, and how each export is launched: symbol, block size, workgroup memory.

        Args:
            code: PTX or cubin modules, one after the other.
            notes: Value of the key "ptx" of the variant in manifest.json. None if it is missing: the code is then one
                module without metadata.
            where: Begin of error messages.

        Raises:
            ArtifactError: The notes do not fit the code.
        """
        self.where = where
        # Without notes: one module, whose kernels are found by name and state their block sizes.
        self.modules = [ModuleRange(0, len(code), kind_of(code))]
        self.entries: list[tuple[int, str]] | None = None  # (module, symbol) per export; None: symbol = export's name
        self.blocks: list[Block | None] = []  # per export, like `shared` (bytes), `parameters` (sizes), `described`
        self.shared: list[int] = []
        self.parameters: list[tuple[int, ...]] = []
        self.constants: list[str] = []  # variables that are set when the module is loaded
        self.described: list[Parameters | None] = []
        if notes is None:
            return
        try:
            self._read(notes, len(code))
        except (KeyError, ValueError) as error:
            raise ArtifactError(f'{where}: manifest.json: the key "ptx" of its variant: {error}') from None

    def _read(self, notes: Any, size: int) -> None:
        """Read the attributes from the notes, a JSON object with their names as keys.

        Raise KeyError or ValueError unless the notes describe `size` bytes of code.

        Example:
            Two exports in one module of 4096 bytes; the second has 1024 bytes of workgroup memory and two scalars:

                {"modules": [[0, 4096, "ptx"]], "entries": [[0, "add"], [0, "mul"]],
                 "blocks": [[64, 1, 1], [256, 1, 1]], "shared": [0, 1024], "parameters": [[4], [4, 8]],
                 "constants": []}

            A module is [offset in the code, bytes, format], an entry [index of the module, symbol of the kernel].
            "parameters" has the sizes of the scalars, and "constants" the names of variables that are set when the
            module is loaded.

            For code that is supplied when the program is loaded, "modules", "entries" and "parameters" are missing. The
            key "described" is optional: the layout of all parameters of a hand-written kernel, by export.
        """
        notes = table(notes)
        self.blocks = [None if block is None else _block(block) for block in listed(notes["blocks"])]
        self.shared = [count(n) for n in listed(notes["shared"])]
        self.constants = [text(name) for name in listed(notes["constants"])]
        described = listed(notes.get("described", []))
        self.described = [None if item is None else parameters_of(listed(item)) for item in described]
        if "modules" not in notes:  # the code is one module, whose kernels have the names of the exports
            return
        triples = [listed(item, 3) for item in listed(notes["modules"])]
        self.modules = [ModuleRange(count(at), count(size), text(kind)) for at, size, kind in triples]
        pairs = [listed(pair, 2) for pair in listed(notes["entries"])]
        self.entries = [(count(module), text(symbol)) for module, symbol in pairs]
        self.parameters = [tuple(map(count, listed(sizes))) for sizes in listed(notes["parameters"])]
        for offset, length, kind in self.modules:
            if offset + length > size or kind not in (PTX, CUBIN):
                raise ValueError(f"a module of kind '{kind:.20}' has {length} bytes at {offset} of {size}")
        if not all(module < len(self.modules) for module, _ in self.entries):
            raise ValueError("an entry is in a module that is not there")
        if not all(size in (1, 2, 4, 8) for sizes in self.parameters for size in sizes):
            raise ValueError("a parameter has 1, 2, 4 or 8 bytes")

    def module_codes(self, code: bytes | memoryview) -> list[bytes]:
        """Return the code of each module."""
        return [bytes(code[offset : offset + size]) for offset, size, _ in self.modules]

    def kernel_entries(self, modules: Sequence[bytes], exports: Sequence[Export]) -> list[KernelEntry]:
        """Return the kernel of each export. modules: code of each module, with imports resolved.

        The program states the module and the symbol of each kernel in `entries`; without it, the modules are searched
        for the names of the exports.

        Raises:
            ArtifactError: A kernel is missing or its parameters do not match the program.
        """
        if self.entries is not None:
            return [self._kernel_from_notes(export, self.entries) for export in exports]
        return [self._kernel_by_name(export, modules) for export in exports]

    def _kernel_from_notes(self, export: Export, entries: Sequence[tuple[int, str]]) -> KernelEntry:
        """Return the kernel of an export from the notes, the JSON object of the key "ptx" of the variant.

        entries: (index of the module, symbol) of the kernel of each export, by ordinal. The parameters have the layout
        that the program states, if it states one, or else the sizes in the notes.
        """
        ordinal, name = export.ordinal, export.name
        # The notes have one entry, block, shared size and parameter list for each ordinal of an export.
        if ordinal >= min(len(entries), len(self.blocks), len(self.shared), len(self.parameters)):
            raise ArtifactError(
                f"{self.where}: export '@{name}' has the ordinal {ordinal}, its variant lists {len(entries)}"
            )
        module, symbol = entries[ordinal]
        block, sizes, shared = self.blocks[ordinal], self.parameters[ordinal], self.shared[ordinal]
        if block is None:
            raise ArtifactError(f"{self.where}: export '@{name}': its variant states no size of its blocks")
        described = self._described(ordinal)  # layout of all parameters, if the program states it; else None
        if described is not None:
            if problem := described.mismatch(export.bindings, export.constants):
                raise ArtifactError(f"{self.where}: export '@{name}': its parameters: {problem}")
            return KernelEntry(
                ordinal, name, module, symbol, block, shared, export.bindings, sizes=(), described=described,
                constants=export.constants,
            )  # fmt: skip
        # A parameter takes whole 32-bit words of the constants: 1 for 1, 2 or 4 bytes, and 2 for 8 bytes.
        words = sum(max(1, size // 4) for size in sizes)
        if words != export.constants:
            raise ArtifactError(
                f"{self.where}: export '@{name}' has {export.constants} constants in the program, and parameters for "
                f"{words} in its variant"
            )
        return KernelEntry(ordinal, name, module, symbol, block, shared, export.bindings, sizes)

    def _described(self, ordinal: int) -> Parameters | None:
        """Return the layout of an export's parameters that the program states; None if it states none."""
        return self.described[ordinal] if ordinal < len(self.described) else None

    def _kernel_by_name(self, export: Export, modules: Sequence[bytes]) -> KernelEntry:
        """Return the kernel of an export when the manifest lists no `entries`, as for a supplied PTX file.

        This is the kernel of the module that has the name of the export, or the only kernel of the module. The program
        or .reqntid in the kernel states its block size; if both do, the sizes must be equal. Raise ArtifactError if
        there is no such kernel, or its parameters or block size do not match the program.

        Args:
            export: The export.
            modules: Code of each module; only the first is read, since without `entries` there is one.
        """
        ordinal, name, bindings = export.ordinal, export.name, export.bindings
        kind = self.modules[0].kind
        kernels = declared_kernels(modules[0], kind, self.where)
        only_kernel = kernels[0] if len(kernels) == 1 else None
        kernel = next((k for k in kernels if k.name == name), only_kernel)
        if kernel is None:
            kernel_names = ", ".join(k.name for k in kernels) or "none"
            raise ArtifactError(f"{self.where}: there is no entry '{name}'; the module has: {kernel_names}")
        # Parameters: the program describes all of them, or the kernel declares the sizes of those after the bindings.
        described = self._described(ordinal)
        sizes = kernel.parameters[bindings:] if described is None else ()
        self._check(export, kernel, ptx=modules[0] if kind == PTX else None)
        # Block size and shared memory: `blocks` and `shared` are empty if the variant has no notes.
        program_block = self.blocks[ordinal] if ordinal < len(self.blocks) else None
        block = self._block_size(export, kernel, program_block)
        shared = self.shared[ordinal] if ordinal < len(self.shared) else 0
        return KernelEntry(
            ordinal, name, module=0, symbol=kernel.name, block=block, shared=shared, bindings=bindings, sizes=sizes,
            described=described, constants=export.constants,
        )  # fmt: skip

    def _check(self, export: Export, kernel: DeclaredKernel, ptx: bytes | None) -> None:
        """Raise ArtifactError if the parameters of a kernel do not match its export.

        Args:
            export: The export.
            kernel: Its kernel.
            ptx: Text of the module; None for a cubin.
        """
        if problem := self._mismatch(export, kernel, ptx):
            raise ArtifactError(f"{self.where}, export '@{export.name}', entry '{kernel.name}': {problem}")

    def _mismatch(self, export: Export, kernel: DeclaredKernel, ptx: bytes | None) -> str | None:
        """Return why the parameters of a kernel do not match its export; None if they do.

        Parameters are compared with the layout that the program describes, if it describes one. Otherwise they must be
        the pointers of the bindings, then the constants. PTX states the types of parameters, a cubin only their sizes.

        Args:
            export: The export.
            kernel: Its kernel.
            ptx: Text of the module; None for a cubin.
        """
        from pydispatch.formats.ptx import interface, read

        constants, bindings, described = export.constants, export.bindings, self._described(export.ordinal)
        entry = None if ptx is None else read.read(ptx, self.where).function(kernel.name)
        if described is not None:
            return interface.described_mismatch(described, constants, bindings, kernel.parameters, entry)
        if ptx is None:
            return interface.mismatch_of_sizes(kernel.parameters, constants, bindings)
        assert entry is not None
        return interface.mismatch(entry, constants, bindings)

    def _block_size(self, export: Export, kernel: DeclaredKernel, program_block: Block | None) -> Block:
        """Return the block size of a kernel, which the program or .reqntid in the kernel states.

        program_block: the size that the program states; None if it states none. Raise ArtifactError if neither states
        a size, or if the two differ.
        """
        where = f"{self.where}, export '@{export.name}', entry '{kernel.name}'"
        if kernel.required_block is None:
            if program_block is not None:
                return program_block
            raise ArtifactError(
                f"{where}: nothing states the size of its blocks; write workgroup_size = [64 : index, 1 : index, "
                "1 : index] at the export, or .reqntid (__launch_bounds__ does not fix it) in the kernel"
            )
        block = _padded_block(kernel.required_block)
        if program_block is not None and program_block != block:
            raise ArtifactError(
                f"{where}: the program has blocks of {_block_text(program_block)}, its .reqntid {_block_text(block)}"
            )
        return block

    def constant_values(self, words: Sequence[int]) -> list[tuple[str, int]]:
        """Return (variable, value) of each executable constant. words: one 32-bit word per name in `constants`.

        A name that is listed twice is 64 bits wide, low word first.
        """
        values: dict[str, int] = {}
        for name, word in zip(self.constants, words, strict=False):
            low = values.get(name)
            word &= 0xFFFFFFFF
            values[name] = word if low is None else low | word << 32
        return list(values.items())


def _block(value: Any) -> Block:
    """Return a checked block size of three positive numbers."""
    x, y, z = map(count, listed(value, 3))
    if not 1 <= x * y * z <= MAX_THREADS:
        raise ValueError(f"a block has 1 to {MAX_THREADS} threads, got {x}x{y}x{z}")
    return x, y, z


def _padded_block(numbers: Sequence[int]) -> Block:
    """Return a block size as three numbers, padded with 1."""
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _block_text(block: Block) -> str:
    """Return a block size as text, such as "64x1x1"."""
    return "x".join(map(str, block))
