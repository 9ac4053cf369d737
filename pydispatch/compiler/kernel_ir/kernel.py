"""Kernel IR: the interface between target-independent lowering and the emitters of targets.

A `Variant` is one executable for one target. Its functions are written in kernel IR: an xDSL module of `func.func`s
over `memref scf arith math affine func` in which each exported function takes no arguments and reaches its
surroundings only through `hal.interface.*` (bindings, constants, workgroup id, count and size) and
`hal.executable.constant.load`. Everything above this file is target-free; everything below is one emitter per target.
docs/kernel-ir.md defines this interface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from pydispatch.errors import Location

ARCHITECTURES = {"x86_64": "x86_64", "arm_64": "aarch64", "riscv_64": "riscv64"}
"""Architecture suffix of an embedded ELF format name -> the name that compilers and readers use."""

IN_RANGE = "pyd.in_range"
"""On a shift: its count is below the width, or its result is not used. On a division or remainder: its divisor is
not 0, and that of a signed one is not -1. The operation needs no guard."""

MOST_ITERATIONS = "pyd.most"
"""On scf.for and scf.while: the maximum number of iterations, if the bounds do not state it."""

MARKS_LINES = "pyd.lines"
"""On a function: its code states the source line of each instruction, for readers of the code."""

WHOLE_VECTORS = "pyd.whole_vectors"
"""On an scf.parallel of known length: LLVM is to compute all its iterations as the lanes of one vector, or of 2 or 4
vectors side by side, without a loop."""

UNROLLED = "pyd.unrolled"
"""On an scf.for: LLVM unrolls the loop completely."""

OWN_BYTE = "pyd.own_byte"
"""On a store of a packed element, which shares its byte: no other iteration or workgroup writes into that byte."""

UNPREDICTABLE = "pyd.unpredictable"
"""On an arith.select: its condition follows no pattern, so that a branch in its place would often be mispredicted."""


@dataclass(frozen=True)
class Target:
    """Target that a variant is compiled for: its format, configuration and backend.

    Attributes:
        backend: "llvm-cpu", "cuda", "vulkan-spirv", ...
        format: Name of the binary format, such as "embedded-elf-x86_64".
        cpu: LLVM CPU name.
        features: LLVM feature names such as "+avx2", in order.
        config: Other entries of the target attribute, used as hints.
    """

    backend: str
    format: str
    cpu: str = "generic"
    features: tuple[str, ...] = ()
    config: tuple[tuple[str, object], ...] = ()

    @property
    def arch(self) -> str:
        """Architecture of an embedded ELF, such as x86_64; the format itself for other formats."""
        return ARCHITECTURES.get(self.format.removeprefix("embedded-elf-"), self.format)


@dataclass(frozen=True)
class Binding:
    """A buffer of an export's interface; `read_only` states that no workgroup writes to it."""

    read_only: bool = False


@dataclass(frozen=True)
class Layout:
    """Interface of an export: the number of 32-bit constants, and the bindings."""

    constants: int
    bindings: tuple[Binding, ...]


@dataclass(frozen=True)
class Export:
    """Entry point (kernel) of an executable, as backends see it.

    Attributes:
        name: The name.
        ordinal: Position among the exports of the executable.
        layout: Its interface: constants and bindings.
        workgroup_size: Invocations of a workgroup along x, y and z as declared for GPUs; (0, 0, 0) if none is declared.
        local_memory: Bytes of workgroup memory that are declared.
        location: The source location of the export; None if unknown.
        flops: Terms of the formula of floating-point operations, see docs/artifact.md; None if unknown.
        parameters: Description of each parameter of a CUDA kernel, such as "binding(0)"; a parameter that is a struct
            has a list with a description of each member. None if the parameters are the bindings and then the
            constants.
    """

    name: str
    ordinal: int
    layout: Layout
    workgroup_size: tuple[int, int, int] = (0, 0, 0)
    local_memory: int = 0
    location: Location | None = None
    flops: list[Any] | None = None
    parameters: list[Any] | None = None


@dataclass(frozen=True)
class ObjectFile:
    """An object or source file of the user that is linked into an executable.

    Attributes:
        name: The file name, for messages; its suffix states the kind (.o .a .bc .c .ptx .spv ...).
        data: The content.
        location: The source location of the attribute that names the file; None if unknown.
        defines: Macros of a source, `NAME=VALUE`.
        include_dirs: Folders that are searched for includes of a source after its own folder.
    """

    name: str
    data: bytes
    location: Location | None = None
    defines: tuple[str, ...] = ()
    include_dirs: tuple[Path, ...] = ()

    @property
    def include_path(self) -> list[Path]:
        """The include search path: the folder of the file if it is on disk, then `include_dirs`."""
        folder = Path(self.name).parent
        return [*([folder] if folder.is_dir() else []), *self.include_dirs]

    @property
    def suffix(self) -> str:
        """The extension of the file's name, with its dot, in lower case; "" without one. Folders have none."""
        _, dot, extension = Path(self.name).name.lower().rpartition(".")
        return dot + extension if dot else ""


@dataclass
class Variant:
    """Executable for one target, ready to be emitted.

    Attributes:
        executable: Name of the executable in the program.
        name: Name of the variant in the executable.
        target: The target.
        exports: The entry points, by ordinal.
        module: The kernels in kernel IR; None if `objects` contain them compiled or as sources.
        objects: Files of the user that are linked.
        constants: Keys of the executable constants, one for each 32-bit word, in order.
        alignment: Alignment in bytes of the bindings of kernels from `objects`, if `module` is None.
        location: The source location of the variant; None if unknown.
        is_fallback: Whether it is generic code next to variants for better CPUs of its architecture: it is then
            optimized less, to save compilation time.
        report_compiled: Called by backends with the name of an export whose code is complete, from any thread.
    """

    executable: str
    name: str
    target: Target
    exports: tuple[Export, ...]
    module: ModuleOp | None
    objects: tuple[ObjectFile, ...] = ()
    constants: tuple[str, ...] = ()
    alignment: int = 64
    location: Location | None = None
    is_fallback: bool = False
    report_compiled: Callable[[str], None] = field(default=lambda name: None, compare=False)


@dataclass
class Binary:
    """Compiled form of a variant, which a backend returns and the artifact stores.

    Attributes:
        data: Content of its member of the artifact, which is a ZIP file.
        suffix: Suffix of the member's name, such as ".so".
        requires: Machine features that the code needs (LLVM feature names on the CPU).
        alignment: Alignment that every binding must have, in bytes.
        imports: Symbols that are resolved at load, with '?' before optional ones.
        notes: Entries of the manifest that only this kind of device reads, by key.
    """

    data: bytes
    suffix: str
    requires: tuple[str, ...] = ()
    alignment: int = 1
    imports: tuple[str, ...] = ()
    notes: dict[str, object] = field(default_factory=dict)
