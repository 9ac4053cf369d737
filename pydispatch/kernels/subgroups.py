"""Values that the invocations of a subgroup exchange.

A subgroup is `SUBGROUP_SIZE` successive invocations of a workgroup, axis 0 changing fastest; the last may have fewer.
An operation on a subgroup, such as a sum or a shuffle, has two steps: every invocation stores its value in workgroup
memory ("publishes" it), and, after all have met, `pyd.subgroup_*` reads the values that it needs. Where a target has
instructions for the operation, the values stay in registers.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

from pydispatch.kernels import functions
from pydispatch.kernels.allocations import WORKGROUP_MEMORY
from pydispatch.kernels.arithmetic import binary, cast, combiner
from pydispatch.kernels.calls import check_count
from pydispatch.kernels.collectives import SUBGROUP_REDUCTIONS
from pydispatch.kernels.coverage import Coverage
from pydispatch.kernels.entities import INTEGERS, Entity, Known, Literal, MemoryRef, Scalar, described
from pydispatch.kernels.source import Source

SUBGROUP_SIZE = 32
"""Number of invocations of a subgroup, on every target."""


class Subgroups(Coverage):
    """Part of the code generators of kernels: operations on subgroups, in which invocations exchange values.

    All invocations first store their values in workgroup memory (`publish`), then meet at a barrier; each call then
    loads the values of the others (`_call`).
    """

    def __init__(self, source: Source, workgroup: Sequence[int]) -> None:
        """Begin with no value of the function `source` stored for others. workgroup: invocations along each axis."""
        super().__init__(source, workgroup)
        # Call of an operation, or lane of a shuffle if that is stored, too → memory with the value of each invocation.
        self._published: dict[ast.AST, MemoryRef] = {}

    def publish(self, node: ast.Call, value: Scalar, has_changing_lane: bool) -> None:
        """Store this invocation's operand of a subgroup operation in workgroup memory, for the others to read.

        The next phase of the kernel reads the values: all invocations have stored theirs before it begins.

        Args:
            node: The call of the operation.
            value: This invocation's value.
            has_changing_lane: Whether the call is a shuffle whose lane depends on memory. The lane is then stored, too,
                since other invocations may write that memory in the next phase.
        """
        is_ballot = self._exchange_of(node) is functions.subgroup_ballot
        if is_ballot:  # a ballot takes the truth of the value
            value = cast(self.writer, self.condition(node.args[0], value), "i1")
        self._publish_value(node, value)
        if has_changing_lane:
            lane = self._lane(node)
            if isinstance(lane, Literal):  # it has no type of its own
                lane = cast(self.writer, lane, "i32")
            self._publish_value(node.args[1], lane)

    def _publish_value(self, node: ast.AST, value: Scalar) -> None:
        """Emit the store of this invocation's value of a node (a call, or a lane) into workgroup memory.

        The memory, an element for each invocation, is allocated when the node is first emitted. A node in an unrolled
        loop is emitted several times, and may have values of several types: a new type gets new memory.
        """
        memory = self._published.get(node)
        if memory is None or memory.dtype != value.type:
            count = math.prod(self.workgroup)
            type = f"memref<{count}x{value.type}, {WORKGROUP_MEMORY}>"
            unique_number = self.writer.fresh().removeprefix("%")
            memory = MemoryRef(f"%exchanged{unique_number}", value.type, (Literal(count),), type)
            self._allocate(node, memory.name, type, count, value.type)
            self._published[node] = memory
        self.writer.line(f"memref.store {value.name}, {memory.name}[{self._linear_id().name}] : {memory.type}")
        self.writer.has_effects = True

    def _call(self, node: ast.Call) -> Entity:
        """Emit a call; for an operation on a subgroup, combine the values that `publish` has stored before."""
        memory = self._published.get(node)  # the operands that the invocations have stored for this call
        if memory is None:  # not an operation on a subgroup
            return super()._call(node)
        function = self._exchange_of(node)
        if function is functions.subgroup_shuffle:
            return self._shuffled(node, memory)
        if function is functions.subgroup_ballot:
            return self._exchanged("ballot", memory, own=self._linear_id(), dtype="u32")
        return self._reduced(node, memory, SUBGROUP_REDUCTIONS[function])

    def _exchange_of(self, node: ast.Call) -> Any:
        """Return the Python function that a call names, such as `subgroup_shuffle`; None if it names none."""
        called = self.evaluate(node.func)
        return called.value if isinstance(called, Known) else None

    def _linear_id(self) -> Scalar:
        """Emit the linear index of this invocation in its workgroup; the coordinate along axis 0 changes fastest."""
        assert self.local is not None
        result: Scalar | Literal = Literal(0)
        for coordinate, size in zip(reversed(self.local), reversed(self.workgroup), strict=True):
            if isinstance(result, Scalar):
                result = binary(self.writer, "+", binary(self.writer, "*", result, Literal(size)), coordinate)
            else:  # still 0
                result = coordinate
        return cast(self.writer, result, "index")

    def _first_of_subgroup(self, linear: Scalar) -> Scalar:
        """Emit the index in the workgroup of the first invocation of this subgroup.

        linear: index of this invocation. SUBGROUP_SIZE is a power of two, so that -SUBGROUP_SIZE masks the lane.
        """
        return cast(self.writer, binary(self.writer, "&", linear, Literal(-SUBGROUP_SIZE)), "index")

    def _loaded(self, memory: MemoryRef, index: Scalar) -> Scalar:
        """Emit the load of an element of workgroup memory."""
        self.writer.has_effects = True
        return self.writer.value(f"memref.load {memory.name}[{index.name}] : {memory.type}", memory.dtype)

    def _lane(self, node: ast.Call) -> Scalar | Literal:
        """Emit the lane of a shuffle, its second argument. Raise CompileError if it is no integer."""
        lane = self.number(node.args[1])
        is_integer = isinstance(lane.value, int) if isinstance(lane, Literal) else lane.type in INTEGERS
        if not is_integer:
            raise self.error(node.args[1], f"{described(lane)} as a lane", "convert it: pydispatch.i32(...)")
        return lane

    def _shuffled(self, node: ast.Call, memory: MemoryRef) -> Scalar:
        """Emit the read of the value of another invocation of the subgroup; of the own value if there is no such
        invocation.

        A lane is an index in the subgroup. In a workgroup of 40 invocations, the last subgroup has the invocations 32
        to 39: there `subgroup_shuffle(v, 3)` is the v of invocation 35, and `subgroup_shuffle(v, 20)` the own v. With
        %5 for the own index in the workgroup, and %9 for that of the invocation whose value is read:

            %10 = pyd.subgroup_shuffle %exchanged4[%5], %9 : memref<40xf32, ...> -> f32

        node: the call of the shuffle, whose second argument is the lane. memory: the values that all invocations have
        stored. If the lane depends on memory, `publish` has stored it, too, and it is loaded here: other invocations
        may have written that memory since.
        """
        own = self._linear_id()
        stored_lanes = self._published.get(node.args[1])  # memory; None if the lane is computed here
        stated_lane = self._lane(node) if stored_lanes is None else self._loaded(stored_lanes, own)
        lane = cast(self.writer, stated_lane, "index")
        other = binary(self.writer, "+", self._first_of_subgroup(own), lane)
        assert isinstance(other, Scalar)
        # The other invocation exists if its lane is in the subgroup and, since the last subgroup may be smaller, its
        # index is in the workgroup. A negative lane is a large unsigned number.
        lane_end = self.writer.constant(SUBGROUP_SIZE, "index")
        index_end = self.writer.constant(math.prod(self.workgroup), "index")
        in_subgroup = self.writer.value(f"arith.cmpi ult, {lane.name}, {lane_end.name} : index", "i1")
        in_workgroup = self.writer.value(f"arith.cmpi ult, {other.name}, {index_end.name} : index", "i1")
        exists = self.writer.value(f"arith.andi {in_subgroup.name}, {in_workgroup.name} : i1", "i1")
        source = self.writer.value(f"arith.select {exists.name}, {other.name}, {own.name} : index", "index")
        return self._exchanged("shuffle", memory, own=own, dtype=memory.dtype, operands=f", {source.name}")

    def _reduced(self, node: ast.Call, memory: MemoryRef, symbol: str) -> Scalar:
        """Emit the reduction of the published values of the subgroup by an operator, "+", "max" or "min".

        node: the call. memory: the published values.
        """
        if memory.dtype == "i1":
            raise self.error(node.args[0], "a reduction of conditions", "convert them: pydispatch.i32(...)")
        operation = f"reduce {combiner(symbol, memory.dtype)}"
        own = self._linear_id()  # index in memory of the value that this invocation has stored
        return self._exchanged(operation, memory, own=own, dtype=memory.dtype)

    def _exchanged(self, operation: str, memory: MemoryRef, own: Scalar, dtype: str, operands: str = "") -> Scalar:
        """Emit a `pyd.subgroup_*` operation on published values.

        Args:
            operation: Its name after `pyd.subgroup_`.
            memory: The published values.
            own: Index of this invocation in the memory.
            dtype: Type of the result.
            operands: Text of further operands, each after ", "; "" for none.
        """
        self.writer.has_effects = True
        return self.writer.value(
            f"pyd.subgroup_{operation} {memory.name}[{own.name}]{operands} : {memory.type} -> {dtype}", dtype
        )

    def check_exchange(self, node: ast.stmt) -> ast.Call:
        """Return the call in a statement such as `total = subgroup_sum(value)`.

        Raise CompileError for another kind of statement, and for a wrong number of arguments.
        """
        call = getattr(node, "value", None)  # of an assignment: its right side
        if not isinstance(node, ast.Assign) or not isinstance(call, ast.Call):
            raise self.error(
                node,
                "the result of an operation on a subgroup is assigned",
                "write total = pydispatch.subgroup_sum(value)",
            )
        is_shuffle = self._exchange_of(call) is functions.subgroup_shuffle
        arguments: list[Entity] = [Known(argument) for argument in call.args]  # only their number is checked
        check_count(self, call, arguments, min_count=2 if is_shuffle else 1)
        return call
