"""Loading of a PTX module: its variables get memory, and its functions are translated to closures."""

from __future__ import annotations

import struct
from collections import ChainMap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.formats.ptx.module import (
    SIZES,
    Address,
    Arguments,
    Instruction,
    PtxFunction,
    PtxModule,
    PtxSymbol,
    Variable,
    Vector,
)
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Special
from pydispatch.runtime.simulators.ptx.elements import aligned
from pydispatch.runtime.simulators.ptx.functions import HOST
from pydispatch.runtime.simulators.ptx.specials import is_special
from pydispatch.runtime.simulators.ptx.translate import FunctionCode, Translator, symbols_of

if TYPE_CHECKING:
    from pydispatch.runtime.simulators.ptx.memory import GlobalMemory

FUNCTIONS = 0x7C00_0000_0000
"""Address of the first function of a module. Functions have no code in memory, but PTX may take their addresses."""

FUNCTION_STRIDE = 16
"""Bytes between the addresses of functions."""

LOCAL_ALIGNMENT = 16
"""Alignment of a function's local memory, in bytes."""

DYNAMIC_ALIGNMENT = 16
"""Alignment of shared memory whose size a launch decides, in bytes."""

MAX_VARIABLE_BYTES = 1 << 31
"""Limit for all variables of a module together, which is what the code of a GPU can address.

Without a limit a few words of PTX could reserve terabytes.
"""
_HOST: dict[str, int | Special] = dict.fromkeys(HOST, 0)
"""Functions that the interpreter has itself, as symbols without an address."""


@dataclass(frozen=True)
class PtxKernel:
    """Kernel (entry) of a module that the simulated GPU has loaded.

    Attributes:
        loaded: The module.
        name: Name of the entry.
        function, code: The entry as parsed, and as closures.
        offsets: Byte offset of each parameter in the memory of parameters that a launch passes.
        param_bytes: Bytes of that memory.
        static_shared_bytes: Shared memory of a block for the variables of static size; that of dynamic size follows.
    """

    loaded: Loaded
    name: str
    function: PtxFunction
    code: FunctionCode
    offsets: tuple[int, ...]
    param_bytes: int
    static_shared_bytes: int


class Loaded:
    """PTX module that the simulated GPU has loaded: its variables in memory, and its functions as closures.

    `Machine` creates it. Launches and loads ask it for kernels (`entry`) and for addresses (`variable`).
    """

    def __init__(self, module: PtxModule, memory: GlobalMemory) -> None:
        """Load a module into a machine's memory.

        Raises:
            ArtifactError: The simulator does not support some code. The message names the line and the instruction.
        """
        self.module = module
        self.memory = memory
        self._variables: dict[str, tuple[int, int]] = {}  # name of a global variable → (address, size)
        self._symbols: dict[str, int | Special] = {}  # name → its address; special: known at launch
        self._codes: dict[str, FunctionCode] = {}  # name of a function → its translation
        self._functions: list[PtxFunction] = []  # in the order of their addresses
        # Addresses of functions; a function with a declaration and a body has one.
        names = dict.fromkeys(function.name for function in module.functions)
        for name in names:
            declared = module.function(name)
            assert declared is not None
            self._symbols[name] = FUNCTIONS + FUNCTION_STRIDE * len(self._functions)  # no code is stored there
            self._functions.append(declared)
        self._lines = module.text.split("\n")
        self._by_name = {function.name: function for function in self._functions}
        # Addresses of variables, and their initial values, which may be addresses.
        self._allocate_variables()
        self._shared = _SharedLayout(module)
        self._symbols.update(self._shared.offsets)
        self._initialise()
        # Code, which may contain all these addresses.
        for function in self._functions:
            if function.body is not None:
                self._codes[function.name] = self._translate(function)
        self._kernels = {f.name: self._kernel(f) for f in self._functions if f.is_entry and f.body is not None}

    # -- Queries -------------------------------------------------------------------------------------------------

    def entry(self, name: str) -> PtxKernel:
        """Return a kernel by its name. If there is none, raise InvalidArgumentError, which lists all kernels."""
        if name not in self._kernels:
            names = ", ".join(self._kernels) or "none"
            raise InvalidArgumentError(f"'{self.module.name}' has no entry '{name}'; it has: {names}")
        return self._kernels[name]

    def variable(self, name: str) -> tuple[int, int]:
        """Return (address, bytes) of a module's .global or .const variable."""
        if name not in self._variables:
            names = ", ".join(self._variables) or "none"
            raise InvalidArgumentError(f"'{self.module.name}' has no variable '{name}'; it has: {names}")
        return self._variables[name]

    def shared_variables(self, kernel: str) -> list[tuple[str, int, int]]:
        """Return (name, offset in a block's shared memory, bytes) of each shared variable of a kernel.

        The bytes are 0 for a variable whose size the launch states, `.extern .shared .b8 s[]`.
        """
        function_variables = [v for f in self.module.functions for v in f.variables]
        shared = {v.name: v.size for v in (*function_variables, *self.module.variables) if v.space == "shared"}
        layout = self._shared
        return [(name, offset, shared[name]) for name, offset in layout.offsets.items() if kernel in layout.users[name]]

    def code(self, name: str) -> FunctionCode | None:
        """Return the closures of a function by its name; None if the module does not define it."""
        return self._codes.get(name)

    def code_at(self, address: int) -> FunctionCode | None:
        """Return the closures of the function with an address (see `FUNCTIONS`); None if no defined function has it."""
        index, remainder = divmod(address - FUNCTIONS, FUNCTION_STRIDE)
        if remainder or not 0 <= index < len(self._functions):
            return None
        return self._codes.get(self._functions[index].name)

    def free(self) -> None:
        """Release the memory of the variables."""
        for address, _ in self._variables.values():
            self.memory.free(address)
        self._variables.clear()

    # -- Variables -----------------------------------------------------------------------------------------------

    def _allocate_variables(self) -> None:
        """Allocate the global and constant variables. Raise ArtifactError for undefined ones and for too many bytes.

        This sets `_variables` (name → address and size) and `_symbols` (name → address). Initial values are written
        later, since they may be addresses of other variables.
        """
        function_variables = [v for f in self.module.functions for v in f.variables]
        total_bytes = 0
        for variable in (*self.module.variables, *function_variables):
            if variable.space not in ("global", "const") or variable.name in self._variables:
                continue  # a variable may be declared more than once
            if variable.linkage == "extern":
                self._require_definition(variable)
                continue
            # An array without a size, `.global .u32 a[] = {1, 2}`, has that of its values.
            size = max(variable.size, len(variable.values) * SIZES[variable.type])
            if (total_bytes := total_bytes + size) > MAX_VARIABLE_BYTES:
                raise ArtifactError(
                    f"{self.module.name}:{variable.line}: with '{variable.name}' the variables of the module have "
                    f"{total_bytes} bytes, at most {MAX_VARIABLE_BYTES} are there; pass large arrays as arguments"
                )
            address = self.memory.allocate(size, variable.space, variable.name)
            self._variables[variable.name] = (address, size)
            self._symbols[variable.name] = address

    def _require_definition(self, variable: Variable) -> None:
        """Raise ArtifactError unless the module defines a variable that it declares extern."""
        if not any(v.name == variable.name and v.linkage != "extern" for v in self.module.variables):
            raise ArtifactError(
                f"{self.module.name}:{variable.line}: the variable '{variable.name}' is defined nowhere"
            )

    def _initialise(self) -> None:
        """Write the initial values of variables into their memory; a value may be the address of another variable."""
        function_variables = [v for f in self.module.functions for v in f.variables]
        for variable in (*self.module.variables, *function_variables):
            if variable.values and variable.name in self._variables and variable.linkage != "extern":
                data = b"".join(self._word(variable, value) for value in variable.values)
                address, size = self._variables[variable.name]
                self.memory.write(address, data[:size])  # values beyond the variable's size are dropped

    def _word(self, variable: Variable, value: int | float | PtxSymbol) -> bytes:
        """Return the bytes of one initial value of a variable, little-endian, in the size of the variable's type.

        For a .u64 variable, `x+8` gives the address of x plus 8, in 8 bytes. For a .u8 variable, `0xff00(x)` gives one
        byte: bits 8 to 15 of the address of x.

        Args:
            variable: The variable.
            value: A number, or the symbol of a variable or function.

        Raises:
            ArtifactError: The symbol has no address, or a float is too large for the type.
        """
        size = SIZES[variable.type]
        if isinstance(value, PtxSymbol):
            value = self._address(variable, value)
        elif isinstance(value, float) or variable.type in ("f32", "f64"):
            return self._float_bytes(variable, value)
        # Also the bits of an f16. Higher bytes are dropped: of `0xff00(x)`, all but one byte of the address.
        return (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def _address(self, variable: Variable, symbol: PtxSymbol) -> int:
        """Return the address of a symbol in the initial values of a variable, with its offset and shift.

        Raise ArtifactError if the symbol is not declared.
        """
        address = self._symbols.get(symbol.name)
        if not isinstance(address, int):
            raise ArtifactError(
                f"{self.module.name}:{variable.line}: '{variable.name}' holds the address of '{symbol.name}', "
                "which is not declared"
            )
        return (address + symbol.offset) >> (symbol.shift or 0)

    def _float_bytes(self, variable: Variable, value: float) -> bytes:
        """Return the bytes of a float; a variable of bits holds an f32 (.b32) or an f64 (.b64)."""
        default_format = "<f" if SIZES[variable.type] == 4 else "<d"
        try:
            return struct.pack({"f32": "<f", "f64": "<d", "f16": "<e"}.get(variable.type, default_format), value)
        except OverflowError:
            raise ArtifactError(
                f"{self.module.name}:{variable.line}: '{variable.name}' of {variable.type} cannot hold {value:g}"
            ) from None

    # -- Functions -----------------------------------------------------------------------------------------------

    def _translate(self, function: PtxFunction) -> FunctionCode:
        """Translate a function into closures.

        Names in its instructions are looked up first among its local variables and kernel parameters, then among the
        functions of the device runtime, and then among the variables and functions of the module.
        """
        symbols_here = symbols_of(function.variables)  # local variable → its `Special`
        # The function's local memory ends with the last of its local variables.
        ends = [
            symbol.offset + variable.size
            for variable in function.variables
            if variable.space == "local" and isinstance(symbol := symbols_here.get(variable.name), Special)
        ]
        local_bytes = max(ends, default=0)
        if function.is_entry:
            for param, offset in zip(function.params, offsets_of(function), strict=True):
                # The address of a kernel parameter: an offset in the parameter memory of the launch.
                symbols_here[param.name] = Special("param", dtype=np.dtype("u8"), offset=offset)
        # A ChainMap does not copy the symbols of the module, which may have thousands of functions to translate.
        all_symbols = ChainMap(symbols_here, _HOST, self._symbols)
        builder = FunctionBuilder(
            self.module.name,
            self._lines,
            types=function.registers,
            symbols=all_symbols,
            is_special=is_special,
            functions=self._by_name,
        )
        return Translator(function, builder).run(aligned(local_bytes, LOCAL_ALIGNMENT))

    def _kernel(self, function: PtxFunction) -> PtxKernel:
        """Return the kernel of an entry function, with the layout of its parameters."""
        offsets = offsets_of(function)
        size = offsets[-1] + function.params[-1].size if offsets else 0
        static_shared_bytes = self._shared.ends.get(function.name, 0)
        return PtxKernel(self, function.name, function, self._codes[function.name], offsets, size, static_shared_bytes)


def offsets_of(function: PtxFunction) -> tuple[int, ...]:
    """Return the byte offsets of the parameters of an entry: each at the next multiple of its alignment."""
    offsets, end = [], 0
    for param in function.params:
        start = aligned(end, max(param.align, SIZES[param.type]))
        offsets.append(start)
        end = start + param.size
    return tuple(offsets)


class _SharedLayout:
    """Layout of the shared variables of a module. Variables that no kernel uses together may overlap.

    A variable has one offset, for all kernels that use it, because functions that several kernels call contain it as a
    constant. Each variable begins after the end of all memory that its kernels use so far.

    Example: kernel A uses x (100 bytes) and z (32 bytes, alignment 16), kernel B uses y (64 bytes) and z. Then x and y
    both have the offset 0, because no kernel uses both. z has the offset 112, the first multiple of 16 after the longer
    one. The end is 144 for both kernels.

    Attributes:
        offsets: By variable, its offset in a block's shared memory, in bytes.
        users: By variable, the names of the kernels that use it: they, or functions that they may call, mention it.
        ends: By kernel, bytes of shared memory with a static size. Memory of dynamic size begins there.
    """

    def __init__(self, module: PtxModule) -> None:
        """Append each variable to the shared memory of the kernels that use it; variables of dynamic size come last.

        This sets `offsets` (of each variable, in bytes), `users` (names of the kernels that use it) and `ends` (of each
        kernel, the bytes of its shared memory so far). A variable has one offset in all kernels.
        """
        self.offsets: dict[str, int] = {}
        self.users: dict[str, list[str]] = {}
        names_of = {f.name: _names(f) for f in module.functions if f.body is not None}
        names_of_kernel = {f.name: self._reached(f.name, names_of, module) for f in module.entries}
        self.ends = dict.fromkeys(names_of_kernel, 0)
        function_variables = [v for f in module.functions for v in f.variables]
        shared = [v for v in (*module.variables, *function_variables) if v.space == "shared"]
        # A variable of dynamic size, `.extern .shared .b8 s[]`, has the size 0, and is laid out last.
        sized = [v for v in shared if v.size]
        defined = {v.name for v in sized if v.linkage != "extern"}
        for variable in (*sized, *(v for v in shared if not v.size)):
            # A name gets one offset: that of its definition, if the module has a definition and a declaration.
            if variable.name in self.offsets or (variable.linkage == "extern" and variable.name in defined):
                continue
            users = [kernel for kernel, names in names_of_kernel.items() if variable.name in names]
            # If no kernel names it, it must not overlap with any other one.
            self._append(variable, users or list(names_of_kernel))

    def _append(self, variable: Variable, users: list[str]) -> None:
        """Append a variable to the shared memory of the kernels that use it."""
        alignment = max(variable.align, 1 if variable.size else DYNAMIC_ALIGNMENT)
        start = aligned(max((self.ends[kernel] for kernel in users), default=0), alignment)
        self.offsets[variable.name], self.users[variable.name] = start, users
        for kernel in users:
            self.ends[kernel] = start + variable.size

    def _reached(self, kernel: str, names_of: dict[str, set[str]], module: PtxModule) -> set[str]:
        """Return the names of variables and functions that a kernel, or a function that it may call, mentions.

        names_of: function → the names that it mentions itself.
        """
        reached: set[str] = set()
        # A function whose address is in a variable may be called indirectly, by any kernel.
        initial_values = (value for variable in module.variables for value in variable.values)
        pending = [kernel, *(value.name for value in initial_values if isinstance(value, PtxSymbol))]
        while pending:
            name = pending.pop()
            for other in names_of.get(name, ()):
                if other not in reached:
                    reached.add(other)
                    pending.append(other)
        return reached


def _names(function: PtxFunction) -> set[str]:
    """Return the names of the variables and functions that a function mentions or declares."""
    names: set[str] = set()
    instructions = [item for item in function.body or () if isinstance(item, Instruction)]
    pending: list[object] = [operand for instruction in instructions for operand in instruction.operands]
    while pending:
        operand = pending.pop()
        if isinstance(operand, PtxSymbol):
            names.add(operand.name)
        elif isinstance(operand, Address):
            pending.append(operand.base)
        elif isinstance(operand, Vector | Arguments):
            pending.extend(operand.items)
    return names | {variable.name for variable in function.variables}
