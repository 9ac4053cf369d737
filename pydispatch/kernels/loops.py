"""Loops of a kernel → scf.for and scf.while, with the variables that they change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydispatch.kernels import functions
from pydispatch.kernels.arithmetic import binary, cast, compare, default_type
from pydispatch.kernels.entities import (
    FLOATS,
    Entity,
    Formula,
    Known,
    Literal,
    MemoryRef,
    Scalar,
    Spilled,
    Tile,
    TupleValue,
    Undefined,
    described,
    is_number,
    scalars_in,
)
from pydispatch.kernels.names import BREAK, CONTINUE, RETURN, assigned_in, exits_of, names_in, targets_of
from pydispatch.kernels.numbers import Environment
from pydispatch.kernels.statements import Statements
from pydispatch.kernels.writer import Writer

MAX_STAGES = 8
"""Maximum number of iterations of a loop whose tiles are in memory at a time. More need more workgroup memory than
devices have."""

_KEPT_IN_LOOPS = (Formula, Spilled, MemoryRef, Tile)
"""Values that stay valid in a loop and after it: they are computed again (formulas), or read from memory."""

VariableOfCounter = Callable[[Scalar], Scalar]
"""Function that emits the value of a loop variable from the counter of the scf.for or scf.while, both of type index."""


@dataclass(frozen=True)
class _CounterRange:
    """Values that the counter of a loop takes.

    Attributes:
        low: First value.
        high: End, exclusive.
        step: Number that is added in each iteration; not 0.
        variable_of_counter: Emits the value of the loop variable from the counter.
    """

    low: Scalar | Literal
    high: Scalar | Literal
    step: int
    variable_of_counter: VariableOfCounter


def _scalars_of(environment: Environment, names: Iterable[str]) -> list[Scalar]:
    """Return the scalars of the values of variables: one of a number, those of its items of a tuple."""
    return [scalar for name in names for scalar in scalars_in(environment[name]) or []]


def _identity(counter: Scalar) -> Scalar:
    """Return the counter itself, which is the loop variable if the step of the range is known at compile time."""
    return counter


class Loops(Statements):
    """Part of the code generators of kernels: scf.for for counted loops, scf.while for all others.

    `Statements` calls `_for_statement` and `_while_statement`. Variables that the body changes become iteration
    arguments of the loop. A `continue`, `break` or `return` in a condition sets a flag, which the statements after it
    test. An exit that no statement follows needs none.
    """

    def carried(self, node: ast.For | ast.While) -> list[str]:
        """Return the names of the loop-carried variables: iteration arguments and results of the loop in MLIR.

        They are the variables that the body reassigns and that have a numeric value before the loop, except for the
        loop variable. Numbers without a type, such as an argument of an inlined function, get their default types. A
        variable with any other value, such as a function, is undefined until the body assigns it.
        """
        names = assigned_in(node.body) - set(targets_of(node))
        carried = []
        for name, entity in self.environment.items():
            if name not in names or isinstance(entity, (*_KEPT_IN_LOOPS, Undefined)):
                continue
            if is_number(entity):
                self.environment[name] = self.with_default_types(node, entity)
                carried.append(name)
            else:
                line = self.source.location(node).line
                self.environment[name] = Undefined(
                    f"is no number, and the loop in line {line} passes only numbers to its next iteration"
                )
        return carried

    def _for_statement(self, node: ast.For) -> None:
        """Emit a `for` loop: as scf.for, as scf.while if scf.for cannot express it, or unrolled if it is over a tuple.

        scf.for has the variables that the body reassigns as iteration arguments. `for i in range(n): total += x[i]`
        becomes, with %total for the value before the loop:

            %8 = scf.for %4 = %1 to %2 step %3 iter_args(%5 = %total) -> (f32) {
              %6 = memref.load %p_x[%4] : memref<?xf32>
              %7 = arith.addf %5, %6 : f32
              scf.yield %7 : f32
            }

        A loop with `break`, `return` or a negative step becomes scf.while. A loop over `pydispatch.range` may state its
        `stages`, the number of iterations whose tiles are in workgroup memory at a time: an attribute of the scf.for.
        """
        if node.orelse:
            raise self.error(node.orelse[0], "'else' of a loop is not a part of kernels", "use a variable")
        items = self._items_of(node.iter)  # of a tuple, which is known when the kernel is compiled; None for a range
        if items is not None:
            self._unroll(node, items)
            return

        low, high, step = self.range_of(node)
        stages = self._stages_of(node)
        assert isinstance(node.target, ast.Name)
        self.check_name(node.target)
        if isinstance(step, Scalar):
            counters = self._normalize_runtime_step(low, high, step)
        else:
            counters = _CounterRange(low, high, step, variable_of_counter=_identity)
        exits = {name for statement in node.body for name in exits_of(statement)}
        may_leave = bool(exits & {BREAK, RETURN})
        if may_leave or counters.step < 0:  # scf.for has no early exit, and a positive step only
            self._emit_as_while(node, counters)
        else:
            self._emit_as_for(node, node.target, counters, stages)

    def _emit_as_for(self, node: ast.For, target: ast.Name, counters: _CounterRange, stages: int) -> None:
        """Emit a loop without early exits and with a positive step as scf.for. `target` is its variable."""
        carried = self.carried(node)
        outer, saved = self.writer, self.environment
        before = _scalars_of(saved, carried)
        start, end = cast(outer, counters.low, "index"), cast(outer, counters.high, "index")
        stride = outer.constant(counters.step, "index")
        (counter,), arguments = self._begin_region(outer, saved, carried, [start])
        self.bind_loop_variable(target, counters.variable_of_counter(counter))
        self._loop_body(node)
        self._end_of_iteration(carried)
        body, self.writer, self.environment = self.writer, outer, saved

        types = [scalar.type for scalar in before]
        assignment, results = outer.results(types)
        passed = ", ".join(f"{a.name} = {b.name}" for a, b in zip(arguments, before, strict=True))
        tail = f" iter_args({passed}) -> ({', '.join(types)})" if types else ""
        outer.region(
            f"{assignment}scf.for {counter.name} = {start.name} to {end.name} step {stride.name}{tail}", body,
            "}" if stages == 1 else f"}} {{pyd.stages = {stages} : i64}}",
        )  # fmt: skip
        self._after_loop(node, carried, results)

    def _begin_region(
        self, outer: Writer, saved: Environment, carried: Sequence[str], counters: Sequence[Scalar]
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Begin a region of a loop in a writer nested in `outer`, with a copy of `saved`, the environment around it.

        Return its arguments: those for the counters, and those for the variables `carried`, which are bound to them.
        """
        self.writer, self.environment = outer.nested(), dict(saved)
        own_counters = [Scalar(self.writer.fresh(), counter.type) for counter in counters]
        values = [Scalar(self.writer.fresh(), scalar.type) for scalar in _scalars_of(saved, carried)]
        # A carried variable may be a tuple. Its value in `saved` has the structure that `_bind_results` builds from the
        # values: 2 of them for (a, b).
        self._bind_results(self.environment, [(name, saved[name]) for name in carried], values)
        return own_counters, values

    def _loop_body(self, node: ast.For | ast.While) -> None:
        """Emit the statements of a loop."""
        self.environment.pop(CONTINUE, None)  # the flag of a loop around this one
        self.block(node.body, exits_without_flag=frozenset({CONTINUE}))

    def _items_of(self, node: ast.expr) -> Sequence[Entity] | None:
        """Return the items of a tuple that a loop runs over; None for anything else."""
        # Only expressions that emit no code are evaluated here: the caller evaluates others, such as range(n).
        if not isinstance(node, (ast.Name, ast.Tuple, ast.Subscript, ast.Attribute)):
            called = self.evaluate(node.func) if isinstance(node, ast.Call) else None
            is_zip_or_enumerate = isinstance(called, Known) and called.value in (zip, enumerate)
            if not is_zip_or_enumerate:
                return None
        entity = self.evaluate(node)
        return entity.items if isinstance(entity, TupleValue) else None

    def _unroll(self, node: ast.For, items: Sequence[Entity]) -> None:
        """Emit the body of a loop once for each item of a tuple."""
        exits = {name for statement in node.body for name in exits_of(statement)}
        if exits:
            keyword = sorted(exits)[0].strip()  # names of exits end with a space, unlike names of variables
            raise self.error(
                node, f"'{keyword}' in a loop over a tuple, which is written once for each item",
                "let a condition decide what is done",
            )  # fmt: skip
        line = self.source.location(node).line
        for item in items:
            self._bind_item(node.target, item)
            self.block(node.body)
            # After the loop its variables have no value, but those that are stored in memory (Spilled) keep theirs.
            for name in names_in(node.target):
                if not isinstance(self.environment[name], Spilled):
                    self.environment[name] = Undefined(f"has a value inside the loop in line {line} only")

    def bind_loop_variable(self, target: ast.Name, value: Entity) -> None:
        """Bind the variable of a loop to its value in one iteration."""
        self.environment[target.id] = value

    def _bind_item(self, target: ast.expr, item: Entity) -> None:
        """Bind the names of a loop over a tuple to an item, without a conversion: views and untyped numbers stay such.

        The target of `for (a, b) in pairs` is a tuple of names, which are bound to the items of the item.
        """
        if isinstance(target, ast.Name):
            self.check_name(target)
            self.bind_loop_variable(target, item)
            return
        if not isinstance(target, ast.Tuple) or not isinstance(item, TupleValue) or len(target.elts) != len(item.items):
            raise self.error(target, f"'{ast.unparse(target)}' for {described(item)}", "give one name for each value")
        for element, part in zip(target.elts, item.items, strict=True):
            self._bind_item(element, part)

    def _normalize_runtime_step(self, low: Scalar | Literal, high: Scalar | Literal, step: Scalar) -> _CounterRange:
        """Normalize a range with a runtime step to `range(0, count, 1)`.

        The count is ceil((high - low) / step), and the loop variable low + counter * step. range(10, 0, -3) has the
        count ceil(-10 / -3) = 4, and the values 10, 7, 4, 1. A range without elements has a count of 0 or less. A step
        of 0 gives no iterations, since a division by 0 gives 0 in kernel IR.
        """
        first, end, stride = (cast(self.writer, bound, "index") for bound in (low, high, step))
        span = self.writer.value(f"arith.subi {end.name}, {first.name} : index", "index")
        count = self.writer.value(f"arith.ceildivsi {span.name}, {stride.name} : index", "index")

        def variable_of_counter(counter: Scalar) -> Scalar:
            """Emit the value of the loop variable: first + counter * step."""
            steps = self.writer.value(f"arith.muli {counter.name}, {stride.name} : index", "index")
            return self.writer.value(f"arith.addi {first.name}, {steps.name} : index", "index")

        return _CounterRange(Literal(0), count, 1, variable_of_counter)

    def _end_of_iteration(self, carried: Iterable[str], more: Sequence[Scalar] = ()) -> None:
        """Emit the scf.yield of an iteration: `more`, the next counters, then the values of the variables `carried`."""
        values = list(more)
        for name in carried:
            entity = self.environment[name]
            if isinstance(entity, Undefined):
                raise self.error(
                    self.writer.node, f"'{name}' {entity.reason}, and the loop around it passes it on",
                    "give the variable of the inner loop another name",
                )  # fmt: skip
            values += scalars_in(entity) or []
        if values:
            self.writer.line(f"scf.yield {', '.join(v.name for v in values)} : {', '.join(v.type for v in values)}")

    def _after_loop(self, node: ast.For | ast.While, carried: Sequence[str], results: Sequence[Scalar]) -> None:
        """Bind the loop-carried variables to the results of the loop; variables first assigned inside it become
        undefined.
        """
        forms = [(name, self.environment[name]) for name in carried]  # results have the structure of these values
        self._bind_results(self.environment, forms, results)
        for name in assigned_in([node]) - set(carried):
            if not isinstance(self.environment.get(name), _KEPT_IN_LOOPS):
                line = self.source.location(node).line
                self.environment[name] = Undefined(f"has a value inside the loop in line {line} only")

    def range_of(self, node: ast.For) -> tuple[Scalar | Literal, Scalar | Literal, int | Scalar]:
        """Return the first value, the end (exclusive) and the step of `for i in range(...)`.

        The step is an int other than 0 if it is known, else a Scalar. `range` is Python's or `pydispatch.range`. Raise
        CompileError for a loop over anything else, and for wrong arguments of range.
        """
        call = node.iter
        called = self.evaluate(call.func) if isinstance(call, ast.Call) else None
        is_range = isinstance(called, Known) and (called.value is range or called.value is functions.range)
        if not is_range or not isinstance(call, ast.Call):
            raise self.error(
                node.iter,
                f"a loop over '{ast.unparse(node.iter)}' is not a part of kernels",
                "loop over range(...) or over a tuple",
            )
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "a loop over range has one variable", "write for i in range(...)")

        arguments = self._arguments_of_range(call)
        low, high = (Literal(0), arguments[0]) if len(arguments) == 1 else arguments[:2]
        step = arguments[2] if len(arguments) == 3 else Literal(1)
        if isinstance(step, Scalar):
            return low, high, step
        if step.value == 0:
            raise self.error(call.args[2], "the step of range is 0", "give another number")
        return low, high, int(step.value)

    def _arguments_of_range(self, call: ast.Call) -> list[Scalar | Literal]:
        """Return the 1 to 3 integers that a call of range has as arguments. Raise CompileError for other arguments."""
        # Python's range has no keywords; pydispatch.range has `stages`.
        has_stages = self.evaluate(call.func) == Known(functions.range)
        other = next((keyword for keyword in call.keywords if not has_stages or keyword.arg != "stages"), None)
        if other is not None:
            remedy = "pydispatch.range(..., stages=3) reads tiles ahead" if other.arg == "stages" else "leave it out"
            raise self.error(other.value, f"range has no '{other.arg}'", remedy)
        if not 1 <= len(call.args) <= 3:
            count = len(call.args)
            raise self.error(call, f"range takes 1 to 3 arguments, got {count}", "write range(first, end, step)")
        arguments = [self.number(value) for value in call.args]
        for value, argument in zip(arguments, call.args, strict=True):
            type = default_type(value) if isinstance(value, Literal) else value.type
            if type in FLOATS or type == "i1":
                raise self.error(argument, f"range of {type}", "convert it: pydispatch.i32(...)")
        return arguments

    def _stages_of(self, node: ast.For) -> int:
        """Return `stages` of a loop over `pydispatch.range`; 1 if it states none.

        It is the number of iterations whose tiles are in workgroup memory at a time.
        """
        assert isinstance(node.iter, ast.Call)
        stated = next((keyword.value for keyword in node.iter.keywords if keyword.arg == "stages"), None)
        if stated is None:
            return 1
        stages = self.evaluate(stated)
        if not isinstance(stages, Literal) or type(stages.value) is not int or not 1 <= stages.value <= MAX_STAGES:
            raise self.error(
                stated, f"stages of {described(stages)}", f"give a known number from 1 to {MAX_STAGES}, or a pd.static"
            )
        return stages.value

    def _emit_as_while(self, node: ast.For, counters: _CounterRange) -> None:
        """Emit a `for` loop that has early exits or a negative step as scf.while."""
        assert isinstance(node.target, ast.Name)
        target = node.target
        end = cast(self.writer, counters.high, "index")
        start = cast(self.writer, counters.low, "index")

        def goes_on(variables: Sequence[Scalar]) -> Scalar | Literal:
            """Emit the loop condition, that the counter `variables[0]` has not reached the end."""
            return compare(self.writer, "<" if counters.step > 0 else ">", variables[0], end)

        def begin(variables: Sequence[Scalar]) -> None:
            """Bind the loop variable to its value for the counter `variables[0]`."""
            self.bind_loop_variable(target, counters.variable_of_counter(variables[0]))

        def next_of(variables: Sequence[Scalar]) -> list[Scalar]:
            """Emit the counter of the next iteration."""
            following = binary(self.writer, "+", variables[0], Literal(counters.step))
            assert isinstance(following, Scalar)
            return [following]

        self._loop(node, counters=[start], goes_on=goes_on, begin=begin, next_of=next_of)

    def _while_statement(self, node: ast.While) -> None:
        """Emit a `while` loop as scf.while.

        Raise CompileError for `else`, and for `while True` without break or return.
        """
        if node.orelse:
            raise self.error(node.orelse[0], "'else' of a loop is not a part of kernels", "use a variable")
        exits = {name for statement in node.body for name in exits_of(statement)}
        may_leave = bool(exits & {BREAK, RETURN})
        if isinstance(node.test, ast.Constant) and node.test.value and not may_leave:
            raise self.error(node, "this loop never ends", "leave it with break or return, or test for the end")
        self._loop(  # a `while` loop has no counters, so that its functions ignore them
            node,
            counters=[],
            goes_on=lambda _: self.condition(node.test),
            begin=lambda _: None,
            next_of=lambda _: [],
        )

    def _loop(
        self,
        node: ast.For | ast.While,
        counters: Sequence[Scalar],
        goes_on: Callable[[Sequence[Scalar]], Scalar | Literal],
        begin: Callable[[Sequence[Scalar]], None],
        next_of: Callable[[Sequence[Scalar]], list[Scalar]],
    ) -> None:
        """Emit an scf.while whose iteration arguments are `counters`, the loop-carried variables and the flags of
        early exits.

        Args:
            node: The loop.
            counters: Initial values of variables that the kernel does not name, such as the counter of a `for` loop.
            goes_on: Emits the loop condition, from the current counters.
            begin: Binds the names that the body reads, such as a loop variable, from the current counters.
            next_of: Emits the counters of the next iteration from the current ones.
        """
        # The iteration arguments. A flag for each kind of early exit is false at first.
        exits = {name for statement in node.body for name in exits_of(statement)}
        flags = sorted(exits & {BREAK, RETURN})
        flag_of_outer_loop = self.environment.pop(BREAK, None)
        for name in flags:
            self.environment[name] = self.writer.constant(value=False, type="i1")
        carried = [*self.carried(node), *flags]
        outer, saved = self.writer, self.environment
        before = [*counters, *_scalars_of(saved, carried)]

        # The region of the condition.
        own_counters, values = self._begin_region(outer, saved, carried, counters)
        condition = self._unless_exited(goes_on(own_counters), flags)  # false if a flag is set
        decided = cast(self.writer, condition, "i1")
        tested = [*own_counters, *values]
        names, types = ", ".join(scalar.name for scalar in tested), ", ".join(scalar.type for scalar in tested)
        self.writer.line(f"scf.condition({decided.name})" + (f" {names} : {types}" if tested else ""))
        test = self.writer

        # The region of the body.
        own_counters, values = self._begin_region(outer, saved, carried, counters)
        begin(own_counters)
        self._loop_body(node)
        self._end_of_iteration(carried, next_of(own_counters))
        if not before:
            self.writer.line("scf.yield")
        self.take_result(saved)
        body, self.writer, self.environment = self.writer, outer, saved

        # The operation with both regions, and the values after it.
        assignment, results = outer.results([scalar.type for scalar in before])
        passed = ", ".join(f"{a.name} = {b.name}" for a, b in zip(tested, before, strict=True))
        entry = ", ".join(f"{a.name}: {a.type}" for a in [*own_counters, *values])
        signature = f" ({passed}) : ({types}) -> ({types})" if before else " : () -> ()"
        outer.lines += [
            f"{assignment}scf.while{signature} {{",
            *(f"  {line}" for line in test.lines),
            "} do {",
            *([f"^bb0({entry}):"] if before else []),
            *(f"  {line}" for line in body.lines),
            f"}} {outer.location()}",
        ]
        outer.has_effects = True
        self._after_loop(node, carried, results[len(counters) :])
        self.environment.pop(BREAK, None)  # it was for this loop only; RETURN guards the statements after the loop, too
        if flag_of_outer_loop is not None:
            self.environment[BREAK] = flag_of_outer_loop

    def _unless_exited(self, condition: Scalar | Literal, flags: Sequence[str]) -> Scalar | Literal:
        """Emit the condition of the next iteration: the loop's own `condition`, and no exit flag of `flags` is set."""
        for name in flags:
            flag = self.environment[name]
            assert isinstance(flag, Scalar)
            true = self.writer.constant(value=True, type="i1")
            stays = self.writer.value(f"arith.xori {flag.name}, {true.name} : i1", "i1")
            condition = self._conjunction(condition, stays)
        return condition
