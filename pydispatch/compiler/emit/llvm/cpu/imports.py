"""Imports on the CPU: which there are, and the calls through the thunk of the environment.

The environment does not change while a workgroup runs, so thunk, function and context are loaded in the entry block of
a function and its loops keep them in registers. A plugin may replace its own entries between workgroups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.ops.calls import CArgument, c_arguments, stop_on_failure
from pydispatch.compiler.emit.llvm.types import memory_type_of, scalar
from pydispatch.compiler.emit.llvm.values import Value
from pydispatch.compiler.kernel_ir.calls import bare_symbol, import_fields, is_optional, is_set, reached_imports
from pydispatch.formats.artifact.imports import ImportSignature, ParamsLayout, layout

MISSING_IMPORT = 0x50594405
"""Status of a workgroup that called an optional import which was not found (PYD_LIBRARY_CODE_MISSING_IMPORT)."""

_THUNK, _FUNCTIONS, _CONTEXTS = 8, 16, 24
"""Offsets in `%env`, the environment of the executable: the function that calls imports, and tables of the imports and
of their contexts."""

LoadField = Callable[[FunctionEmitter, str, int, str, int], str]
"""Function that emits the load of a field into the entry block, and returns its value. Its arguments: the function's
emitter, the pointer to the structure, the field's offset in bytes, LLVM type and alignment in bytes."""

_POINTER_BYTES = 8
"""Size and alignment of a pointer in the environment, on every CPU target."""


@dataclass(frozen=True)
class Import:
    """A row of the import table of a library.

    Attributes:
        symbol: The symbol of the C function, without a mark.
        optional: Whether the program can be loaded if the symbol is not found.
    """

    symbol: str
    optional: bool

    @property
    def marked_symbol(self) -> str:
        """The symbol as import tables and artifacts spell it: with a leading `?` if it is optional."""
        return f"?{self.symbol}" if self.optional else self.symbol


def imports_of(functions: Mapping[str, FuncOp], exports: Sequence[str]) -> tuple[Import, ...]:
    """Return the imports that the exports reach, sorted by symbol; required if any declaration requires the symbol."""
    optional: dict[str, bool] = {}
    for export in exports:
        for function in reached_imports(functions, export):
            symbol = bare_symbol(function)
            optional[symbol] = optional.get(symbol, True) and is_optional(function)
    return tuple(Import(symbol, optional[symbol]) for symbol in sorted(optional))


def signature_of(function: FuncOp, optional: bool = False) -> ImportSignature:
    """Return the C signature with which kernels call the imported function of a declaration.

    A memref is passed as one pointer (`llvm.bareptr`), or as the fields of MLIR's descriptor: allocated and aligned
    pointer, offset, sizes and strides. `optional` is copied into the signature.
    """
    bare = is_set(function, "llvm.bareptr")
    arguments: list[str] = []
    for type_ in function.function_type.inputs.data:
        if not isinstance(type_, MemRefType):
            arguments.append(str(type_))
        elif bare:
            arguments.append("ptr")
        else:
            sizes_and_strides = ["index"] * (2 * len(type_.get_shape()))
            arguments += ["ptr", "ptr", "index", *sizes_and_strides]
    results = tuple(str(type_) for type_ in function.function_type.outputs.data)
    fields = tuple(import_fields(function))
    return ImportSignature(
        symbol=bare_symbol(function), optional=optional, results=results, arguments=tuple(arguments), fields=fields
    )


def signatures_of(functions: Mapping[str, FuncOp], exports: Sequence[str]) -> tuple[ImportSignature, ...]:
    """Return all signatures with which the exports call their imports, sorted by symbol, each with its exports."""
    optional = {entry.symbol: entry.optional for entry in imports_of(functions, exports)}
    users: dict[ImportSignature, list[str]] = {}
    for export in exports:
        for function in reached_imports(functions, export):
            key = signature_of(function, optional[bare_symbol(function)])
            if export not in users.setdefault(key, []):
                users[key].append(export)
    ordered = sorted(users, key=lambda s: (s.symbol, s.results, s.arguments, s.fields))
    return tuple(replace(signature, exports=tuple(users[signature])) for signature in ordered)


class ImportCalls:
    """Import table of one LLVM module, and emitter of the calls of imported functions through it.

    `load` emits the load of a field of a structure that does not change while a workgroup runs, in the entry block.

    Attributes:
        table: The imports that the exports reach, sorted by symbol; calls name them by position in this table.
        signatures: The different signatures of their declarations, which are part of the artifact.
    """

    def __init__(self, functions: Mapping[str, FuncOp], exports: Sequence[str], load: LoadField) -> None:
        """Collect the imports that `exports`, names of functions in `functions`, reach.

        `load` emits the load of a field of a structure that does not change while a workgroup runs.
        """
        self.table = imports_of(functions, exports)
        self.signatures = signatures_of(functions, exports)
        self._load = load

    def call(self, emitter: FunctionEmitter, callee: FuncOp, operands: list[Value]) -> list[str]:
        """Emit a call of an import through the thunk, and return the results; a status other than 0 ends the workgroup.

        The thunk is the runtime's function through which kernels call imports:

            i32 thunk(ptr function, ptr params, ptr context, ptr reserved)

        `params` points to a structure on the stack, with members for the results, the arguments, and the fields of the
        environment that the import requests, in this order. For `f(i32, f64) -> f32` it is {f32, i32, f64}. The call
        stores the arguments before it and loads the results after it. Calls in a function with structures of the same
        size share the memory.

        Args:
            emitter: Emitter of the function that contains the call.
            callee: Declaration of the imported function.
            operands: The values of the arguments; a memref becomes one or several members.
        """
        ordinal = self._ordinal(callee)
        results = list(callee.function_type.outputs.data)
        arguments = c_arguments(emitter, callee, operands)
        layout = self._layout(emitter, callee)
        params = _params_memory(emitter, layout)
        _store_arguments(emitter, params, layout, arguments)
        function = self._entry(emitter, _FUNCTIONS, ordinal)
        if self.table[ordinal].optional:  # one that was not found has a null pointer: its call ends the workgroup
            missing = emitter.body.let(f"icmp eq ptr {function}, null")
            stop_on_failure(emitter, emitter.body.let(f"select i1 {missing}, i32 {MISSING_IMPORT}, i32 0"))
        thunk = self._load(emitter, "%env", _THUNK, "ptr", _POINTER_BYTES)
        context = self._entry(emitter, _CONTEXTS, ordinal)
        stop_on_failure(
            emitter, emitter.body.let(f"call i32 {thunk}(ptr {function}, ptr {params}, ptr {context}, ptr null)")
        )
        members_of_results = layout.members[: layout.result_count]
        return [
            _result(emitter, params, member.offset, type_)
            for member, type_ in zip(members_of_results, results, strict=True)
        ]

    def available(self, emitter: FunctionEmitter, callee: FuncOp) -> str:
        """Emit the test whether an import was found, an i1; "true" for a required one."""
        ordinal = self._ordinal(callee)
        if not self.table[ordinal].optional:
            return "true"
        return emitter.body.let(f"icmp ne ptr {self._entry(emitter, _FUNCTIONS, ordinal)}, null")

    def _ordinal(self, callee: FuncOp) -> int:
        """Return the position of an import in the table."""
        symbol = bare_symbol(callee)
        return next(i for i, entry in enumerate(self.table) if entry.symbol == symbol)

    def _entry(self, emitter: FunctionEmitter, table: int, ordinal: int) -> str:
        """Emit the load of pointer `ordinal` of a table of pointers.

        `table` is the offset in bytes of the table's address in the environment, the structure of the runtime that
        kernels are passed (`%env`).
        """
        pointers = self._load(emitter, "%env", table, "ptr", _POINTER_BYTES)
        return self._load(emitter, pointers, _POINTER_BYTES * ordinal, "ptr", _POINTER_BYTES)

    def _layout(self, emitter: FunctionEmitter, callee: FuncOp) -> ParamsLayout:
        """Return the layout of the structure that an import's arguments and results are passed in."""
        signature = signature_of(callee)
        try:
            return layout(signature.results, signature.arguments, signature.fields)
        except ValueError as error:
            raise emitter.error(f"import '{signature.symbol}': {error}", "pass memrefs for everything else") from None


def _params_memory(emitter: FunctionEmitter, layout: ParamsLayout) -> str:
    """Return the address of stack memory for the structure of a call; "null" for a structure without members.

    All calls in the function with structures of this size share the memory, also those whose members need less
    alignment.
    """
    if not layout.size:
        return "null"
    align = max(layout.align, 16)
    key = "params", layout.size, align
    return emitter.once(key, lambda: emitter.alloca(f"[{layout.size} x i8]", layout.size, align))


def _store_arguments(
    emitter: FunctionEmitter, params: str, layout: ParamsLayout, arguments: Sequence[CArgument]
) -> None:
    """Emit the stores of the arguments and requested fields of an import call into its structure at `params`.

    Their members are those after the results'.
    """
    for argument, member in zip(arguments, layout.members[layout.result_count :], strict=True):
        type_, operand = argument.type, argument.operand
        if type_ == "i1":  # a byte in memory
            type_, operand = "i8", emitter.body.let(f"zext i1 {operand} to i8")
        pointer = _field_address(emitter, params, member.offset)
        emitter.body.emit(f"store {type_} {operand}, ptr {pointer}, align {member.size}")


def _field_address(emitter: FunctionEmitter, params: str, offset: int) -> str:
    """Emit the address of the byte at `offset` of the structure of results and arguments at `params`."""
    return emitter.body.let(f"getelementptr inbounds i8, ptr {params}, i64 {offset}") if offset else params


def _result(emitter: FunctionEmitter, params: str, offset: int, type_: Attribute) -> str:
    """Emit the load of a result of kernel IR type `type_` from byte `offset` of the structure of an import call."""
    stored = memory_type_of(type_)
    value = emitter.body.let(
        f"load {stored}, ptr {_field_address(emitter, params, offset)}, align {_alignment(stored)}"
    )
    is_truth_value = stored != scalar(type_)  # an i1 is a byte in memory
    return emitter.body.let(f"icmp ne i8 {value}, 0") if is_truth_value else value


def _alignment(type_: str) -> int:
    """Return the alignment in bytes of a scalar LLVM type: equal to its size: 4 for "i32"."""
    return {"half": 2, "bfloat": 2, "float": 4, "double": 8}.get(type_) or int(type_[1:]) // 8
