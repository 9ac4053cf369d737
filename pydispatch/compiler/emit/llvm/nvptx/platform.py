"""CUDA part of the LLVM emitter: NVPTX kernels, whose parameters are the bindings followed by the constants.

Pointers are generic; LLVM infers address spaces from where they come from. Every constant of the layout is a parameter
of 32 bits, executable constants are variables that the device writes when the program is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.emitter import SUBJECTS as COMMON
from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.module import ModuleWriter
from pydispatch.compiler.emit.llvm.nvptx import async_copies, mma, simt
from pydispatch.compiler.emit.llvm.ops import contract, parallel, transpose
from pydispatch.compiler.emit.llvm.ops.calls import linked_call
from pydispatch.compiler.emit.llvm.platform import Platform
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.emit.llvm.values import Value
from pydispatch.compiler.kernel_ir.bindings import SUBSPAN, bindings_of
from pydispatch.compiler.kernel_ir.calls import bare_symbol, is_declaration, is_optional
from pydispatch.compiler.kernel_ir.guards import is_guarded
from pydispatch.compiler.kernel_ir.kernel import Export
from pydispatch.compiler.kernel_ir.readers import attribute, integer
from pydispatch.compiler.kernel_ir.scan import ops_by_name
from pydispatch.compiler.kernel_ir.types import alignment, bit_width, checked_memref, is_float
from pydispatch.errors import CompileError, Location
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk

CPU_ALONE = (contract, parallel, transpose)
"""Modules with lowerings of operations that kernels of CUDA do not have."""
SUBJECTS = (*(subject for subject in COMMON if subject not in CPU_ALONE), simt, mma, async_copies)
"""Modules whose tables `ROWS` have the lowerings for CUDA kernels."""

STATIC_SHARED = 48 * 1024
"""Maximum bytes of workgroup memory of fixed size in a kernel; the size of larger memory is passed at launch."""

AVAILABLE = "pyd_has_"
"""Prefix of a function that tests an optional import: `pyd_has_f`, without arguments, returns 1 (i32) if the import `f`
is linked, else 0."""

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
"""Names that PTX allows without escaping their characters."""
_KNOWN = re.compile(
    r"llvm\.(nvvm\..*|(abs|ctlz|cttz|ctpop|smin|smax|umin|umax|uadd\.with\.overflow)\.i\d+"
    r"|(sqrt|fabs|floor|ceil|trunc|rint|nearbyint|round|roundeven|maximum|minimum|maxnum|minnum|copysign|fma|fmuladd)"
    r"\.f(16|32|64)|fpto[su]i\.sat\.i([1-9]|[1-5]\d|6[0-4])\.f(16|32|64))"
)
"""Names of the intrinsics emitted for kernel IR that LLVM's NVPTX backend compiles for every architecture. Each was
tried, since LLVM ends the process for an intrinsic without code."""

_GRID = {"id": "ctaid", "count": "nctaid", "thread": "tid"}
"""Queried property of the grid -> the special register of PTX that holds it."""
_LIMITS = {"id": (2**31 - 1, 65535, 65535), "count": (2**31, 65536, 65536)}
"""Queried property of the grid -> upper limit of its value along x, y and z, exclusive: CUDA's largest grids."""


class CudaPlatform(Platform[FunctionEmitter]):
    """Target of the LLVM emitter for the module of one CUDA executable: its kernels, parameters and shared memory.

    Args:
        features: LLVM features, such as "sm_80".
        exports: The kernels.
        sizes: Invocations per workgroup of each export.
        constants: Keys of the 32-bit words of executable constants; a key of 64 bits occurs twice.
        functions: The functions of the module, by name.
        dynamic: Exports whose workgroup memory is sized at launch.

    Attributes:
        shared: Bytes of workgroup memory that each export uses so far.
    """

    # `Platform` describes these facts.
    arch = "nvptx64"
    fallible = False
    halves_as_bits = True
    divides_in_words = True
    has_word_counts = True
    least_atomic = 32
    concurrent = True
    atomic_scope = 'syncscope("device") '

    def __init__(
        self,
        features: frozenset[str],
        exports: Sequence[Export],
        sizes: Mapping[str, tuple[int, int, int]],
        constants: Sequence[str] = (),
        functions: Mapping[str, FuncOp] | None = None,
        dynamic: frozenset[str] = frozenset(),
    ) -> None:
        """Begin the module, before its functions are emitted.

        Raises:
            CompileError: The name of an executable constant or of a declared function is no PTX identifier.
        """
        self.features = features
        # The largest number of 32-bit words of dispatch constants, the scalars that a dispatch passes, of an export.
        self.constant_words = max((export.layout.constants for export in exports), default=0)
        self.shared = {export.name: 0 for export in exports}  # bytes of workgroup memory, which grow during emission
        self._exports = {export.name: export for export in exports}
        self._sizes, self._constants = sizes, tuple(constants)  # sizes: invocations per workgroup along x, y, z
        self._dynamic = dynamic  # exports whose workgroup memory is sized at launch
        self._functions = functions or {}
        for key in self._constants:
            check_identifier(key, "an executable constant")
        for function in self._functions.values():
            if is_declaration(function):
                check_identifier(bare_symbol(function), "a function", location_of(function))

    def knows(self, intrinsic: str) -> bool:
        """Return whether LLVM's NVPTX backend has code for an intrinsic; LLVM ends the process for an unknown one."""
        return _KNOWN.fullmatch(intrinsic) is not None

    def export_header(self, name: str) -> str:
        """Return the `define` line of a kernel: pointers of bindings, then 32-bit words of constants."""
        export, function = self._exports[name], self._functions[name]
        bindings, alignments = bindings_of(ops_by_name(function)), binding_alignments(function)
        parameters: list[str] = []
        for ordinal in range(len(export.layout.bindings)):
            binding = bindings.get(ordinal)
            # A written binding is not noalias: other invocations may write it before a barrier, which noalias denies.
            no_alias = "noalias readonly " if binding is None or binding.read_only else ""
            parameters.append(f"ptr {no_alias}noundef align {alignments.get(ordinal, 1)} %b{ordinal}")
        parameters += [f"i32 noundef %c{ordinal}" for ordinal in range(export.layout.constants)]
        size = ",".join(map(str, self._sizes[name]))
        attributes = f'#0 "nvvm.reqntid"="{size}"'
        # Workgroups that must fit a multiprocessor together, which limits the registers of an invocation.
        groups_per_core = attribute(function, "pyd.groups_per_core")
        if isinstance(groups_per_core, IntegerAttr):
            attributes += f' "nvvm.minctasm"="{groups_per_core.value.data}"'
        return f'define ptx_kernel void @"{entry_symbol(name)}"({", ".join(parameters)}) {attributes}'

    def export_return(self, emitter: FunctionEmitter, status: str | None) -> None:
        """Emit the return of a kernel, which has no status."""
        assert status is None
        emitter.body.emit("ret void")

    def binding(self, emitter: FunctionEmitter, ordinal: int, align: int) -> str:
        """Return the parameter of a binding. `align` is not needed: `export_header` declares the alignment.

        Raises:
            CompileError: The binding is not in the layout.
        """
        count = len(self._exports[emitter.name].layout.bindings)
        if ordinal >= count:
            raise emitter.error(f"binding {ordinal} is not in the layout of export '{emitter.name}', which has {count}")
        return f"%b{ordinal}"

    def constant(self, emitter: FunctionEmitter, ordinal: int, type_: Attribute, words: int) -> str:
        """Return a dispatch constant as a value of type `type_`, which the entry block computes once.

        The constants of the layout are the parameters %c0, %c1, ... of the kernel, of 32 bits each. An i64 at ordinal 2
        has two words: it is `zext(%c2) | zext(%c3) << 32`.

        Args:
            emitter: Emitter of the function.
            ordinal: Number of the constant's first word in the layout of the export.
            type_: Type of the constant in kernel IR.
            words: Number of 32-bit words of the constant, 1 or 2; the low word is first.
        """
        count = self._exports[emitter.name].layout.constants
        if ordinal + words > count:
            raise emitter.error(
                f"constant {ordinal} is not in the layout of export '{emitter.name}', which has {count} words"
            )
        let = emitter.body.let_entry

        def convert() -> str:
            """Emit the scalar of type `type_` from the kernel's parameter `ordinal`, or from two if `words` is 2."""
            bits = f"%c{ordinal}"
            if words == 2:
                low, high = let(f"zext i32 %c{ordinal} to i64"), let(f"zext i32 %c{ordinal + 1} to i64")
                bits = let(f"or i64 {low}, {let(f'shl i64 {high}, 32')}")
            return self._scalar(emitter, bits, type_, words)

        return emitter.once(("constant", ordinal, words, str(type_)), convert)

    def _scalar(self, emitter: FunctionEmitter, bits_value: str, type_: Attribute, words: int) -> str:
        """Emit, in the entry block, the conversion of the low bits of `bits_value` to a scalar of type `type_`.

        `bits_value` is an integer of `words` 32-bit words, 1 or 2. An index of one word is unsigned.
        """
        let, wide = emitter.body.let_entry, 32 * words
        if isinstance(type_, IndexType):
            return bits_value if words == 2 else let(f"zext i32 {bits_value} to i64")
        width = bit_width(type_)
        if width > 32 and width != 64:
            note = "split it into i32 or i64 constants"
            raise emitter.error(f"a constant of type {type_} is not made of 32-bit words", note)
        narrow = bits_value if width == wide else let(f"trunc i{wide} {bits_value} to i{width}")
        llvm_type = scalar(type_)
        is_llvm_float = is_float(type_) and llvm_type[0] != "i"  # floats of 8 bits are integers in LLVM IR
        return let(f"bitcast i{width} {narrow} to {llvm_type}") if is_llvm_float else narrow

    def executable_constant(self, emitter: FunctionEmitter, key: str, type_: Attribute) -> str:
        """Emit the load of an executable constant, a variable of constant memory."""
        if key not in self._constants:
            defined = ", ".join(self._constants) or "none"
            raise emitter.error(
                f"executable constant '{key}' has no hal.executable.constant.block", f"defined are: {defined}"
            )
        words = self._constants.count(key)  # a constant of 64 bits is listed twice
        if words == 1 and not isinstance(type_, IndexType) and bit_width(type_) > 32:
            raise emitter.error(f"executable constant '{key}' is one 32-bit word, got {type_}")

        def convert() -> str:
            """Load the `words` of the constant `key` in the entry block, and convert them to a scalar of `type_`."""
            load = emitter.body.let_entry(f'load i{32 * words}, ptr addrspace(4) @"{key}", align {4 * words}')
            return self._scalar(emitter, load, type_, words)

        return emitter.once(("executable constant", key, str(type_)), convert)

    def grid(self, emitter: FunctionEmitter, grid_property: str, dimension: int) -> str:
        """Return a property of the grid along a dimension, as an LLVM operand of type i64.

        The size of a workgroup is a constant. The others are special registers of PTX, which the entry block reads once
        with the range of their values: `call range(i32 0, 65535) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()`.

        Args:
            emitter: Emitter of the function.
            grid_property: "id" of the workgroup in the grid, "count" of workgroups, "size" of a workgroup in
                invocations, or "thread", the id of the invocation in its workgroup.
            dimension: 0 for x, 1 for y, 2 for z.
        """
        if grid_property == "size":  # as the export declares it; 0 if it does not
            return str(max(1, self._exports[emitter.name].workgroup_size[dimension]))
        # Upper limit of the value, exclusive.
        limit = self._sizes[emitter.name][dimension] if grid_property == "thread" else _LIMITS[grid_property][dimension]
        name = f"llvm.nvvm.read.ptx.sreg.{_GRID[grid_property]}.{'xyz'[dimension]}"
        emitter.module.declare(name, f"declare i32 @{name}()")

        def read_register() -> str:
            """Emit the read of the special register `name`, whose value is below `limit`, as i64."""
            lowest = 1 if grid_property == "count" else 0
            highest = limit - 2**32 if limit == 2**31 else limit  # range() takes signed i32: 2^31 is written as -2^31
            register = emitter.body.let_entry(f"call range(i32 {lowest}, {highest}) i32 @{name}()")
            return emitter.body.let_entry(f"zext nneg i32 {register} to i64")

        return emitter.once((grid_property, dimension), read_register)

    def workgroup_memory(self, emitter: FunctionEmitter, byte_size: int, align: int) -> str:
        """Reserve shared memory of the current export at a fixed offset, and return its generic address."""
        align = max(align, 16)
        start = -(-self.shared[emitter.name] // align) * align  # the end of earlier reservations, aligned
        byte_size = -(-byte_size // 4) * 4  # atomics on narrow elements update the whole 32-bit word around them
        self.shared[emitter.name] = start + byte_size
        # `address` is a pointer to shared memory, address space 3.
        if emitter.name in self._dynamic:  # one array for all reservations: the launch passes its size
            base = "@pyd_shared"
            emitter.module.globals[base] = f"{base} = external addrspace(3) global [0 x i8], align 128"
            address = emitter.body.let_entry(f"getelementptr i8, ptr addrspace(3) {base}, i64 {start}")
        else:  # a variable of static size
            address = f'@"{entry_symbol(emitter.name)}.shared{start}"'
            size = f"[{max(1, byte_size)} x i8]"
            emitter.module.globals[address] = f"{address} = internal addrspace(3) global {size} poison, align {align}"
        return emitter.body.let_entry(f"addrspacecast ptr addrspace(3) {address} to ptr")

    def barrier(self, emitter: FunctionEmitter) -> None:
        """Emit a barrier of the workgroup; a single invocation needs none."""
        if self._sizes[emitter.name] == (1, 1, 1):
            return
        name = "llvm.nvvm.barrier.cta.sync.aligned.all"
        emitter.module.declare(name, f"declare void @{name}(i32)")
        emitter.body.emit(f"call void @{name}(i32 0)")

    def field(self, emitter: FunctionEmitter, name: str) -> tuple[str, str]:
        """Raise CompileError: GPUs have none of the values that imports can request by `hal.import.fields`."""
        raise emitter.error(
            f"'{name}' (hal.import.fields) is a field that only CPUs have",
            "declare the function without hal.import.fields",
        )

    def import_call(self, emitter: FunctionEmitter, callee: FuncOp, operands: list[Value]) -> list[str]:
        """Emit a call of a function that is linked later, and return its results.

        Raises:
            CompileError: The function is optional, and no guard tests for it.
        """
        name = bare_symbol(callee)
        # A call is guarded if it is inside of an scf.if on pyd.import.available.
        if is_optional(callee) and not is_guarded(emitter.op, callee):
            raise emitter.error(
                f"a call of the optional import '{name}' that nothing guards: kernels of this target cannot stop",
                f"put it into scf.if on pyd.import.available @{callee.sym_name.data}, or give it a hal.import.fallback",
            )
        return linked_call(emitter, callee, operands, name)

    def import_available(self, emitter: FunctionEmitter, callee: FuncOp) -> str:
        """Emit the test whether an import is linked, an i1; "true" for one that is required."""
        if not is_optional(callee):
            return "true"
        name = AVAILABLE + bare_symbol(callee)
        # Each query emits a call: the call of an earlier query may be in a branch that does not dominate this one.
        return emitter.body.let(f"icmp ne i32 {emitter.intrinsic(name, 'i32')}, 0")

    def finish(self, module: ModuleWriter) -> None:
        """Add a global variable for each executable constant."""
        for key in dict.fromkeys(self._constants):
            width = 32 * self._constants.count(key)  # a key is listed once for each of its words
            text = f"addrspace(4) externally_initialized global i{width} 0, align {width // 8}"
            module.globals[f'@"{key}"'] = f'@"{key}" = {text}'


def binding_alignments(function: FuncOp) -> dict[int, int]:
    """Return binding ordinal -> alignment in bytes, the natural one of its elements.

    Buffers are aligned to more, but if LLVM knew it, it would read whole vectors beyond the end of small buffers.
    """
    alignments: dict[int, int] = {}
    for op in walk(function):
        if op.name == SUBSPAN:
            ordinal = integer(op, "binding")
            alignments[ordinal] = max(
                alignments.get(ordinal, 1), alignment(checked_memref(op.results[0].type).element_type)
            )
    return alignments


def binding_alignment(function: FuncOp) -> int:
    """Return the bytes that all bindings of a kernel must be aligned to.

    It is the largest alignment of their elements and of the `alignment` attributes of loads and stores.
    """
    stated = [
        integer(op, "alignment", default=1) for op in walk(function) if op.name in ("memref.load", "memref.store")
    ]
    return max([1, *binding_alignments(function).values(), *stated])


def entry_symbol(name: str) -> str:
    """Return the PTX name of an export's entry.

    Each character that PTX does not allow becomes "$" and its hexadecimal code. A name that begins with
    a digit gets a "$" before it.
    """
    escaped = "".join(c if _IDENTIFIER.fullmatch("_" + c) else f"${ord(c):x}" for c in name)
    return escaped if _IDENTIFIER.fullmatch(escaped) else f"${escaped}"


def check_identifier(name: str, named_thing: str, location: Location | None = None) -> None:
    """Raise CompileError unless a name is a PTX identifier.

    named_thing: what has the name, for the message, such as "an executable constant".
    """
    if _IDENTIFIER.fullmatch(name) is None:
        raise CompileError(
            f"'{name}' cannot be the name of {named_thing} for CUDA",
            location,
            "use letters, digits, _ and $, and no digit in front",
        )
