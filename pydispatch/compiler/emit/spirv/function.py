"""One entry point of the SPIR-V module: its values, its blocks, and what its invocations do together.

Outside point loops all invocations execute the same with the same values (uniform code); inside, each has its own
points. Helpers are inlined where they are called: SPIR-V's logical addressing knows no pointers to buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import Float32Type, IntegerAttr, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, Region, SSAValue

from pydispatch.compiler.emit.spirv.index import IndexArithmetic
from pydispatch.compiler.emit.spirv.iterations import UNKNOWN_COPIES, Iterations
from pydispatch.compiler.emit.spirv.kernels import Kernels
from pydispatch.compiler.emit.spirv.module import Code, Id
from pydispatch.compiler.emit.spirv.types import (
    Index,
    MemRef,
    Root,
    Value,
    flatten,
    known,
    open_parts,
    register_type,
    register_width,
    unflatten,
)
from pydispatch.compiler.emit.spirv.words import ALL_MEMORY, SCOPE_WORKGROUP
from pydispatch.compiler.kernel_ir.calls import CALLS
from pydispatch.compiler.kernel_ir.hazards import MANY, Accesses, Hazards, accesses_among
from pydispatch.compiler.kernel_ir.kernel import Layout
from pydispatch.compiler.kernel_ir.readers import LEAVES, attribute, op_name, symbol, unsupported
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

Lowering = Callable[["FunctionEmitter", Operation], None]
Leave = Callable[[Operation], None]


class FunctionEmitter(IndexArithmetic):
    """Writes one entry point. invocations: how many a workgroup has."""

    def __init__(self, module: Kernels, function: FuncOp, invocations: int) -> None:
        super().__init__(Code(module.m))
        self.module = module
        self.function, self.invocations = function, invocations
        self.name = function.sym_name.data
        self.entry: list[int] = []
        self.values: dict[SSAValue, Value] = {}
        self.op: Operation = function
        self.points = 0  # depth of point loops around
        self.shared: set[Operation] = set()  # allocations that point loops write though they stand outside
        once = attribute(function, "pyd.once")
        numbers = once.data if once is not None else ()  # type: ignore[attr-defined]
        self.hazards = Hazards(("binding", int(n.value.data)) for n in numbers if isinstance(n, IntegerAttr))
        self.interface: dict[str, Id] = {}
        self.units: dict[int, list[Id]] = {}  # binding -> its variables
        self.inlined: list[str] = []
        self._cache: dict[object, Id] = {}
        self._facts: dict[object, Any] = {}
        self.plain: dict[object, Any] = {}  # see ops/memref.py
        self.declared_size, self.layout = (1, 1, 1), Layout(0, ())
        self.met: set[object] = set()  # storage through which invocations tell each other something
        self.workgroup_bytes = 0
        self.iterations = Iterations()
        width = attribute(function, "pyd.index_width")
        self.index_width = int(width.value.data) if isinstance(width, IntegerAttr) else module.index_width(function)

    # Values

    def get(self, value: SSAValue) -> Id:
        """The id of a scalar."""
        found = self.values[value]
        if type(found) is Id:
            return found
        if isinstance(found, MemRef):
            raise unsupported(self.op)
        return found if isinstance(found, Id) else self.constant(found, value.type)

    def index(self, value: SSAValue) -> Index:
        """A scalar, as an int when it is known."""
        found = self.values[value]
        if isinstance(found, MemRef):
            raise unsupported(self.op)
        return found

    def memref(self, value: SSAValue) -> MemRef:
        found = self.values[value]
        if not isinstance(found, MemRef):
            raise unsupported(self.op)
        return found

    def define(self, value: SSAValue, operand: Value) -> None:
        self.values[value] = operand

    def type(self, type_: Attribute) -> Id:
        """The register of a scalar type."""
        if type(type_) is Float32Type:
            return self.m.float(32)
        return register_type(self.m, type_, self.index_width)

    def width(self, type_: Attribute) -> int:
        """Bits of that register: 1, 32 or 64."""
        return register_width(type_, self.index_width)

    def constant(self, value: int, type_: Attribute) -> Id:
        """An integer of a scalar type."""
        width = self.width(type_)
        return self.m.truth(bool(value & 1)) if width == 1 else self.m.integer(value, width)

    def once(self, key: object, make: Callable[[], Id]) -> Id:
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def once_object(self, key: object, make: Callable[[], Any]) -> Any:
        """Like `once`, for facts."""
        if key not in self._facts:
            self._facts[key] = make()
        return self._facts[key]

    def at_entry(self, key: object, make: Callable[[], Id]) -> Id:
        """What `make` writes, once, at the beginning of the function, where it dominates everything."""
        if key not in self._cache:
            lines, self.code.lines = self.code.lines, self.entry
            self._block = None  # sums of the block do not reach the entry
            self._cache[key] = make()
            self._block, self.code.lines = None, lines
        return self._cache[key]

    def error(self, message: str, note: str | None = None) -> CompileError:
        """An error at the current op."""
        return CompileError(message, location_of(self.op), note)

    # The invocations together

    def accesses(self, op: Operation) -> Accesses:
        """What an operation and the helpers that it calls read and write; arguments of helpers are what was passed."""
        found = accesses_among(op, self.module.touching(self.function))
        if self.module.ops(self.function).keys() & set(CALLS):
            for inner in op.walk():
                if op_name(inner) in CALLS:
                    callee = self.module.functions.get(symbol(inner, "callee"))
                    if callee is not None and callee.body.blocks:
                        found.add(self.accesses(callee))
        return Accesses(self._passed(found.reads), self._passed(found.writes))

    def _passed(self, keys: set[object]) -> set[object]:
        found: set[object] = set()
        for key in keys:
            value = self.values.get(key[1]) if isinstance(key, tuple) and key[0] == "argument" else None
            found.add(value.root.key if isinstance(value, MemRef) else key)
        return found

    @property
    def together(self) -> bool:
        """Whether several invocations run this code."""
        return self.points == 0 and self.invocations > 1

    def invocation(self) -> Id:
        """The number of the invocation in its workgroup, as an index."""

        def make() -> Id:
            variable = self.builtin("LocalInvocationIndex", self.m.int(32))
            found = self.code.let("Load", self.m.int(32), variable)
            return found if self.index_width == 32 else self.code.let("UConvert", self.m.int(64), found)

        return self.at_entry("invocation", make)

    def builtin(self, name: str, type_: Id) -> Id:
        """The input variable of a built-in."""
        if name not in self.interface:
            self.interface[name] = self.module.builtin(name, type_)
        return self.interface[name]

    def barrier(self) -> None:
        """All invocations meet, and see what the others wrote."""
        self.hazards.clear()
        if self.invocations > 1:
            scope = self.m.integer(SCOPE_WORKGROUP)
            self.code.do("ControlBarrier", scope, scope, self.m.integer(ALL_MEMORY))

    def before(self, accesses: Accesses, who: int = MANY) -> None:
        """Puts a barrier in front of uniform accesses where one is needed, and notes them."""
        if not self.together:
            return
        if self.hazards.conflict(accesses, who):
            self.met |= accesses.reads | accesses.writes
            self.barrier()
        self.hazards.note(accesses, who)

    def by_one(self, write: Callable[[], None]) -> None:
        """A store of uniform code: one invocation makes it."""
        if not self.together:
            write()
            return
        zero = self.once("is first", self._is_first)
        then, after = self.m.id(), self.m.id()
        self.code.do("SelectionMerge", after, 0)
        self.code.branch_if(zero, then, after)
        self.code.start(then)
        write()
        self.code.branch(after)
        self.code.start(after)

    def _is_first(self) -> Id:
        number = self.invocation()
        return self.at_entry("first", lambda: self.code.let("IEqual", self.m.bool(), number, self.idx(0)))

    # Loops and branches

    def loop(
        self,
        lower: Index,
        upper: Index,
        step: Index,
        carried: Sequence[tuple[Id, Id]],
        body: Callable[[Id, list[Id]], list[Id]],
        counter_type: Id | None = None,
        less: str = "SLessThan",
        width: int = 0,
        most: int | None = None,
    ) -> list[Id]:
        """A counted loop. carried: (type, value in front of it); body: gets the counter and them, returns the next.
        most: iterations that there are at most, where the bounds do not say it."""
        if known(lower) and known(upper) and known(step) and step > 0:
            most = max(0, -(-(upper - lower) // step))
        copies = 1
        if known(step) and less == "SLessThan":
            if most is not None and known(upper):
                copies = self.iterations.copies(most)
            elif known(lower) and lower >= 0 and not self.points and carried and self.iterations.is_first:
                copies = UNKNOWN_COPIES  # every invocation runs all of it
        if copies == 1 or not known(step):
            with self.iterations.inside(most):
                return self._loop(lower, upper, step, carried, body, counter_type, less, width)
        width = width or self.index_width
        kind = counter_type or self.m.int(width)
        last: Index
        if known(upper):
            last = upper - (copies - 1) * step
        else:  # not below `lower`, so that the difference does not wrap
            below = self.code.let("SLessThan", self.m.bool(), upper, self.m.integer(lower, width))
            least = self.code.let("Select", kind, below, self.m.integer(lower, width), upper)
            last = self.code.let("ISub", kind, least, self.m.integer((copies - 1) * step, width))

        def several(counter: Id, values: list[Id]) -> list[Id]:
            """`body` once after the other, and the number behind the last of them."""
            values = values[:-1]
            for _ in range(copies):
                values = body(counter, values)
                counter = self.code.let("IAdd", kind, counter, self.m.integer(step, width))
            return [*values, counter]

        first = lower if isinstance(lower, Id) else self.m.integer(lower, width)
        with self.iterations.inside(None if most is None else most // copies):
            *values, reached = self._loop(
                lower, last, copies * step, [*carried, (kind, first)], several, kind, less, width
            )
        rest = list(zip((type_ for type_, _ in carried), values, strict=True))
        with self.iterations.inside(copies - 1):
            return self._loop(reached, upper, step, rest, body, kind, less, width)

    def _loop(
        self,
        lower: Index,
        upper: Index,
        step: Index,
        carried: Sequence[tuple[Id, Id]],
        body: Callable[[Id, list[Id]], list[Id]],
        counter_type: Id | None,
        less: str,
        width: int,
    ) -> list[Id]:
        code, m = self.code, self.m
        width = width or self.index_width
        type_ = counter_type or m.int(width)

        def as_id(value: Index) -> Id:
            return value if isinstance(value, Id) else m.integer(value, width)

        before, first, last, stride = code.label, as_id(lower), as_id(upper), as_id(step)
        head, test, inside, again, after = (m.id() for _ in range(5))
        counter, following = m.id(), m.id()
        phis = [m.id() for _ in carried]
        code.branch(head)
        code.start(head)
        slot = len(code.lines)
        code.do("LoopMerge", after, again, 0)
        code.branch(test)
        code.start(test)
        code.branch_if(code.let(less, m.bool(), counter, last), inside, after)
        code.start(inside)
        results = body(counter, phis)
        code.branch(again)
        code.start(again)
        code.lines += [5 << 16 | 128, type_, following, counter, stride]
        code.branch(head)
        tail, code.lines = code.lines[slot:], code.lines[:slot]
        code.phi(type_, counter, [(first, before), (following, again)])
        for (kind, start), made, end in zip(carried, phis, results, strict=True):
            code.lines += (7 << 16 | 245, kind, made, start, before, end, again)
        code.lines += tail
        code.start(after)
        return phis

    def choose(
        self, condition: Id, then: Callable[[], list[Id]], other: Callable[[], list[Id]], types: Sequence[Id]
    ) -> list[Id]:
        """Two ways of which one runs; their results meet."""
        code, m = self.code, self.m
        labels = m.id(), m.id()
        after = m.id()
        code.do("SelectionMerge", after, 0)
        code.branch_if(condition, *labels)
        ends: list[tuple[list[Id], Id]] = []
        start, joined = self.hazards.copy(), None
        for label, make in zip(labels, (then, other), strict=True):
            self.hazards = start.copy()
            code.start(label)
            ends.append((make(), code.label))
            code.branch(after)
            if joined is None:
                joined = self.hazards
            else:
                joined.join(self.hazards)
        assert joined is not None
        self.hazards = joined
        code.start(after)
        made: list[Id] = []
        for number, type_ in enumerate(types):
            made.append(m.id())
            code.phi(type_, made[-1], [(values[number], label) for values, label in ends])
        return made

    def looping(self, accesses: Accesses) -> Hazards:
        """Begins the body of a uniform loop: its last turn may have done all that it does. Returns what was before."""
        before = self.hazards.copy()
        if self.together:
            self.hazards.note(accesses, MANY)
        return before

    # Values that travel

    def parts(self, values: Sequence[SSAValue]) -> list[Id]:
        """The ids that values travel as, memrefs taken apart."""
        found: list[Id] = []
        for value in values:
            mine = self.values[value]
            if type(mine) is Id:
                found.append(mine)
            elif isinstance(mine, MemRef):
                assert isinstance(value.type, MemRefType)
                found += [self.idx(part) for part in flatten(mine, value.type)]
            else:
                found.append(self.get(value))
        return found

    def part_types(self, values: Sequence[SSAValue], like: Sequence[SSAValue]) -> list[Id]:
        found: list[Id] = []
        for value, source in zip(values, like, strict=True):
            if isinstance(value.type, MemRefType):
                found += [self.index_type()] * len(flatten(self.memref(source), value.type))
            else:
                found.append(self.type(value.type))
        return found

    def take(self, values: Sequence[SSAValue], parts: Sequence[Id], roots: Sequence[Root | None]) -> None:
        """Defines values from their parts. roots: the storage of those that are memrefs."""
        if len(parts) == len(values) and not any(roots):
            self.values.update(zip(values, parts, strict=True))
            return
        rest = list(parts)
        for value, root in zip(values, roots, strict=True):
            if isinstance(value.type, MemRefType):
                assert root is not None
                count = open_parts(value.type)
                self.define(value, unflatten(list(rest[:count]), value.type, root))
                rest = rest[count:]
            else:
                self.define(value, rest.pop(0))

    def roots(self, values: Sequence[SSAValue]) -> list[Root | None]:
        found = (self.values[value] for value in values)
        return [value.root if isinstance(value, MemRef) else None for value in found]

    def same_roots(self, roots: Sequence[Root | None], values: Sequence[SSAValue]) -> None:
        """CompileError when memrefs that meet lie in different storage."""
        if not any(roots):
            return
        if any(a is not None and (b is None or a.key != b.key) for a, b in zip(roots, self.roots(values), strict=True)):
            raise self.error(
                "a memref that may lie in one of two buffers cannot be compiled into a kernel for this target",
                "choose between loaded elements instead",
            )

    # Regions

    def region(self, region: Region, leave: Leave) -> None:
        """Emits a region of one block whose arguments are set; `leave` gets its terminator."""
        blocks = list(region.blocks)
        if len(blocks) != 1:
            raise CompileError(
                "branches between blocks cannot be compiled into a kernel for this target",
                location_of(blocks[0].last_op or self.op),
                "write them with scf.if, scf.for and scf.while",
            )
        table, op = self.module.table, self.op
        following = blocks[0].first_op
        try:
            while following is not None:
                self.op = op = following
                following = op.next_op
                lowering = table.get(op.name)
                if lowering is None:
                    name = op_name(op)  # another one where no dialect registers it
                    if name in LEAVES:
                        leave(op)
                        return
                    lowering = table.get(name)
                    if lowering is None:
                        raise unsupported(op)
                lowering(self, op)
        except CompileError as error:
            if error.location is None and location_of(op) is not None:
                raise CompileError(error.message, location_of(op), error.note) from None
            raise
