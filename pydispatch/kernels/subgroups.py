"""Values that the invocations of a subgroup exchange, through workgroup memory.

A subgroup is `SUBGROUP_SIZE` invocations that follow each other, axis 0 first. Such an operation is two stretches of a
kernel: every invocation stores its value, and after all have met each reads what it needs.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.kernels import functions
from pydispatch.kernels.allocations import WORKGROUP_MEMORY
from pydispatch.kernels.arithmetic import binary, cast
from pydispatch.kernels.calls import count_of
from pydispatch.kernels.collectives import SUBGROUP_REDUCTIONS
from pydispatch.kernels.coverage import Coverage
from pydispatch.kernels.entities import INTEGERS, Entity, Known, Literal, MemoryRef, Scalar, described
from pydispatch.kernels.source import Source

SUBGROUP_SIZE = 32


class Subgroups(Coverage):
    """Code generator for operations on subgroups."""

    def __init__(self, source: Source, workgroup: Sequence[int]) -> None:
        super().__init__(source, workgroup)
        self._published: dict[ast.AST, MemoryRef] = {}

    def publish(self, node: ast.Call, value: Scalar, has_changing_lane: bool) -> None:
        """Emit the stores that this invocation makes for a call before all invocations meet.

        has_changing_lane: whether the call is a shuffle whose lane depends on memory. It is stored, too, since other
        invocations may write that memory after they have met.
        """
        self._publish_value(node, value)
        if has_changing_lane:
            lane = self._lane(node)
            self._publish_value(node.args[1], cast(self.writer, lane, "i32") if isinstance(lane, Literal) else lane)

    def _publish_value(self, node: ast.AST, value: Scalar) -> None:
        """Emit the store of this invocation's value of a node, into memory that is allocated by its first store."""
        memory = self._published.get(node)
        if memory is None or memory.dtype != value.type:
            count = math.prod(self.workgroup)
            type = f"memref<{count}x{value.type}, {WORKGROUP_MEMORY}>"
            memory = MemoryRef(f"%exchanged{self.writer.fresh()[1:]}", value.type, (Literal(count),), type)
            self._allocate(node, memory.name, type, count, value.type)
            self._published[node] = memory
        self.writer.line(f"memref.store {value.name}, {memory.name}[{self._linear_id().name}] : {memory.type}")
        self.writer.has_effects = True

    def _call(self, node: ast.Call) -> Entity:
        """Emit a call; one of a published value reads what other invocations published."""
        memory = self._published.get(node)
        if memory is None:
            return super()._call(node)
        called = self.evaluate(node.func)
        function: Any = called.value if isinstance(called, Known) else None
        if function is functions.subgroup_shuffle:
            return self._shuffled(node, memory)
        if function is functions.subgroup_ballot:
            return self._ballot(memory)
        return self._reduced(node, memory, SUBGROUP_REDUCTIONS[function])

    def _linear_id(self) -> Scalar:
        """Return the number of this invocation in its workgroup."""
        assert self.local is not None
        result: Scalar | Literal = Literal(0)
        for coordinate, size in zip(reversed(self.local), reversed(self.workgroup), strict=True):
            scaled = binary(self.writer, "*", result, Literal(size)) if isinstance(result, Scalar) else None
            result = coordinate if scaled is None else binary(self.writer, "+", scaled, coordinate)
        return cast(self.writer, result, "index")

    def _begin(self, linear: Scalar) -> Scalar:
        """Return the number of the first invocation of this subgroup."""
        lane = binary(self.writer, "%", linear, Literal(SUBGROUP_SIZE))
        return cast(self.writer, binary(self.writer, "-", linear, lane), "index")

    def _loaded(self, memory: MemoryRef, index: Scalar) -> Scalar:
        self.writer.has_effects = True
        return self.writer.value(f"memref.load {memory.name}[{index.name}] : {memory.type}", memory.dtype)

    def _lane(self, node: ast.Call) -> Scalar | Literal:
        """Emit the lane of a shuffle. Raise CompileError if it is no integer."""
        lane = self.number(node.args[1])
        if not (isinstance(lane.value, int) if isinstance(lane, Literal) else lane.type in INTEGERS):
            raise self.error(node.args[1], f"{described(lane)} as a lane", "convert it: pydispatch.i32(...)")
        return lane

    def _shuffled(self, node: ast.Call, memory: MemoryRef) -> Scalar:
        """Emit the read of the value of another invocation; of the own value if there is no such invocation."""
        linear, lanes = self._linear_id(), self._published.get(node.args[1])
        lane = cast(self.writer, self._lane(node) if lanes is None else self._loaded(lanes, linear), "index")
        other = binary(self.writer, "+", self._begin(linear), lane)
        assert isinstance(other, Scalar)
        inside = [
            self.writer.value(f"arith.cmpi ult, {index.name}, {end.name} : index", "i1")
            for index, end in (
                (lane, self.writer.constant(SUBGROUP_SIZE, "index")),
                (other, self.writer.constant(math.prod(self.workgroup), "index")),
            )
        ]
        exists = self.writer.value(f"arith.andi {inside[0].name}, {inside[1].name} : i1", "i1")
        index = self.writer.value(f"arith.select {exists.name}, {other.name}, {linear.name} : index", "index")
        return self._loaded(memory, index)

    def _reduced(self, node: ast.Call, memory: MemoryRef, symbol: str) -> Scalar:
        """Emit the sum, maximum or minimum over the subgroup, in the order of its invocations."""
        if memory.dtype == "i1":
            raise self.error(node.args[0], "a reduction of conditions", "convert them: pydispatch.i32(...)")
        first = self._loaded(memory, self._begin(self._linear_id()))

        def combined(total: Scalar, value: Scalar, _: Scalar) -> Scalar:
            return cast(self.writer, binary(self.writer, symbol, total, value), memory.dtype)

        return self._over_subgroup(memory, 1, first, combined)

    def _ballot(self, memory: MemoryRef) -> Scalar:
        """Emit the word whose bit k says whether the condition holds in invocation k of the subgroup."""

        def combined(word: Scalar, value: Scalar, lane: Scalar) -> Scalar:
            holds = cast(self.writer, cast(self.writer, value, "i1"), "u32")
            bit = binary(self.writer, "<<", holds, cast(self.writer, lane, "u32"))
            return cast(self.writer, binary(self.writer, "|", word, bit), "u32")

        return self._over_subgroup(memory, 0, self.writer.constant(0, "u32"), combined)

    def _over_subgroup(
        self, memory: MemoryRef, begin: int, first: Scalar, combined: Callable[[Scalar, Scalar, Scalar], Scalar]
    ) -> Scalar:
        """Emit a loop over the values of this subgroup from invocation `begin` on, and return the combined value.

        combined: emits an iteration, from the value so far, the value of an invocation, and its number.
        """
        outer, total = self.writer, math.prod(self.workgroup)
        start = self._begin(self._linear_id())
        left = binary(outer, "-", outer.constant(total, "index"), start)
        size = binary(outer, "min", left, Literal(SUBGROUP_SIZE))
        end = cast(outer, Literal(SUBGROUP_SIZE) if total % SUBGROUP_SIZE == 0 else size, "index")
        low, counter, so_far = outer.constant(begin, "index"), Scalar(outer.fresh(), "index"), outer.fresh()
        self.writer = outer.nested()
        index = cast(self.writer, binary(self.writer, "+", start, counter), "index")
        value = combined(Scalar(so_far, first.type), self._loaded(memory, index), counter)
        self.writer.line(f"scf.yield {value.name} : {value.type}")
        inner, self.writer = self.writer, outer
        head, (result,) = outer.results([first.type])
        outer.region(
            f"{head}scf.for {counter.name} = {low.name} to {end.name} step %one "
            f"iter_args({so_far} = {first.name}) -> ({first.type})",
            inner,
        )
        return result

    def check_exchange(self, node: ast.stmt) -> ast.Call:
        """Return the call of an operation on a subgroup that a statement assigns. Raise CompileError for others."""
        call = getattr(node, "value", None)
        if not isinstance(node, ast.Assign) or not isinstance(call, ast.Call):
            raise self.error(
                node,
                "the result of an operation on a subgroup is assigned",
                "write total = pydispatch.subgroup_sum(value)",
            )
        is_shuffle = isinstance(called := self.evaluate(call.func), Known) and (
            called.value is functions.subgroup_shuffle
        )
        count_of(self, call, [Known(argument) for argument in call.args], 2 if is_shuffle else 1)
        return call
