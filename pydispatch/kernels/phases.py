"""Lowering of a kernel to what its workgroup does: a parallel loop over the invocations for each phase.

A phase is the statements between two barriers or other collectives.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.arithmetic import binary, cast, default_type, neutral, reassociable
from pydispatch.kernels.collectives import COLLECTIVES, GROUP_REDUCTIONS
from pydispatch.kernels.entities import Entity, Formula, Literal, Scalar, Slot, Spilled, known
from pydispatch.kernels.expressions import may_be_key
from pydispatch.kernels.loop_bounds import LoopBounds
from pydispatch.kernels.names import RETURN, assigned_in, exits_of, read_in, targets_of
from pydispatch.kernels.source import Source
from pydispatch.kernels.variables import assignments, classify, split


class Phases(LoopBounds):
    """Code generator for a whole kernel in the per-invocation style.

    A kernel is divided at barriers and other collectives into phases. Each phase is a parallel loop over the
    invocations. An instance generates one kernel: `lower` is called once, and the attributes `prologue`, `written`,
    `read`, `asserts` and `imports` then describe the rest of it.
    """

    def __init__(
        self, source: Source, parameters: Sequence[Parameter], workgroup: Sequence[int], statics: Mapping[str, Any]
    ) -> None:
        """Begin the kernel of the function `source`.

        workgroup: invocations along each axis. statics: values of the static ones among `parameters` by name.
        """
        super().__init__(source, workgroup)
        self.static_names = frozenset(parameter.name for parameter in parameters if parameter.is_static)
        self._statics = statics

    def lower(self, environment: Mapping[str, Entity]) -> list[str]:
        """Return the lines of the kernel's body. They do not include the lines of `prologue`, which precede them.

        A phase is the statements between two barriers or other collectives. It becomes a parallel loop over the
        invocations. If the kernel has more than one phase, a variable that later phases read must outlive the loop of
        its phase. It does so in one of three ways:

        - A formula is computed again in each phase. Its expression reads only parameters, ids and other formulas.
        - A uniform variable is computed once, after the loop. It is the same for all invocations.
        - A spilled variable, which is any other, is stored in memory for each invocation.

        environment: the entities that parameters stand for, by name.
        """
        self.environment = {**environment, **{name: known(value) for name, value in self._statics.items()}}
        self.begin_kernel()  # emits what race checks need before the first phase
        body = self.source.body
        # In a kernel of one phase, no variable outlives the loop of its phase.
        if any(self.kind_of(statement) != "phase" for statement in body):
            self.variables = classify(
                body, self.kind_of, self._is_pure, self._never_assigned(), self._depends_on_invocation
            )
            for name, value in self.variables.formulas.items():
                self.environment[name] = Formula(value)
            for name in sorted(self.variables.spilled):
                self.environment[name] = Spilled(Slot(name))
        # A return at the end of the kernel needs no flag that skips statements after it.
        self.block(body, exits_without_flag=frozenset({RETURN}))
        return self.writer.lines

    def _never_assigned(self) -> set[str]:
        """Return the names of the environment, parameters and statics, that no statement of the kernel assigns."""
        return set(self.environment) - self._assigned

    # ---- which statements are for all invocations together

    def _collective_kind(self, node: ast.AST) -> str:
        """Return the kind of collective operation that a call is, as in `COLLECTIVES`; "" for any other node."""
        if not isinstance(node, ast.Call):
            return ""
        called = self._named_object(node.func)
        return COLLECTIVES.get(called, "") if may_be_key(called) else ""

    def kind_of(self, statement: ast.stmt) -> str:
        """Return the kind of a statement, one of the values of `Stretch.kind`.

        It is "barrier", "shared", "reduction" or "exchange" for a collective, "control" for a control statement that
        contains one, and "phase" for any other statement.
        """
        kind = self._collective_kind(statement.value) if isinstance(statement, (ast.Assign, ast.Expr)) else ""
        if kind:
            return kind
        if isinstance(statement, (ast.If, ast.For, ast.While)) and any(map(self._collective_kind, ast.walk(statement))):
            return "control"
        return "phase"

    # ---- ids of invocations and workgroups

    def position(self, node: ast.AST, kind: str, axis: int) -> Entity:
        """Return the id or size that a function such as global_id gives, and record it for the inference of the
        grid.
        """
        return self.record_position(node, kind, axis, self._position(node, kind, axis))

    def _position(self, node: ast.AST, kind: str, axis: int) -> Entity:
        """Emit an id of the invocation or workgroup, or a size, along one axis.

        kind: "size" (invocations of a workgroup), "group" (index of the workgroup), "grid" (number of workgroups),
        "local" (index of the invocation in the workgroup) or "global" (in the whole grid). Raise CompileError for the
        last two outside of a phase, where no single invocation runs.
        """
        has_axis = axis < len(self.workgroup)
        if kind == "size":
            return Literal(self.workgroup[axis] if has_axis else 1)
        if kind == "group":
            return self.writer.value(f"stream.dispatch.workgroup.id[{axis}] : index", "index")
        if kind == "grid":
            return self.writer.value(f"stream.dispatch.workgroup.count[{axis}] : index", "index")
        if self.local is None:
            raise self.error(
                node,
                f"{kind}_id differs between the invocations of a workgroup, and {self.collective_rule}",
                "use it between barriers, or in conditions without one",
            )
        if kind == "local":
            return self.local[axis] if has_axis else Literal(0)
        group = self.writer.value(f"stream.dispatch.workgroup.id[{axis}] : index", "index")
        if not has_axis:  # a workgroup is one invocation along this axis
            return group
        # The id in the grid: id of the workgroup * size of a workgroup + id in the workgroup.
        first = self.writer.value(f"arith.muli {group.name}, {self.extents[axis].name} : index", "index")
        return self.writer.value(f"arith.addi {first.name}, {self.local[axis].name} : index", "index")

    # ---- phases

    def block(self, statements: Sequence[ast.stmt], exits_without_flag: frozenset[str] = frozenset()) -> None:
        """Emit statements. Within a phase each invocation runs them; outside they are first split at collectives.

        A collective is a call that all invocations of a workgroup make together. The statements between collectives are
        phases. `split` yields stretches: phases, and single statements that contain a collective, by their kinds:

            t = shared((64,), f32)       # "shared": workgroup memory is allocated
            t[local_id(0)] = x[i]        # "phase": a parallel loop over the invocations
            barrier()                    # "barrier"
            y[i] = t[0]                  # "phase": another parallel loop
            s = group_sum(t[0])          # "reduction": a parallel loop with a result
            v = subgroup_sum(t[0])       # "exchange": each invocation stores a value that others read
            for k in range(4):           # "control": an `if` or a loop that contains a collective
                barrier()

        Raise CompileError for an exit (return, break, continue) in a "control" stretch, and for a value of a barrier.

        exits_without_flag: exits (`RETURN`, `CONTINUE`) that set no flag, because no statement follows the block.
        """
        is_in_phase = self.local is not None  # the index of an invocation exists only in the loop of a phase
        if is_in_phase:
            super().block(statements, exits_without_flag)
            return
        for stretch in split(statements, self.kind_of):
            node = stretch.nodes[0]
            with self.writer.at(self.source, node):
                if stretch.kind == "phase":
                    self._phase(stretch.nodes, exits_without_flag)
                elif stretch.kind == "control":  # contains a collective: `statement` calls `block` for its statements
                    if exits_of(node):
                        raise self.error(
                            node,
                            "a kernel is not left where invocations still have to meet",
                            "let the condition decide what is done, without return, break and continue",
                        )
                    self.statement(node)
                else:
                    self._collective(stretch.kind, node)

    def _collective(self, kind: str, node: ast.stmt) -> None:
        """Emit a statement that all invocations run together, of the kind barrier, shared, reduction or exchange."""
        if kind == "barrier" and isinstance(node, ast.Assign):
            raise self.error(node, "a barrier has no value", "write pydispatch.barrier() in a line of its own")
        if kind == "shared":
            self._shared(node)
            return
        if kind == "reduction":
            self._reduction(node)
        elif kind == "exchange":  # stores a value for the others, which the next phase reads
            call = self.check_exchange(node)
            self._parallel(functools.partial(self._publish, call))
        # A barrier has no operation: a parallel loop ends before the next begins. The race checks count it.
        self.end_phase()

    def _phase(self, nodes: Sequence[ast.stmt], exits_without_flag: frozenset[str]) -> None:
        """Emit the statements between two barriers as one parallel loop over the invocations.

        Variables that other phases read have one of three forms. Spilled variables, which have a value for each
        invocation in memory, are loaded at the beginning of the loop and stored at its end. Formulas, expressions of
        parameters and ids, are computed at its beginning. Uniform variables, which are the same for all invocations,
        are computed again after the loop, for the whole workgroup. With `v = x[i]` before a barrier and `y[i] = v`
        after it, v is spilled, and the two phases are:

            scf.parallel ... { load of x[i]; store to %kept_v[local id] }
            scf.parallel ... { load of %kept_v[local id]; store to y[i] }

        Args:
            nodes: The statements.
            exits_without_flag: Exits that set no flag, because no statement follows the block of the phase: {RETURN}
                unless a control statement contains the phase.
        """
        self._check_exits(nodes, exits_without_flag)
        nodes, bound = self._bounded(nodes)  # a condition on the id around the statements becomes the loop's end
        self._parallel(functools.partial(self._phase_of_invocation, nodes, exits_without_flag), bound)
        # Values that the loop computes do not exist after it, so that uniform variables are evaluated again.
        # `is_statement`: the assignment is one of `nodes`, rather than nested in one.
        for name, value, is_statement in assignments(nodes):
            if name in self.variables.uniform and is_statement and value is not None:
                self.bind(ast.copy_location(ast.Name(name, ast.Store()), value), self.evaluate(value), value)

    def _phase_of_invocation(self, nodes: Sequence[ast.stmt], exits_without_flag: frozenset[str]) -> None:
        """Emit the statements of a phase for one invocation.

        Before them, spilled variables are loaded and formulas evaluated; after them, spilled variables that they assign
        are stored. For the arguments and for these variables, see `_phase`.
        """
        assigned = assigned_in(nodes)
        used = read_in(nodes) | assigned
        entities = self.environment.items()
        spilled = {name: entity.slot for name, entity in entities if isinstance(entity, Spilled) and name in used}
        self._evaluate_formulas(used)
        for name, slot in spilled.items():
            self.environment.pop(name)  # without a stored value it is undefined until this phase assigns it
            if slot.type:  # an earlier phase has stored the variable
                self.environment[name] = self._restored(slot)
        super().block([statement for statement in nodes if not self._is_formula(statement)], exits_without_flag)
        for name, slot in spilled.items():
            if name in assigned:
                origin = next(node for node in reversed(nodes) if name in assigned_in([node]))  # for errors
                self._spill(origin, name, slot)

    def _check_exits(self, nodes: Sequence[ast.stmt], exits_without_flag: frozenset[str]) -> None:
        """Raise CompileError if a phase returns before the end of the kernel: other invocations would wait for this
        one at the next barrier.

        nodes: statements of the phase. exits_without_flag: as in `_phase`; with RETURN, no control statement is around
        them.
        """
        is_last = nodes[-1] is self.source.body[-1]  # no barrier follows
        exit_statement = next((statement for statement in nodes if exits_of(statement)), None)
        is_inside_control = RETURN not in exits_without_flag
        if exit_statement is not None and (is_inside_control or not is_last):
            raise self.error(
                exit_statement,
                "a kernel is not left where invocations still have to meet",
                "let the condition decide what is done, without return",
            )

    def _evaluate_formulas(self, names: set[str]) -> None:
        """Rematerialize the formulas of variables among `names`, in the order in which they were classified."""
        for name, formula in self.variables.formulas.items():
            if name in names:
                self.environment[name] = self.evaluate(formula)

    def _is_formula(self, node: ast.stmt) -> bool:
        """Return whether a statement assigns formulas only; it is skipped, since `_evaluate_formulas` emits these."""
        names = set(targets_of(node))
        return bool(names) and names <= self.variables.formulas.keys()

    def _parallel(
        self, body: Callable[[], None], bound: Scalar | None = None, reduced: str = "", result_prefix: str = ""
    ) -> None:
        """Emit a parallel loop over the invocations of the workgroup.

        For a workgroup with two axes it is as follows; with a `bound` %7, the ends are (%extent1, %7):

            scf.parallel (%4, %3) = (%zero, %zero) to (%extent1, %extent0) step (%one, %one) {
              ...  // local_id(0) is %3, local_id(1) is %4
              scf.reduce
            }

        Args:
            body: Emits the loop body.
            bound: Upper bound along axis 0; None for the size of the workgroup.
            reduced: Text between the loop's head and its body: the initial value and the type of a reduction's result.
            result_prefix: Text before the loop's head that names the result of a reduction, such as `%1 = `; `body`
                then emits the scf.reduce itself.
        """
        # The body, with a writer and an environment of its own, and the indices of the loops as `local`.
        outer, saved = self.writer, self.environment
        axes = range(len(self.workgroup))
        self.writer, self.environment = outer.nested(), dict(saved)
        self.local = [Scalar(self.writer.fresh(), "index") for _ in axes]
        self.begin_phase()
        body()

        # The head of the loop. Axis 0, along which neighbouring invocations access neighbouring elements, is the
        # innermost: the last one.
        names = [scalar.name for scalar in reversed(self.local)]
        ends = [bound.name if bound and axis == 0 else self.extents[axis].name for axis in reversed(axes)]
        if not result_prefix:
            self.writer.lines.append("scf.reduce")  # the terminator of a loop without results
        inner, self.writer, self.environment, self.local = self.writer, outer, saved, None
        zeros, ones = (", ".join([scalar.name] * len(names)) for scalar in (self.zero, self.one))
        head = f"scf.parallel ({', '.join(names)}) = ({zeros}) to ({', '.join(ends)}) step ({ones})"
        outer.region(f"{result_prefix}{head}{reduced}", inner)

    # ---- reductions

    def _publish(self, call: ast.Call) -> None:
        """Emit what an invocation stores for an operation on a subgroup before all invocations meet."""
        # Arguments after the first: only a shuffle has one, the lane. It is stored, too, if memory may change it.
        has_changing_lane = not all(self._is_pure(lane, self._assigned) for lane in call.args[1:])
        self.publish(call, self._own_value(call), has_changing_lane)

    def _own_value(self, call: ast.Call) -> Scalar:
        """Return the first argument of a collective in this invocation: the value that it contributes."""
        names = read_in([call])
        self._evaluate_formulas(names)  # variables whose expressions are computed again in each phase
        for name, entity in list(self.environment.items()):
            if isinstance(entity, Spilled) and name in names:
                self.environment[name] = self._restored(entity.slot)
        value = self.number(call.args[0])
        return cast(self.writer, value, default_type(value)) if isinstance(value, Literal) else value

    def _reduction(self, node: ast.stmt) -> None:
        """Emit `total = pydispatch.group_sum(value)`, or group_max or group_min, as a parallel loop with scf.reduce.

        The loop runs over the invocations, each of which contributes its own value, and starts at the neutral element:

            %6 = arith.constant 0.0 : f32
            %5 = scf.parallel (%7) = (%zero) to (%extent0) step (%one) init (%6) -> f32 {
              ...  // %8, the value of the invocation
              scf.reduce(%8 : f32) {
              ^bb0(%9: f32, %10: f32):
                %11 = arith.addf %9, %10 fastmath<reassoc> : f32
                scf.reduce.return %11 : f32
              }
            }

        Its head and the neutral element need the type of the value, which is known only after the body was emitted.
        The head is therefore written with "TYPE", which is replaced then, and the neutral element inserted before it.
        """
        target, call = self._target_and_call(node)
        symbol = GROUP_REDUCTIONS[self._named_object(call.func)]
        types: list[str] = []  # gets the type of the value when the body is emitted

        def body() -> None:
            """Emit the reduction of this invocation's value, and append its type to `types`."""
            types.append(self._reduce_own_value(call, symbol))

        # The loop, without the type in its head.
        result = self.writer.fresh()
        outer = self.writer
        head_index = len(outer.lines)  # index of the loop's head, the first line that `_parallel` adds
        neutral_name = outer.fresh()
        self._parallel(body, reduced=f" init ({neutral_name}) -> TYPE", result_prefix=f"{result} = ")
        # The type, and the neutral element before the loop.
        type = types[0]
        outer.lines[head_index] = outer.lines[head_index].replace("-> TYPE", f"-> {type}")
        # A discarded writer makes the line of the constant; it gets the name that the head of the loop has already.
        start = outer.nested()
        start.value(f"arith.constant {neutral(symbol, type)} : {type}", type)
        neutral_operation = start.lines[0].partition(" = ")[2]
        outer.lines.insert(head_index, f"{neutral_name} = {neutral_operation}")
        # The target: stored for each invocation if it is spilled, else a variable.
        if not self._spill_for_all(target, Scalar(result, type), call):
            self.bind(target, Scalar(result, type), call)

    def _reduce_own_value(self, call: ast.Call, symbol: str) -> str:
        """Emit `scf.reduce` of this invocation's value, whose region combines two values; return the value's type.

        call: the reduction, such as `group_sum(value)`. symbol: its operator, such as "+".
        """
        scalar = self._own_value(call)
        if scalar.type == "i1":
            raise self.error(call.args[0], "a reduction of conditions", "convert them: pydispatch.i32(...)")
        inner = self.writer.nested()
        a, b = Scalar(inner.fresh(), scalar.type), Scalar(inner.fresh(), scalar.type)
        total = binary(inner, symbol, a, b)
        assert isinstance(total, Scalar)
        self.writer.lines += [
            f"scf.reduce({scalar.name} : {scalar.type}) {{",
            f"^bb0({a.name}: {a.type}, {b.name}: {b.type}):",
            *(f"  {line}" for line in reassociable(inner.lines, scalar.type)),
            f"  scf.reduce.return {total.name} : {total.type}",
            "}",
        ]
        return scalar.type

    def bind_loop_variable(self, target: ast.Name, value: Entity) -> None:
        """Bind the variable of a loop to its value in one iteration.

        The variable of a loop with collectives is spilled if the loop body changes it in some invocations only.
        """
        if not self._spill_for_all(target, value, target):
            super().bind_loop_variable(target, value)

    def _spill_for_all(self, target: ast.Name, value: Entity, origin: ast.expr) -> bool:
        """Emit a loop in which each invocation stores a value that they computed together, if `target` is spilled.

        Return whether it is: a spilled variable has a value for each invocation in memory (its slot). For any other
        variable nothing is emitted. With `total = group_sum(v)` and then `if local_id(0) == 0: total = 0.0`, each
        invocation has its own total after the next barrier. origin: the expression of the value, for errors.
        """
        entity = self.environment.get(target.id)
        if not isinstance(entity, Spilled):
            return False
        slot = entity.slot

        def body() -> None:
            """Emit the store of the value to the slot of one invocation."""
            self.environment.pop(target.id)
            # If the variable was stored before, `bind` converts the value to the type of the slot. It takes the type
            # from the old value: a stand-in without a name.
            if slot.type:
                self.environment[target.id] = Scalar("", slot.type)
            self.bind(target, value, origin)
            self._spill(target, target.id, slot)

        self._parallel(body)
        return True

    def _target_and_call(self, node: ast.stmt) -> tuple[ast.Name, ast.Call]:
        """Return the name and the call of a reduction `name = function(value)`; raise CompileError for other forms."""
        call = getattr(node, "value", None)
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(target, ast.Name) and isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords:
            return target, call
        raise self.error(
            node,
            "a reduction over the workgroup takes one value and is assigned to one name",
            "write total = pydispatch.group_sum(value)",
        )
