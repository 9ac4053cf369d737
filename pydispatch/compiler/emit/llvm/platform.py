"""Interface between the LLVM emitter and the machines that it targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from pydispatch.compiler.emit.llvm.values import Value

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Attribute

    from pydispatch.compiler.emit.llvm.module import ModuleWriter

F = TypeVar("F")
"""The type of function emitters; methods append instructions at the current position of the one they are passed."""


class Platform(ABC, Generic[F]):
    """Base of the targets of the LLVM emitter: how a kernel is called, and how it accesses bindings and constants.

    A backend creates an object of a subclass for each LLVM module. Methods that take the emitter of a function write
    instructions at its current position. Values that do not change in a function, such as the pointer of a binding, are
    computed once, in its entry block.
    """

    arch: str
    """x86_64, aarch64, riscv64, nvptx64."""

    features: frozenset[str]
    """LLVM features that code may use, without signs, those implied by the CPU name included."""

    parameters: tuple[str, ...] = ()
    """First parameters of every helper function of the module, as "type %name"."""

    constant_words: int = 0
    """Largest number of 32-bit words of dispatch constants of an export."""

    fallible: bool = True
    """Whether kernels return a status, so that a failed import or assertion can stop the workgroup."""

    halves_as_bits: bool = False
    """Whether C functions take and return floats of 16 bits and less as unsigned integers of that width."""

    divides_in_words: bool = False
    """Whether indices that fit into 31 bits (`pyd.index_width`) are divided faster in 32 bits."""

    has_word_counts: bool = False
    """Whether shifts take only the low 32 bits of their count, so that code must bound larger counts before."""

    least_atomic: int = 8
    """Bits of the narrowest integer that has atomic operations of its own."""

    concurrent: bool = False
    """Whether several invocations of a workgroup run at the same time."""

    atomic_scope: str = ""
    """The scope in which atomic operations are visible, `syncscope("...") `; empty for the whole system."""

    @abstractmethod
    def export_header(self, name: str) -> str:
        """Return `define ...` of the export of this name, without the brace."""

    @abstractmethod
    def export_return(self, emitter: F, status: str | None) -> None:
        """Emit the return of an export. `status` is the i32 operand of the call that failed; None for success."""

    @abstractmethod
    def binding(self, emitter: F, ordinal: int, align: int) -> str:
        """Return the pointer of the binding number `ordinal`, known to be aligned to `align` bytes."""

    @abstractmethod
    def constant(self, emitter: F, ordinal: int, type_: Attribute, words: int) -> str:
        """Return a dispatch constant as a value of a type, from `words` 32-bit words from `ordinal` on, low first.

        A single word is unsigned.
        """

    @abstractmethod
    def executable_constant(self, emitter: F, key: str, type_: Attribute) -> str:
        """Return the executable constant with the name `key` as a value of a type."""

    @abstractmethod
    def grid(self, emitter: F, grid_property: str, dimension: int) -> str:
        """Return a property of the grid along a dimension, 0 to 2 for x to z, as an i64.

        `grid_property` is the "id" of the workgroup, the "count" of workgroups, the "size" of a workgroup in
        invocations, or on GPUs "thread", the id of the invocation in the workgroup.
        """

    @abstractmethod
    def workgroup_memory(self, emitter: F, byte_size: int, align: int) -> str:
        """Reserve bytes that the invocations of a workgroup share, and return a pointer to them.

        Each call of this method reserves other bytes. align: in bytes.
        """

    @abstractmethod
    def barrier(self, emitter: F) -> None:
        """Emit a barrier for all invocations of the workgroup."""

    @abstractmethod
    def field(self, emitter: F, name: str) -> tuple[str, str]:
        """Return (LLVM type, operand) of a value, such as "processor_id", that the attribute `hal.import.fields` of an
        import requests.

        Raises:
            CompileError: No value has this name.
        """

    @abstractmethod
    def import_call(self, emitter: F, callee: FuncOp, operands: list[Value]) -> list[str]:
        """Call a function that is resolved when the program is loaded, and return its results as LLVM operands.

        callee: its declaration. operands: a memref is passed as its pointers, offset, sizes and strides, as between
        functions of the module.
        """

    def import_available(self, emitter: F, callee: FuncOp) -> str:
        """Return an i1 operand: whether an import was resolved when the program was loaded.

        The default, always true, is for platforms on which a program with an unresolved import fails to load.
        """
        return "true"

    def knows(self, intrinsic: str) -> bool:
        """Return whether LLVM has code for an intrinsic such as `llvm.exp2.f32`; it ends the process for others."""
        return True

    def math_call(self, name: str) -> str:
        """Return the symbol that is called for the C function `name` (`expf`, `exp`, ...)."""
        return name

    @abstractmethod
    def finish(self, module: ModuleWriter) -> None:
        """Add the globals that the module needs besides its functions, such as tables of exports."""
