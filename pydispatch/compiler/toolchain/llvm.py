"""LLVM, through llvmlite: text and bitcode in, an object file out.

llvmlite's LLVM is built with assertions: unexpected input ends the process. `opened`, `host`, `bitcode_symbols` and
`version` therefore run in a process of their own (`llvm_process`), as the rest of this file does; and callers pass only
text of our emitter and bitcode that `objects` has checked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pydispatch.compiler.toolchain.machines import (
    FULL,
    Effort,
    LlvmMachine,
    MachineDescription,
    function_attributes,
    known_features,
    layout,
    target_machine,
)
from pydispatch.compiler.worker import llvm_process
from pydispatch.compiler.worker.library import library
from pydispatch.errors import CompileError

CodePass = Literal["lsr", "machine-licm"]
"""Passes of code generation that `LlvmModule.object` can leave out on x86-64.

"lsr" is loop strength reduction. For register blocks it takes a third to two thirds of the time, and saves nothing: x86
addressing modes compute the addresses. "machine-licm" moves constants and their loads out of loops. Those that are used
after the loop of a register block then occupy registers that the block needs.
"""

_MODULE_FLAGS = re.compile(r"^!llvm\.(?:module\.flags|ident|dbg\.cu) = .*\n", re.MULTILINE)
"""Metadata of a module that clashes with that of other modules when they are linked."""
_SUM_OF_LANES = "llvm.vector.reduce.fadd"
"""Beginning of the names of the intrinsics that add the lanes of a float vector; for RISC-V, their order is fixed."""
_FREE_SUM_OF_LANES = re.compile(rf"(?<= call )(?:[a-z]+ )+(?=(?:half|float|double) @{re.escape(_SUM_OF_LANES)}\.)")
"""Fast-math flags that allow any order of a sum of lanes, for their removal: they are `reassoc ` in the text
`call reassoc float @llvm.vector.reduce.fadd.v4f32(...)`."""
_LINKAGE_KEPT = ("appending", "available_externally")
"""Linkages that `internalize` leaves: of arrays that linking concatenates, and of copies of another module's code."""
_RENAMED = re.compile(r"\.\d+$")
"""Suffix that LLVM adds to a name if a linked module has the name already: `@state` becomes `@state.3`."""


def opened(text: str, machine: MachineDescription) -> AbstractContextManager[LlvmModule]:
    """Parse LLVM IR in the LLVM process, and return the module, which lives for the duration of a `with` block.

    Args:
        text: The module as LLVM IR, without data layout and triple.
        machine: The machine to compile for.

    Raises:
        CompileError: LLVM refuses the text.
        llvm_process.Died: The LLVM process died of the text. Methods of the module may raise it, too.
    """
    # The machine as plain values, which can be sent to the LLVM process.
    llvm_machine = LlvmMachine(
        arch=machine.arch,
        cpu=machine.cpu,
        triple=machine.triple,
        llvm_features=machine.llvm_features,
        has=machine.has,
        tune=machine.tune,
        vector_width=machine.vector_width,
    )
    return llvm_process.opened(LlvmModule, text, llvm_machine)


def version() -> int:
    """Return LLVM's major version."""
    return llvm_process.version()[0]


@functools.lru_cache(maxsize=32)
def bitcode_symbols(bitcode: bytes) -> frozenset[str]:
    """Return the names of the functions and variables that a bitcode file defines and others can refer to."""
    return llvm_process.call(_bitcode_symbols, bitcode)


def warm_up(loop: str) -> None:
    """Compile a text of LLVM IR for this machine and drop the result, so that later compilations start faster."""
    llvm = library()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    builder = llvm.create_pass_builder(machine, _tuning(llvm, FULL))
    with llvm.create_context() as context, llvm.parse_assembly(loop, context) as module:
        builder.getModulePassManager().run(module, builder)
        machine.emit_object(module)


def _tuning(llvm: Any, effort: Effort) -> Any:
    """Return the options of LLVM's optimization pipeline (`PipelineTuningOptions`) for an effort.

    Loops are vectorized at every effort: nothing else vectorizes elementwise loops and sums. Efforts that save
    compilation time leave out the transformations that make the code longer.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=effort.level)
    options.loop_vectorization = True
    options.slp_vectorization = options.loop_interleaving = options.loop_unrolling = effort.unrolls
    return options


def _bitcode_symbols(bitcode: bytes) -> frozenset[str]:
    """Return the symbols that bitcode defines; runs in the LLVM process for `bitcode_symbols`."""
    llvm = library()
    context = llvm.create_context()
    module = None
    try:
        module = llvm.parse_bitcode(bitcode, context)
        return frozenset(_visible([*module.functions, *module.global_variables]))
    finally:
        if module is not None:
            module.close()
        context.close()


def _visible(values: list[Any]) -> set[str]:
    """Return the names of the functions and variables in `values` that are defined and visible to other modules."""
    hidden = ("internal", "private")
    return {v.name for v in values if not v.is_declaration and v.linkage.name not in hidden}


@dataclass(frozen=True)
class _File:
    """A bitcode file as it is linked into modules for one machine.

    Attributes:
        adapted: The bitcode with the machine's triple and data layout, whose functions take the machine's features.
        extra_features: CPU features that the file was compiled for and the machine lacks.
        writable: Names of the variables that the file defines and that are not constant.
    """

    adapted: bytes
    extra_features: frozenset[str]
    writable: frozenset[str]


@functools.lru_cache(maxsize=64)
def _file(name: str, bitcode: bytes, machine: LlvmMachine) -> _File:
    """Adapt a bitcode file to a machine: triple, data layout and CPU features of functions.

    The file may have been compiled for another machine. LLVM warns when it links files of another triple or data
    layout, and does not inline functions with features that the caller lacks. All three are changed in the text of the
    file's LLVM IR. Module flags, such as that of the PIC level, are removed: those of several files could contradict
    each other. The result is cached, since modules of a program link the same files.

    Args:
        name: Name of the file in messages.
        bitcode: The file.
        machine: The machine that the module is compiled for.

    Raises:
        CompileError: The file has thread-local variables, constructors or exceptions, which kernels cannot have.
        RuntimeError: LLVM refuses the file.
    """
    from pydispatch.compiler.toolchain import foreign  # LLVM processes of programs without bitcode start without it

    llvm = library()
    with llvm.create_context() as context:
        with llvm.parse_bitcode(bitcode, context) as module:
            text = str(module)
        foreign.check_state(name, text)
        known = known_features(machine.arch)  # features of the x86-64 levels; all add instructions
        extra_features = foreign.missing_features(foreign.used_features(text), known, machine.has)
        adapted = _MODULE_FLAGS.sub("", foreign.adapted(text, known, machine.has))
        adapted = re.sub(r"^target triple = .*$", f'target triple = "{machine.triple}"', adapted, flags=re.M)
        adapted = re.sub(r"^target datalayout = .*$", f'target datalayout = "{layout(machine)}"', adapted, flags=re.M)
        with llvm.parse_assembly(adapted, context) as module:
            return _File(module.as_bitcode(), extra_features, foreign.writable_variables(text))


class LlvmModule:
    """LLVM module in memory, from LLVM IR as text to object code; a context manager that frees it at the end.

    Call `link` for each file of bitcode, then `internalize`, `optimize`, and `object` or `assembly`. The module is
    parsed from LLVM IR without data layout and triple, whose functions have the attribute group `#0`. These are added
    for the machine.

    At the end, the context manager frees all LLVM objects, in order. If the garbage collector freed them later, a
    module could outlive its context, which crashes.
    """

    def __init__(self, text: str, machine: LlvmMachine) -> None:
        """Parse and verify the LLVM IR `text` for `machine`. Raise CompileError if LLVM refuses it."""
        self.machine = machine
        self._llvm = library()
        self._context = self._llvm.create_context()
        self._module: Any = None
        self._effort = FULL
        self._variables: dict[str, str] = {}  # writable variable of a linked file → name of the file
        head = f'target datalayout = "{layout(machine)}"\ntarget triple = "{machine.triple}"\n'
        # The functions in `text` refer to this group.
        attributes = f"\nattributes #0 = {{ {function_attributes(machine)} }}\n"
        try:
            self._module = self._llvm.parse_assembly(head + text + attributes, self._context)
            self._module.verify()
        except RuntimeError as error:
            self.close()
            note = "this is a defect of the compiler"
            raise CompileError(f"LLVM refuses the generated code: {error}", note=note) from None

    def __enter__(self) -> LlvmModule:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the module and then its context. Idempotent."""
        if self._module is not None:
            self._module.close()
        self._module = None
        self._context.close()

    def text(self) -> str:
        """Return the module as LLVM IR."""
        return str(self._module)

    def undefined(self) -> set[str]:
        """Return the names of functions and variables that are declared, not defined; without LLVM's intrinsics."""
        functions = {f.name for f in self._module.functions if f.is_declaration and not f.name.startswith("llvm.")}
        return functions | {v.name for v in self._module.global_variables if v.is_declaration}

    def defined(self) -> set[str]:
        """Return the names of functions and variables that are defined and visible to other modules."""
        return _visible([*self._module.functions, *self._module.global_variables])

    def link(self, name: str, bitcode: bytes, check_features: bool = False) -> None:
        """Add the functions of a bitcode file, as if compiled for this machine.

        Functions with features that the machine lacks keep theirs.

        Args:
            name: Name of the file in messages.
            bitcode: The file.
            check_features: Whether to refuse a file that was compiled for features that the machine lacks.

        Raises:
            CompileError: The file is refused by `check_features`, by LLVM or by `foreign.check_state`, or defines a
                symbol that the module has.
        """
        try:
            file = _file(name, bitcode, self.machine)
            if check_features and file.extra_features:
                extra = sorted(file.extra_features)
                plus = ",".join(f"+{feature}" for feature in extra)
                raise CompileError(
                    f"bitcode '{name}' was compiled for {', '.join(extra)}, which the target does not have",
                    note=f'compile it for the target\'s CPU, or give the target cpu_features = "{plus}"',
                )
            # On a CPU, `optimize` refuses writable variables: workgroups share no state. On a GPU they are allowed, as
            # its address spaces hold variables of a workgroup (shared memory) and of the device.
            if not self.machine.triple.startswith("nvptx"):
                self._variables.update(dict.fromkeys(file.writable, name))
            module = self._llvm.parse_bitcode(file.adapted, self._context)
            try:
                self._module.link_in(module)
            finally:
                if not module.closed:  # `link_in` takes over the module, which then counts as closed
                    module.close()
        except RuntimeError as error:
            raise CompileError(f"bitcode '{name}' cannot be linked: {str(error).strip()}") from None

    def internalize(self, keep: Collection[str]) -> None:
        """Make all definitions but those named in `keep` private to the module, so that LLVM inlines them, and removes
        unused ones."""
        for value in (*self._module.functions, *self._module.global_variables):
            if value.is_declaration or value.name in keep or value.name.startswith("llvm."):
                continue
            if value.linkage.name not in (*_LINKAGE_KEPT, "private", "internal"):
                value.linkage = "internal"

    def optimize(self, effort: Effort = FULL, promote_memory: bool = True) -> None:
        """Run LLVM's pipeline.

        Args:
            effort: Optimization effort, also that of `object`.
            promote_memory: Whether memory that a loop reads and writes at one address becomes a register. Without this,
                the pipeline takes a sixth less time for matrix products in register blocks, whose sums are in registers
                from the start.

        Raises:
            CompileError: Code writes a variable of a linked file, which workgroups on a CPU would share.
        """
        self._effort = effort
        machine = target_machine(self.machine)
        builder = self._llvm.create_pass_builder(machine, _tuning(self._llvm, effort))
        self._module.verify()
        with self._without_passes(() if promote_memory else ("licm-promotion",)):
            builder.getModulePassManager().run(self._module, builder)
        self._check_no_shared_variables()
        has_scalable_sums = self.machine.arch == "riscv64" and "v" in self.machine.has
        if has_scalable_sums:  # the machine would choose the order of the lanes in a sum, and thus its rounding
            self._order_sums_of_lanes()

    def _check_no_shared_variables(self) -> None:
        """Raise CompileError if code writes a variable of a linked file, because workgroups share no state.

        The optimization must have run: it makes variables that no code writes constant, and removes unused ones. Any
        variable that is still writable is then written by some code.
        """
        if not self._variables:
            return
        from pydispatch.compiler.toolchain import foreign

        for variable in sorted(foreign.writable_variables(str(self._module))):
            # LLVM appends .N to a name that clashes with one of another linked module.
            name = variable if variable in self._variables else _RENAMED.sub("", variable)
            if name in self._variables:
                raise CompileError(
                    f"object '{self._variables[name]}' has the writable variable '{name}'", note=foreign.WRITABLE
                )

    def _order_sums_of_lanes(self) -> None:
        """Make sums over the lanes of a vector add them in order, so that all RISC-V machines compute the same bits.

        LLVM lowers a sum with the flag `reassoc` to vfredusum, whose order the machine chooses; a sum without flags to
        vfredosum, which adds lanes in order. Flags are removed from the text, since llvmlite cannot change them.
        """
        if any(function.name.startswith(_SUM_OF_LANES) for function in self._module.functions):
            ordered = self._llvm.parse_assembly(_FREE_SUM_OF_LANES.sub("", str(self._module)), self._context)
            self._module.close()
            self._module = ordered

    def object(self, without: Collection[CodePass] = ()) -> bytes:
        """Return the machine code as an ELF object. without: passes of code generation to leave out on x86-64."""
        with self._without_code_passes(without):
            return bytes(target_machine(self.machine, self._effort.code_level).emit_object(self._module))

    def assembly(self, without: Collection[CodePass] = ()) -> str:
        """Return the machine code as text. without: see `object`."""
        with self._without_code_passes(without):
            return str(target_machine(self.machine, self._effort.code_level).emit_assembly(self._module))

    def _without_code_passes(self, passes: Collection[CodePass]) -> AbstractContextManager[None]:
        """Disable passes within the `with` block, on x86-64; other machines need them or were not measured."""
        return self._without_passes(passes if self.machine.arch == "x86_64" else ())

    @contextmanager
    def _without_passes(self, passes: Collection[str]) -> Iterator[None]:
        """Disable passes of LLVM by their options -disable-<pass> within the `with` block.

        The options apply to the whole process, so they are reset at the end.
        """
        for name in passes:
            self._llvm.set_option("pydispatch", f"-disable-{name}=true")
        try:
            yield
        finally:
            for name in passes:
                self._llvm.set_option("pydispatch", f"-disable-{name}=false")
