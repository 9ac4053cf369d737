"""Emission of one WGSL entry point or helper: its indices, invocations, loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.emit.shaders.loops import CountedLoop
from pydispatch.compiler.emit.shaders.values import passed_index_count
from pydispatch.compiler.emit.wgsl.statements import StatementEmitter
from pydispatch.compiler.emit.wgsl.words import Literal, Name, as_unsigned, two_words

Lowering = Callable[["FunctionEmitter", Operation], None]
"""Emits the code of an operation."""
Index = int | Name
"""An index: a Python int when it is known while compiling."""

HIDDEN_ZERO = "pyd_zero"
"""A variable of a module that is always 0, which compilers cannot know: it keeps them from regrouping float sums."""

BUILT_INS = {
    "invocation": "@builtin(local_invocation_index) invocation: u32",
    "local": "@builtin(local_invocation_id) local: vec3u",
    "workgroup": "@builtin(workgroup_id) workgroup: vec3u",
    "workgroups": "@builtin(num_workgroups) workgroups: vec3u",
}
"""Parameter of an entry point -> its declaration."""
VECTORS = {"LocalInvocationId": "local", "WorkgroupId": "workgroup", "NumWorkgroups": "workgroups"}
"""Name of a built-in vector in SPIR-V -> parameter with the same three components, a key of `BUILT_INS`."""


class FunctionEmitter(StatementEmitter):
    """Emitter of one WGSL function, an entry point or a helper that computes one operation such as `exp`.

    `emitter.py` creates it for each export, `definitions.py` for each helper; both lower the function by `region`.

    It adds indices, invocations, loops and branches to the statements of the base class.
    """

    unrolled_widths = (32,)

    # Indices

    def index_value(self, value: Index) -> Name:
        """Return an index as a name; a known one becomes a literal."""
        return self.number(value, self.index_width) if type(value) is int else value  # type: ignore[return-value]

    def _sum(self, lhs: Name, rhs: Index) -> Name:
        """Emit the sum of two indices, or reuse an equal one."""
        if self.index_width == 64:
            return self._cached_let(f"{self.module.library('pyd_i64_add')}({lhs}, {self.index_value(rhs)})")
        if type(rhs) is int and rhs < 0 and rhs != -(1 << 31):  # 2^31 is no i32
            return self._cached_let(f"{lhs} - {-rhs}")
        return self._cached_let(f"{lhs} + {self.index_value(rhs)}")

    def _difference(self, lhs: Index, rhs: Name) -> Name:
        """Emit a subtraction of indices."""
        if self.index_width == 64:
            return self._cached_let(f"{self.module.library('pyd_i64_sub')}({self.index_value(lhs)}, {rhs})")
        return self._cached_let(f"{self.index_value(lhs)} - {rhs}")

    def _product(self, lhs: Name, rhs: Index) -> Name:
        """Emit a multiplication of indices."""
        if self.index_width == 64:
            return self._cached_let(f"{self.module.library('pyd_i64_mul')}({lhs}, {self.index_value(rhs)})")
        return self._cached_let(f"{lhs} * {self.index_value(rhs)}")

    def _cached_let(self, expression: str) -> Name:
        """Return the name of an index expression; emit a `let` for it unless an equal one has a name in this scope."""
        cached = self._cached_sums.get(expression)
        if cached is None:
            cached = self._cached_sums[expression] = self.let(expression, stem="at")
        return cached

    def divide(self, lhs: Index, rhs: int, is_remainder: bool = False) -> Index:
        """Return the quotient, or the remainder (`is_remainder`), of a non-negative index and the positive `rhs`."""
        if type(lhs) is int:
            return lhs % rhs if is_remainder else lhs // rhs
        if rhs == 1:
            return 0 if is_remainder else lhs
        if self.index_width == 64:
            function = self.module.library("pyd_u64_rem" if is_remainder else "pyd_u64_div")
            return self._cached_let(f"{function}({lhs}, {two_words(rhs)})")
        is_power_of_two = rhs & (rhs - 1) == 0  # x / 8 is x >> 3, and x % 8 is x & 7
        if is_power_of_two:
            return self._cached_let(f"{lhs} & {rhs - 1}" if is_remainder else f"{lhs} >> {rhs.bit_length() - 1}u")
        return self._cached_let(f"{lhs} {'%' if is_remainder else '/'} {rhs}")

    def element_index(self, index: Index) -> str:
        """Return the text of an index into an array; of a 64-bit index the low word: no buffer has 2^32 elements."""
        return str(index) if type(index) is int or self.index_width == 32 else f"{index}.x"

    # Invocations

    def built_in(self, name: str) -> str:
        """Add a built-in parameter to the function unless it has it, and return its name."""
        self.parameters[name] = BUILT_INS[name]
        return name

    def index_of(self, word: str) -> Name:
        """Emit the conversion of a built-in u32, `word`, to an index, once for the function, and return its name.

        The u32 is below 2^31. The conversion is at the beginning of the function.
        """
        index = f"i32({word})" if self.index_width == 32 else f"vec2u({word}, 0u)"
        return self.at_entry(("index", word), lambda: self.let(index, stem="at"))

    def invocation(self) -> Name:
        """Return the number of the invocation in its workgroup, as an index."""
        return self.index_of(self.built_in("invocation"))

    def component(self, built_in: str, dimension: int) -> Name:
        """Return component `dimension` (0 to 2) of a built-in vector, a key of `VECTORS`, as an index."""
        return self.index_of(f"{self.built_in(VECTORS[built_in])}.{'xyz'[dimension]}")

    def barrier(self) -> None:
        """Wait for all invocations of the workgroup; what they wrote before is visible to all after."""
        if self.synchronizes_buffers:
            self.do("storageBarrier();")
        self.do("workgroupBarrier();")

    def shared_by_workgroup(self, handle: Name, value: SSAValue | None, type_: str) -> Name:
        """Return the value of invocation 0 in all invocations, as a value that WGSL knows to be uniform.

        Control flow that contains a barrier needs such values. Invocation 0 stores the value in workgroup memory, from
        where all load it. So all invocations must reach this code together.

        Args:
            handle: WGSL name of the value.
            value: The value in kernel IR. If it is known to be uniform, `handle` is returned. None: always share it.
            type_: WGSL type of the value.
        """
        is_uniform = type(handle) is Literal or (value is not None and self.uniformity.is_uniform(value))
        if is_uniform:
            return handle
        is_bool = type_ == "bool"  # stored as a u32
        stored_type = "u32" if is_bool else type_
        name = f"agreed_{stored_type}"
        shared = self.module.declare(name, lambda: f"var<workgroup> {name}: {stored_type};")
        stored_value = f"u32({handle})" if is_bool else f"({handle})"
        self.do(f"if {self.built_in('invocation')} == 0u {{ {shared} = {stored_value}; }}")
        loaded = self.let(f"workgroupUniformLoad(&{shared})")
        return self.let(f"{loaded} != 0u") if is_bool else loaded

    # Loops and branches

    def choose(
        self, condition: Name, then: Callable[[], list[Name]], other: Callable[[], list[Name]], types: Sequence[str]
    ) -> list[Name]:
        """Emit `if condition { then } else { other }`, and return variables with the results of the branch that ran.

        types: WGSL types of the results.
        """
        results = [self.var(type_) for type_ in types]

        def emit_branch(emit: Callable[[], list[Name]]) -> None:
            """Emit a branch, `then` or `other`, which assigns its results to the variables `results`."""
            with self.scope():
                for result, value in zip(results, emit(), strict=True):
                    self.do(f"{result} = {value};")

        self.do(f"if {condition} {{")
        emit_branch(then)
        line_count = len(self.lines)
        self.do("} else {")
        emit_branch(other)
        is_else_empty = len(self.lines) == line_count + 1
        if is_else_empty:
            self.lines.pop()  # without the line "} else {"
        self.do("}")
        return results

    def less(self, lhs: object, rhs: object, width: int, unsigned: bool = False) -> str:
        """Return the expression lhs < rhs of integers of `width` bits, 32 or 64.

        unsigned: whether they are compared without sign.
        """
        if width == 64:
            return f"{self.module.library('pyd_u64_lt' if unsigned else 'pyd_i64_lt')}({lhs}, {rhs})"
        return f"{as_unsigned(lhs)} < {as_unsigned(rhs)}" if unsigned else f"{lhs} < {rhs}"

    def as_uniform(self, op: Operation, handle: Name, value: SSAValue) -> Name:
        """Return a condition or bound of the control flow `op` as a value that WGSL knows to be uniform.

        WGSL demands that only around a barrier: without one, `handle`, the WGSL name of `value`, is returned.
        """
        if not self.uniformity.has_barrier(op):
            return handle
        return self.shared_by_workgroup(handle, value, self.type(value.type))

    def equals(self, lhs: Name, rhs: Name) -> Name:
        """Emit the comparison of two indices; the result is a bool."""
        return self.let(f"{lhs} == {rhs}" if self.index_width == 32 else f"all({lhs} == {rhs})")

    def counter_type(self, width: int) -> str:
        """Return the WGSL type of the counter of a loop that is unrolled."""
        return "i32"  # of the only width in `unrolled_widths`

    def counter_value(self, value: Index, width: int) -> Name:
        """Return a counter, or a bound of a loop, as a name; a known one becomes a literal."""
        return value if isinstance(value, Name) else self.number(value, width)

    def next_counter(self, counter: Name, step: int, width: int) -> Name:
        """Emit the addition of the step to an i32 counter."""
        return self.let(f"{counter} + {step}", stem="at")

    def end_before(self, lower: int, upper: Name, distance: int, width: int) -> Name:
        """Emit `max(upper, lower) - distance`, for i32."""
        return self.let(f"max({upper}, {lower}) - {distance}", stem="at")

    def plain_loop(self, loop: CountedLoop[Name]) -> list[Name]:
        """Emit a counted loop that is not unrolled, and return the carried values after it."""
        lower, upper, step = (self.counter_value(bound, loop.width) for bound in loop.bounds)
        variables = [self.var(type_, value, "c") for type_, value in loop.carried]
        counter = self.fresh("n")
        increment = f"{counter} += {step}"
        if loop.width == 64:
            increment = f"{counter} = {self.module.library('pyd_i64_add')}({counter}, {step})"
        test = self.less(counter, upper, loop.width, loop.is_unsigned)
        self.do(f"for (var {counter} = {lower}; {test}; {increment}) {{")
        with self.scope():
            self.assign(variables, loop.body(counter, list(variables)))
        self.do("}")
        return variables

    def assign(self, variables: Sequence[Name], values: Sequence[Name]) -> None:
        """Give variables their next values, all at once: a value may be the old value of another variable."""
        changes = [(variable, value) for variable, value in zip(variables, values, strict=True) if variable != value]
        changed = {variable for variable, _ in changes}
        # Old values of variables that change are copied: (a, b) = (b, a) is `let v1 = b; let v2 = a; a = v1; b = v2;`.
        changes = [(variable, self.let(value) if value in changed else value) for variable, value in changes]
        for variable, value in changes:
            self.do(f"{variable} = {value};")

    def part_types(self, values: Sequence[SSAValue]) -> list[str]:
        """Return the WGSL types of the names that values are passed as between blocks.

        A scalar is one; a memref is several indices: its base, and its dynamic offset, sizes and strides.
        """
        types: list[str] = []
        for value in values:
            if isinstance(value.type, MemRefType):
                types += [self.index_type] * passed_index_count(value.type)
            else:
                types.append(self.type(value.type))
        return types
