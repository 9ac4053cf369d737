"""Lowering of functions with branches, read-backs, globals or checks to a procedure that runs straight-line
functions.

The host interprets a procedure. Its values are in slots, which are named by their indices: scalars, or tensors on the
device. A block of the function is a list of segments, which become straight-line functions, and of stops: single
operations that the interpreter executes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from xdsl.dialects import cf
from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis.interface import argument_names, result_names
from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.flatten.branches import successors
from pydispatch.compiler.host.checks import add_check
from pydispatch.compiler.host.constants import Constants
from pydispatch.compiler.host.exports import Executables
from pydispatch.compiler.host.globals import Globals
from pydispatch.compiler.host.rules import tensor_rules
from pydispatch.compiler.host.scalar_table import constant_bits
from pydispatch.compiler.host.segments import (
    EFFECTS,
    LOAD,
    READ,
    SAVE,
    STORE,
    BlockPartition,
    Segment,
    Segmentation,
    definition,
    is_constant,
)
from pydispatch.compiler.host.straight import Straight
from pydispatch.errors import CompileError
from pydispatch.formats.program.procedure import Label, Procedure
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.functions import RETURNS, symbol_name


@dataclass(eq=False)
class PendingStep:
    """Step of a procedure that is emitted when the last read of each value is known.

    Attributes:
        uses: Values that it reads.
        defines: Values that it defines.
        emit: Function that emits it; its argument `dying` has the slots of the values whose last read is in this step,
            which it may release.
    """

    uses: Sequence[SSAValue]
    defines: Sequence[SSAValue]
    emit: Callable[[Collection[int]], None]


class ProcedureLowering:
    """Lowering of a function with branches or read-backs to a procedure of the host program.

    The constructor divides the function into steps; `lower`, called once, computes the lifetimes of values and emits
    the steps, which release slots that are read for the last time.

    Attributes:
        op: The function.
        executables: The executables that it may dispatch.
        constants: The constants of the program.
        globals: The globals of the program.
        procedure: The procedure.
        program: The program.
        segmentation: The blocks of the function as segments (operations that become one straight-line function) and
            stops (operations that the interpreter of procedures executes).
        slots: Value → index of its slot, a variable of the procedure.
        labels: Block → label of its first step.
        next_block: The block that is emitted after the current one; None for the last. Set by `lower`.
        live_in: Block → values that it or a later block reads, with its own arguments.
        predecessors: Block → the blocks that branch to it.
        steps: Block → its steps: one for each segment and each stop, then the terminator.
    """

    def __init__(
        self, op: Operation, executables: Executables, constants: Constants, globals: Globals, procedure: Procedure
    ) -> None:
        """Divide `op` into segments and stops, and create their steps; `lower` emits them into `procedure`.

        A segment becomes one straight-line function, which a step runs. A stop, such as a read-back of an element, is
        an operation that the interpreter of procedures executes itself.

        Args:
            op: The function.
            executables: The executables that it may dispatch.
            constants: The constants of the program.
            globals: The globals of the program.
            procedure: The procedure that receives the steps.
        """
        self.op, self.executables, self.constants, self.globals = op, executables, constants, globals
        self.procedure = procedure
        self.program = executables.program
        self.segmentation = Segmentation(op.regions[0])
        self.slots: dict[SSAValue, int] = {}  # value → index of its variable in the procedure; filled by `slot`
        self.labels: dict[Block, Label] = {block: procedure.label() for block in self.segmentation.blocks}
        self.next_block: Block | None = None  # set by `lower`
        # The values that are live at the beginning of each block; filled by `_liveness`.
        self.live_in: dict[Block, set[SSAValue]] = {block: set() for block in self.segmentation.blocks}
        self.predecessors: dict[Block, list[Block]] = {block: [] for block in self.segmentation.blocks}
        for block in self.segmentation.blocks:
            for successor in dict.fromkeys(successors(block)):  # once, also if both targets of a branch are equal
                self.predecessors[successor].append(block)
        self.steps = {block: self._steps_of(self.segmentation.partitions[block]) for block in self.segmentation.blocks}

    def lower(self) -> None:
        """Emit the procedure. Raises CompileError at each operation that host code does not support."""
        type = cast(FunctionType, self.op.properties["function_type"])
        for value, name in zip(self.segmentation.blocks[0].args, argument_names(self.op), strict=True):
            self.slots[value] = self.procedure.add_argument(*self._type(value.type), name)
        for result, name in zip(type.outputs, result_names(self.op), strict=True):
            self.procedure.add_result(*self._type(result), name)
        self._liveness()
        blocks = self.segmentation.blocks
        for block, next_block in zip(blocks, [*blocks[1:], None], strict=True):
            self.next_block = next_block  # a jump to it is left out
            self._emit(block)

    # -- values

    def _type(self, type: Any) -> tuple[int, tuple[int, ...] | None]:
        """Return (dtype word, sizes) of a type. Dynamic sizes are -1; the sizes of a scalar are None."""
        location = location_of(self.op)
        if isinstance(type, TensorType):
            return dtype_of(type.element_type, location), tuple(d if d >= 0 else -1 for d in type.get_shape())
        return dtype_of(type, location), None

    def slot(self, value: SSAValue) -> int:
        """Return the slot of a value, allocated on first use.

        A constant is stored in its slot again for each use: the block of an earlier use may not have run.
        """
        if value not in self.slots:
            dtype, dims = self._type(value.type)
            self.slots[value] = self.procedure.slot(dtype, None if dims is None else len(dims))
        if is_constant(value):
            self._store_constant(self.slots[value], value)
        return self.slots[value]

    def _store_constant(self, slot: int, value: SSAValue) -> None:
        """Emit the step that stores a constant in a slot."""
        source = definition(value)
        assert source is not None
        attribute = source.properties["value"]
        if not isinstance(value.type, TensorType):
            self.procedure.scalar(slot, constant_bits(attribute, source))
            return
        # The type of the value may have dynamic sizes; the type of its attribute is static.
        type = getattr(attribute, "type", None)
        static_type = type if isinstance(type, TensorType) else value.type
        constant_index = self.constants.index_of(attribute, static_type, source)
        self.procedure.constant(slot, constant_index, static_type.get_shape())

    # -- steps

    def _steps_of(self, partition: BlockPartition) -> list[PendingStep]:
        """Return the steps of a block: for each level its segment, then its stops; finally the terminator.

        A stop is an operation that the interpreter of procedures executes, such as a read-back. The level of an
        operation is the number of stops in the longest chain of its dependencies. A segment has all other operations of
        one level. Raises CompileError if the block ends without a return or branch.
        """
        steps: list[PendingStep] = []
        for level in partition.levels():
            segment = partition.segments.get(level)
            # A segment that returns nothing runs only for its effects.
            if segment is not None and (segment.outputs or any(op.name in EFFECTS for op in segment.ops)):
                steps.append(self._run(segment))
            steps += [self._stop(op) for op in partition.stops.get(level, ())]
        end = partition.block.last_op
        is_branch = isinstance(end, cf.BranchOp | cf.ConditionalBranchOp)
        if end is None or (end.name not in RETURNS and not is_branch):
            raise CompileError(f"function '@{symbol_name(self.op)}' does not return", location_of(end or self.op))
        steps.append(self._terminator(end))
        return steps

    def _run(self, segment: Segment) -> PendingStep:
        """Lower a segment to a straight-line function, and return the step that runs it."""
        name = f"{self.procedure.name}.{len(self.program.functions)}"
        function = self.program.add_function(name, public=False)
        straight = Straight(function, self.executables, self.constants, self.op, rules=tensor_rules())
        for value in segment.inputs:
            straight.argument(value)
        straight.lower(segment.ops, segment.outputs)
        straight.finish(segment.outputs)

        def emit(dying: Collection[int]) -> None:
            """Emit the step that runs `function`, the code of `segment`, on the slots of its inputs and outputs.

            It releases the slots `dying`: inputs that no later step reads.
            """
            inputs, outputs = [self.slot(v) for v in segment.inputs], [self.slot(v) for v in segment.outputs]
            self.procedure.run(function, inputs, outputs, dying)

        return PendingStep(uses=segment.inputs, defines=segment.outputs, emit=emit)

    def _stop(self, op: Operation) -> PendingStep:
        """Return the step of a stop, an operation that the interpreter of procedures executes: it accesses a global,
        saves rows that an update in place will overwrite, reads an element back, or is a check.

        The stop `%v = tensor.extract %t[%i]` uses %t and %i, and defines %v. `_emit` emits the step later, once the
        lifetimes of all values are known.
        """
        uses: Sequence[SSAValue] = op.operands
        emit: Callable[[Collection[int]], None]  # its argument: the slots whose last read is in this step
        if op.name == LOAD:
            emit = partial(self._emit_load, op, self.globals.index_of(op))
        elif op.name == STORE:
            emit = partial(self._emit_store, op, self.globals.index_of(op))
        elif op.name == SAVE:
            emit = partial(self._emit_save, op)
        elif op.name == READ:
            emit = partial(self._emit_read, op)
        else:  # a check
            # It also has the device as an operand, which is no value of the procedure.
            uses = [v for v in op.operands if isinstance(v.type, TensorType) or v.type.name != "hal.device"]
            emit = partial(self._emit_check, uses, add_check(self.program, op, symbol_name(self.op)))
        return PendingStep(uses=uses, defines=op.results, emit=emit)

    def _emit_load(self, op: Operation, global_index: int, dying: Collection[int]) -> None:
        """Emit the load of a global into the slot of the result.

        `dying`, the slots whose last read is in this step, is empty: a load reads no slot.
        """
        self.procedure.load(self.slot(op.results[0]), global_index)

    def _emit_store(self, op: Operation, global_index: int, dying: Collection[int]) -> None:
        """Emit the store of a tensor to a global; it releases the slots `dying`, which no later step reads."""
        self.procedure.store(global_index, self.slot(op.operands[0]), dying)

    def _emit_save(self, op: Operation, dying: Collection[int]) -> None:
        """Emit the step of a `pyd.save_rows`, which hands copies of rows of a global's tensor to the runtime.

        Later steps overwrite these rows in place; if the call fails, the runtime restores them. Operands of `op` are
        the tensor, the indices of the rows, and the copies. The step releases the slots `dying`, which no later step
        reads.
        """
        source, positions, saved = [self.slot(v) for v in op.operands]
        self.procedure.save(self.slot(op.results[0]), source, positions, saved, dying)

    def _emit_read(self, op: Operation, dying: Collection[int]) -> None:
        """Emit the step that reads an element back into a slot.

        `dying`, the slots whose last read is in this step, is ignored: the step has no encoding for a release.
        """
        tensor, *indices = [self.slot(v) for v in op.operands]
        self.procedure.read(self.slot(op.results[0]), tensor, indices, str(location_of(op) or ""))

    def _emit_check(self, operands: Sequence[SSAValue], check: int, dying: Collection[int]) -> None:
        """Emit a check of the operands' slots.

        `dying`, the slots whose last read is in this step, is ignored: the step has no encoding for a release.
        """
        self.procedure.observe(check, [self.slot(v) for v in operands])

    def _terminator(self, op: Operation) -> PendingStep:
        """Return the step of a return or a branch.

        Its `emit` ignores `dying`, the slots that the step reads for the last time: a return releases all slots, and
        after a branch the target block begins with the release of those that it does not read (see `_emit`).
        """
        emit: Callable[[], None]
        if op.name in RETURNS:
            emit = partial(self._return, op)
        elif isinstance(op, cf.BranchOp):
            emit = partial(self._edge, op.successor, op.arguments)
        else:
            assert isinstance(op, cf.ConditionalBranchOp)
            emit = partial(self._branch, op)
        return PendingStep(uses=op.operands, defines=[], emit=lambda dying: emit())

    def _return(self, op: Operation) -> None:
        """Emit the return of the operands."""
        self.procedure.ret([self.slot(v) for v in op.operands])

    def _branch(self, op: cf.ConditionalBranchOp) -> None:
        """Emit a conditional branch, and for each target that is passed values a block that moves them, then jumps."""
        then_values, else_values = list(op.then_arguments), list(op.else_arguments)
        then_label = self.procedure.label() if then_values else self.labels[op.then_block]
        else_label = self.procedure.label() if else_values else self.labels[op.else_block]
        self.procedure.branch(self.slot(op.cond), then_label, else_label)
        if then_values:
            self.procedure.bind(then_label)
            # Only the edge (transfer to a target) that is emitted last may fall through to the next block.
            self._edge(op.then_block, then_values, may_fall_through=not else_values)
        if else_values:
            self.procedure.bind(else_label)
            self._edge(op.else_block, else_values)

    def _edge(self, target: Block, values: Sequence[SSAValue], may_fall_through: bool = True) -> None:
        """Emit an edge of the control flow: moves of the values into the arguments of the block, and a jump to it.

        Args:
            target: The block.
            values: The value of each argument. Arguments that the block does not read are not moved.
            may_fall_through: Whether no jump is needed if the block is emitted next.
        """
        live = [(argument, value) for argument, value in zip(target.args, values, strict=True)
                if argument in self.live_in[target]]  # fmt: skip
        moves = [(self.slot(argument), self.slot(value)) for argument, value in live]
        if moves:
            # The move reads these slots for the last time, so that it may take over the memory of their tensors.
            released = [self.slots[value] for _, value in live if value not in self.live_in[target]]
            self.procedure.move(moves, last_uses=released)
        if target is not self.next_block or not may_fall_through:
            self.procedure.jump(self.labels[target])

    # -- lifetimes

    def _uses(self, step: PendingStep) -> list[SSAValue]:
        """Return the values that a step reads, without constants, which are stored in their slots for each use."""
        return [v for v in step.uses if not is_constant(v)]

    def _live_out(self, block: Block) -> set[SSAValue]:
        """Return the values that are live out of a block: those that its successors read, except for their own
        arguments.
        """
        return {v for s in successors(block) for v in self.live_in[s] if v not in s.args}

    def _liveness(self) -> None:
        """Compute `live_in` by backward dataflow analysis: values that a block or its successors read, including its
        own arguments.
        """
        changed = True
        while changed:
            changed = False
            for block in reversed(self.segmentation.blocks):
                live = self._live_out(block)
                for step in reversed(self.steps[block]):
                    live -= set(step.defines)
                    live |= set(self._uses(step))
                if live != self.live_in[block]:
                    self.live_in[block] = live
                    changed = True

    def _emit(self, block: Block) -> None:
        """Emit a block: first the release of the tensors that are dead on entry, then its steps."""
        self.procedure.bind(self.labels[block])
        live = self._live_out(block)  # going backwards: the values that later steps or blocks read
        last_reads: list[list[SSAValue]] = []  # of each step, from the last one to the first
        for step in reversed(self.steps[block]):
            live -= set(step.defines)
            last_reads.append([v for v in self._uses(step) if v not in live])
            live |= set(self._uses(step))
        # A predecessor keeps a tensor alive if one of its successors reads it. In its other successors, the tensor is
        # dead on entry.
        live_before = {v for b in self.predecessors[block] for v in self._live_out(b)}
        dead = [v for v in live_before - self.live_in[block] if isinstance(v.type, TensorType) and v in self.slots]
        for slot in sorted(self.slots[v] for v in dead):
            self.procedure.drop(slot)
        for step, dying in zip(self.steps[block], reversed(last_reads), strict=True):
            step.emit([self.slots[v] for v in dying if v in self.slots])
