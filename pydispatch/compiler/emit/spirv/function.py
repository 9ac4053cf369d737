"""Emission of one SPIR-V entry point: its values and its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import Float32Type, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.loops import CountedLoop
from pydispatch.compiler.emit.shaders.values import is_f32_or_f64, passed_index_count
from pydispatch.compiler.emit.spirv.index import BlockArithmetic
from pydispatch.compiler.emit.spirv.kernels import Kernels
from pydispatch.compiler.emit.spirv.loops import LoopBlocks
from pydispatch.compiler.emit.spirv.module import Code, Id
from pydispatch.compiler.emit.spirv.types import Index, register_type
from pydispatch.compiler.emit.spirv.words import ALL_MEMORY, SCOPE_WORKGROUP, encode
from pydispatch.compiler.kernel_ir.hazards import base_of
from pydispatch.compiler.kernel_ir.scan import Ops
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel
from pydispatch.compiler.kernel_ir.types import checked_memref
from pydispatch.ir.core.locations import line_of

Lowering = Callable[["FunctionEmitter", Operation], None]
"""Emits the code of an operation."""


def _exchanged_floats(ops: Ops) -> frozenset[object]:
    """Return the allocations (operations) of f32 and f64 that are updated atomically.

    Such an update is a loop around a compare-exchange, which SPIR-V has for integers only. So the elements of these
    allocations are declared as integers.
    """
    targets = (op.operands[1] for op in ops.get("memref.atomic_rmw", ()))
    floats = (memref for memref in targets if is_f32_or_f64(checked_memref(memref.type).element_type))
    # `base_of` returns keys of storage, several if a branch chose the memref. The key of an allocation is its
    # operation; bindings and arguments of functions have tuples as keys.
    return frozenset(key for memref in floats for key in base_of(memref) if not isinstance(key, tuple))


class FunctionEmitter(BlockArithmetic):
    """Emitter of one SPIR-V entry point.

    `emitter.py` creates it for each export, and lowers the body by `region`. Lowerings append instructions to
    `code`, and `define` results.

    Attributes:
        module, definitions: State that all kernels of the module share; both are the same object.
        constant_keys: The key of each word of the executable constants.
        entry: Words of the entry block.
        interface: Built-in variables that the entry point uses, by name.
        binding_variables: Ordinal of a binding -> its variables, one for each element type that it is accessed in.
        exchanged_floats: Allocations of floats that are updated atomically, whose elements are declared as integers.
    """

    def __init__(self, module: Kernels, kernel: Kernel) -> None:
        """Begin the entry point of `kernel` in the SPIR-V module `module`, without instructions."""
        super().__init__(Code(module.m), module.table, kernel)
        self.module = self.definitions = module  # emitters of all languages find functions and tables in `definitions`
        self.constant_keys = module.constant_keys
        self.entry: list[int] = []  # words of the entry block, which dominates all others
        self.interface: dict[str, Id] = {}  # name of a built-in that the entry point uses → its variable
        # Ordinal of a binding → its variables, one for each element type that it is accessed in.
        self.binding_variables: dict[int, list[Id]] = {}
        self._cache: dict[object, Id] = {}  # ids that `once` and `at_entry` made, by key
        # Allocations of floats that are updated atomically, whose elements are declared as integers.
        self.exchanged_floats = _exchanged_floats(kernel.ops)
        # (binding, element type) → ids for loads and stores without conversion (`_plain_access` in ops/memory.py).
        self.plain_accesses: dict[object, Any] = {}

    @contextmanager
    def at_source_line(self, op: Operation) -> Iterator[None]:
        """Emit an OpLine with the location of `op`, if it is known, before the code that is emitted in this context."""
        location = line_of(op, self.function)
        if location is not None and self.code.is_block_open:  # nothing may follow the terminator of a block
            self.code.do("Line", self.m.file(location.file), location.line, location.column)
        yield

    # Values

    def type(self, type_: Attribute) -> Id:
        """Return the SPIR-V type of the register of a scalar type."""
        if type(type_) is Float32Type:  # the most frequent type: a shortcut
            return self.m.float(32)
        return register_type(self.m, type_, self.index_width)

    def constant(self, value: int, type_: Attribute) -> Id:
        """Return an integer constant in the register of a scalar type."""
        width = self.width(type_)
        return self.m.truth(bool(value & 1)) if width == 1 else self.m.integer(value, width)

    def once(self, key: object, make: Callable[[], Id]) -> Id:
        """Return the cached id of `key`; on a miss, call `make` for it."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def at_entry(self, key: object, make: Callable[[], Id]) -> Id:
        """Return the id that `make` emits into the entry block, once for each key."""
        if key not in self._cache:
            lines, self.code.lines = self.code.lines, self.entry
            self._block = None  # so that `make` reuses no index arithmetic of the current block, which comes later
            self._cache[key] = make()
            self._block, self.code.lines = None, lines
        return self._cache[key]

    # Invocations

    def invocation(self) -> Id:
        """Return the linear index of the invocation in its workgroup, with x fastest, in the width of indices."""

        def load_index() -> Id:
            """Load the number of the invocation, in the width of indices."""
            variable = self.builtin("LocalInvocationIndex", self.m.int(32))
            index = self.code.let("Load", self.m.int(32), variable)
            return index if self.index_width == 32 else self.code.let("UConvert", self.m.int(64), index)

        return self.at_entry("invocation", load_index)

    def component(self, built_in: str, dimension: int) -> Id:
        """Return component `dimension` (0: x) of a built-in vector, such as "WorkgroupId", in the width of indices."""
        vector = self.m.type("TypeVector", self.m.int(32), 3)

        def load_component() -> Id:
            """Load component `dimension` of the vector `built_in`, in the width of indices."""
            components = self.code.let("Load", vector, self.builtin(built_in, vector))
            component = self.code.let("CompositeExtract", self.m.int(32), components, dimension)
            return component if self.index_width == 32 else self.code.let("UConvert", self.m.int(64), component)

        return self.at_entry((built_in, dimension), load_component)

    def barrier(self) -> None:
        """Wait for all invocations of the workgroup; what they wrote before is visible to all after."""
        scope = self.m.integer(SCOPE_WORKGROUP)
        self.code.do("ControlBarrier", scope, scope, self.m.integer(ALL_MEMORY))

    def builtin(self, name: str, type_: Id) -> Id:
        """Return the input variable, of type `type_`, of a built-in such as "WorkgroupId"; list it in `interface`."""
        if name not in self.interface:
            self.interface[name] = self.module.builtin(name, type_)
        return self.interface[name]

    # Loops and branches

    def equals(self, lhs: Id, rhs: Id) -> Id:
        """Emit the comparison of two indices; the result is a bool."""
        return self.code.let("IEqual", self.m.bool(), lhs, rhs)

    def counter_type(self, width: int) -> Id:
        """Return the SPIR-V type of a counter."""
        return self.m.int(width)

    def counter_value(self, value: Index, width: int) -> Id:
        """Return a counter, or a bound of a loop, as an id; a known one becomes a constant."""
        return value if isinstance(value, Id) else self.m.integer(value, width)

    def next_counter(self, counter: Id, step: int, width: int) -> Id:
        """Emit the addition of the step to a counter."""
        return self.code.let("IAdd", self.m.int(width), counter, self.m.integer(step, width))

    def end_before(self, lower: int, upper: Id, distance: int, width: int) -> Id:
        """Emit `max(upper, lower) - distance`, for signed integers of `width` bits."""
        module, type_ = self.m, self.m.int(width)
        is_empty = self.code.let("SLessThan", module.bool(), upper, module.integer(lower, width))
        bounded_upper = self.code.let("Select", type_, is_empty, module.integer(lower, width), upper)
        return self.code.let("ISub", type_, bounded_upper, module.integer(distance, width))

    def plain_loop(self, loop: CountedLoop[Id]) -> list[Id]:
        """Emit a counted loop that is not unrolled, and return the carried values after it."""
        code, module, type_ = self.code, self.m, self.m.int(loop.width)
        first, end, step = (self.counter_value(bound, loop.width) for bound in loop.bounds)
        blocks = LoopBlocks(code)
        counter, next_counter = module.id(), module.id()
        phis = [module.id() for _ in loop.carried]
        blocks.begin()
        is_less = "ULessThan" if loop.is_unsigned else "SLessThan"
        blocks.enter_if(code.let(is_less, module.bool(), counter, end))
        results = loop.body(counter, phis)
        blocks.begin_continue()
        code.lines += encode("IAdd", type_, next_counter, counter, step)
        types, initial = [type_ for type_, _ in loop.carried], [value for _, value in loop.carried]
        blocks.end([type_, *types], [counter, *phis], [first, *initial], [next_counter, *results])
        return phis

    def choose(
        self, condition: Id, then: Callable[[], list[Id]], other: Callable[[], list[Id]], types: Sequence[Id]
    ) -> list[Id]:
        """Emit a condition of which one branch runs, and return the merged results.

        Args:
            condition: The truth value.
            then: Emits the code for true, and returns the results of this branch.
            other: Emits the code for false, and returns as many results.
            types: SPIR-V types of the results.
        """
        code, module = self.code, self.m
        then_label, other_label, merge_label = module.id(), module.id(), module.id()
        code.do("SelectionMerge", merge_label, 0)
        code.branch_if(condition, then_label, other_label)
        ends: list[tuple[list[Id], Id]] = []  # (results, label of the last block) of each branch
        for label, emit_branch in ((then_label, then), (other_label, other)):
            code.start(label)
            ends.append((emit_branch(), code.label))
            code.branch(merge_label)
        code.start(merge_label)
        phis: list[Id] = []
        for index, type_ in enumerate(types):
            phis.append(module.id())
            code.phi(type_, phis[-1], [(values[index], label) for values, label in ends])
        return phis

    def part_types(self, values: Sequence[SSAValue]) -> list[Id]:
        """Return the types of the values that scalars and memrefs are passed as.

        A memref is passed as several indices: its base, and its dynamic offset, sizes and strides.
        """
        types: list[Id] = []
        for value in values:
            if isinstance(value.type, MemRefType):
                types += [self.index_type()] * passed_index_count(value.type)
            else:
                types.append(self.type(value.type))
        return types
