"""Matching of Python patterns against the program, and the view of a match for predicates and kernel generators."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, i1
from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.match.graph import facts
from pydispatch.compiler.match.graph.dag import DagPattern as Dag
from pydispatch.compiler.match.graph.matches import Match, Mismatch
from pydispatch.compiler.match.graph.search import match_dag
from pydispatch.compiler.match.graph.view import GraphView
from pydispatch.compiler.match.python.lower import Lowering
from pydispatch.compiler.match.python.programs import function_of, root_of
from pydispatch.compiler.match.python.sizes import axes_to_compare, disagreement
from pydispatch.errors import CompileError, InvalidArgumentError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.structured import as_structured
from pydispatch.kernels.ascii_names import ascii_names
from pydispatch.patterns import Pattern
from pydispatch.patterns.sizes import Dynamic

_PACKAGE = str(Path(__file__).parents[3])
"""Folder of the package, whose lines are left out when an error of a user's function is located."""


class Compiled:
    """Pattern of the user with the operations that it was traced to, in the form in which they are matched.

    `compile_pattern` creates it once for each compilation. `match` is then called for each operation of the program
    that the root may match.

    Attributes:
        pattern: The pattern.
        order: Position of the pattern in the compilation; of patterns with equal benefit the first is applied first.
        dag: Its operations; None for a matcher function.
        outputs: For each output of the pattern, its index among the root's results.
        name: Name of the pattern.
        compare: (name of a size, axes of tensors) whose sizes `match` compares, because a program may match the
            operations and have different sizes there. For an input `x: f32["n", "n"]`, whose matrix must be square, it
            has ("n", [(0, 0), (0, 1)]): axes 0 and 1 of input 0.
    """

    def __init__(self, pattern: Pattern, order: int, dag: Dag | None, outputs: list[int]) -> None:
        """Determine which sizes of a match must be compared, because the pattern gives them one name.

        Args:
            pattern: The pattern.
            order: Its position in the compilation.
            dag: Its operations; None for a matcher function.
            outputs: For each output of the pattern, its index among the root's results.
        """
        self.pattern, self.order, self.dag, self.outputs = pattern, order, dag, outputs
        self.name = pattern.name
        self.compare = axes_to_compare(pattern, None if dag is None else dag.block)

    def match(self, op: Operation, view: GraphView) -> Match | Mismatch:
        """Match the pattern with its root at `op`; return the match or the reason for the mismatch.

        A pattern without a DAG is a matcher function of the user, which is called.
        """
        if self.dag is None:
            return self._call_matcher(op)
        match = match_dag(self.dag, op, view)
        if isinstance(match, Match):
            match.outputs = [match.outputs[i] for i in self.outputs]  # in the order in which the pattern returns them
            problem = disagreement(self.pattern, self.compare, match)  # None unless sizes of one name differ
            if problem is not None:
                return Mismatch(depth=len(match.ops), reason=problem, op=op)
        return match

    def _call_matcher(self, op: Operation) -> Match | Mismatch:
        """Call the user's matcher function for an operation; return the match that it states, or a mismatch.

        The function returns None or a reason if the operation does not match, else (inputs, outputs): values of the
        program that the replacement reads, and results of the operation that it replaces.

        Raises:
            CompileError: The function raises an exception.
            InvalidArgumentError: Its result is malformed.
        """
        assert self.pattern.match_op is not None
        try:
            result = self.pattern.match_op(MatchedOpInfo(op))
        except Exception as error:
            raise user_function_error("function", self.name, error, op) from error
        if result is None or isinstance(result, str):
            # A reason means that the operation is nearly right: with a depth of 1 it is reported as a near miss.
            reason = result or f"expected what {self.name} looks for, got {op.name}"
            return Mismatch(depth=1 if result else 0, reason=reason, op=op)
        try:
            inputs, outputs = map(list, result)
        except (TypeError, ValueError):
            inputs, outputs = [None], []  # no pair of sequences: refused below, since None is no SSA value
        if not all(isinstance(v, SSAValue) for v in (*inputs, *outputs)) or not all(v.owner is op for v in outputs):
            raise InvalidArgumentError(
                f"matcher '{self.name}' must return None, a text, or (inputs, outputs) with outputs among op.results"
            )
        return Match(op, inputs, outputs, {op})


class MatchedOpInfo:
    """Operation as it is passed to matcher functions.

    Attributes:
        op: The operation.
        name: Its name, such as "linalg.matmul".
        operands: Its operands.
        results: Its results.
        attributes: Its attributes and properties by name.
        inputs: Operands of a structured operation without its outputs; all operands of others.
        loops: "parallel" or "reduction" for each loop of a structured operation; empty for others.
    """

    def __init__(self, op: Operation) -> None:
        """Read the attributes of the operation, and the inputs and loops of a structured one."""
        self.op = op
        self.name = op.name
        self.operands = list(op.operands)
        self.results = list(op.results)
        self.attributes: dict[str, Any] = {**op.attributes, **op.properties}
        structure = as_structured(op)  # loops and operands of a linalg operation; None for other operations
        self.inputs = list(structure.inputs) if structure is not None else self.operands  # without the outputs
        self.loops = list(structure.iterators) if structure is not None else []  # "parallel" or "reduction" for each

    def producer(self, index: int) -> MatchedOpInfo | None:
        """Return the operation that defines an operand; None for an argument."""
        owner = self.operands[index].owner
        return MatchedOpInfo(owner) if isinstance(owner, Operation) else None

    def __repr__(self) -> str:
        return f"<{self.name}>"


def compile_pattern(pattern: Pattern, order: int) -> Compiled:
    """Compile a pattern to a DAG of operations. order: its position among the patterns of the compilation.

    Raises CompileError if its results come from several operations or an input is unused.
    """
    if pattern.match_op is not None:
        return Compiled(pattern, order, dag=None, outputs=[])
    if pattern.program is not None:
        block = function_of(pattern).body.block
        root, results = root_of(pattern, block)
        return Compiled(pattern, order, _dag(pattern, block, root), results)
    return _compile_traced(pattern, order)


def _compile_traced(pattern: Pattern, order: int) -> Compiled:
    """Compile a pattern whose function was traced: print the trace as an MLIR function, and parse it to operations.

    The pattern `def f(x: f32["n"]): return abs(x)` becomes this function, whose root is %v4:

        func.func @f(%in_x: tensor<?xf32>) {
        %v1 = arith.constant 0 : index
        %v2 = tensor.dim %in_x, %v1 : tensor<?xf32>
        %v3 = tensor.empty(%v2) : tensor<?xf32>
        %v4 = linalg.generic {...} ins(%in_x : ...) outs(%v3 : ...) {...} -> tensor<?xf32>
        return
        }

    order: position of the pattern in the compilation, by which patterns of equal benefit are ranked.

    Raises:
        CompileError: The results come from several operations.
    """
    lowering = Lowering(pattern.inputs)
    names = [lowering.value(v) for v in pattern.outputs]  # %v3, or %v3#1 for result 1 of several
    roots = {n.partition("#")[0] for n in names}
    if len(roots) != 1:
        raise CompileError(
            f"pattern '{pattern.name}' returns results of {len(roots)} operations",
            note="the results of a pattern come from one operation, such as argmax; write one pattern for each",
        )
    block = _parsed_body(pattern, lowering.lines)
    # The root is the operation whose line defines the results of the pattern.
    (root_name,) = roots
    root = _operation_of_line(block, lowering.lines, root_name)
    result_indices = [int(n.partition("#")[2] or 0) for n in names]
    return Compiled(pattern, order, _dag(pattern, block, root), result_indices)


def _parsed_body(pattern: Pattern, lines: Sequence[str]) -> Block:
    """Parse the lines of a pattern's body in a function with its inputs as arguments, and return the body."""
    from pydispatch import ir

    arguments = ", ".join(f"%in_{name}: {type.mlir}" for name, type in pattern.inputs)
    body = "\n".join(lines)
    text = f"func.func @{pattern.name}({arguments}) {{\n{body}\nreturn\n}}"
    function = ir.parse(ascii_names(text), f"<pattern {pattern.name}>").body.block.first_op
    assert function is not None
    block = function.regions[0].block
    for argument, (name, _) in zip(block.args, pattern.inputs, strict=True):
        argument.name_hint = ascii_names(f"%{name}")[1:]  # messages then say %x, not %in_x
    return block


def _operation_of_line(block: Block, lines: list[str], name: str) -> Operation:
    """Return the operation of `block` whose line defines the value `name`, such as %v3.

    lines: the text that the operations before the terminator were parsed from, one line for each: "%v3 = ...", or
        "%v3:2 = ..." for two results.
    """
    ops = [op for op in block.ops if op is not block.last_op]
    return next(
        op for op, line in zip(ops, lines, strict=True) if line.partition(" ")[0].partition(":")[0] == name
    )  # fmt: skip


def _dag(pattern: Pattern, block: Block, root: Operation) -> Dag:
    """Create the graph of a pattern's operations. Raises CompileError if the pattern does not use an input."""
    dag = Dag(block, root)
    if dag.unused:  # arguments of the block, which are in the order of the pattern's inputs
        position = list(block.args).index(dag.unused[0])
        name, _ = pattern.inputs[position]
        raise CompileError(f"pattern '{pattern.name}' does not use its input '{name}'",
                           note="leave the parameter out")  # fmt: skip
    return dag


def user_function_error(kind: str, pattern: str, error: Exception, op: Operation) -> CompileError:
    """Build a CompileError for an exception of a user's pattern function, located at the operation.

    Args:
        kind: Kind of function: "function" (a matcher), "predicate" or "generator".
        pattern: Name of the pattern.
        error: The exception.
        op: The operation for which the function was called.
    """
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]  # without those of pydispatch
    note = f"raised in {user_frames[-1].filename}:{user_frames[-1].lineno}" if user_frames else None
    text = f"the {kind} of pattern '{pattern}' raised {type(error).__name__}: {error}"
    return CompileError(text, location_of(op), note)


class MatchInfo:
    """A match as it is passed to predicates and generators: every named size is an attribute, an int or `Dynamic`.

    Attributes:
        pattern: The pattern.
        op: The operation that its root matched.
        symbol: Required name of the function in C text that a generator returns.
        targets: Formats that the program is compiled for.
        inputs: Name of an input ("in0", "in1", ... for a matcher function) → its value. An input that is only the
            destination of a result, which the pattern overwrites without reading it, may be None.
        outputs: Values that the kernel computes.
        sizes: Name of a size → the size; the same as the attributes.
    """

    def __init__(self, compiled: Compiled, match: Match, targets: tuple[str, ...] = ()) -> None:
        """Store the values of `match`, and their sizes, under the names that the pattern gives them."""
        self.pattern = compiled.pattern
        self.op = MatchedOpInfo(match.root)
        self.symbol = f"{compiled.name}_kernel"
        self.targets = targets
        names = [n for n, _ in compiled.pattern.inputs] or [f"in{i}" for i in range(len(match.inputs))]
        self.inputs: dict[str, SSAValue | None] = dict(zip(names, match.inputs, strict=True))
        self.outputs = list(match.outputs)
        self.sizes: dict[str, int | Dynamic] = {}
        # The pattern of a matcher function states no inputs, and so names no sizes.
        for (_, type), value in zip(compiled.pattern.inputs, match.inputs, strict=False):
            if value is None or not isinstance(value.type, TensorType):
                continue
            for axis, size in enumerate(type.shape or ()):
                # If several inputs have a size of this name, a static one is preferred.
                if isinstance(size, str) and not isinstance(self.sizes.get(size), int):
                    self.sizes[size] = _size(size, value, axis)

    def __getattr__(self, name: str) -> int | Dynamic:
        """Return a size of the pattern, such as `match.m`; AttributeError lists the sizes."""
        sizes = self.__dict__.get("sizes", {})  # `self.sizes` would recurse before it is assigned, as in a copy
        if name in sizes:
            return sizes[name]
        raise AttributeError(f"the match has no size '{name}'; sizes: {', '.join(sizes) or 'none'}")

    def value(self, name: str) -> SSAValue:
        """Return the matched value of an input, or of 'out', 'out1', ...; AttributeError for another name."""
        value = self.inputs.get(name)
        if value is None and name.startswith("out"):  # an input of this name takes precedence
            position = name.removeprefix("out") or "0"  # "out" is "out0"
            if position.isdecimal() and int(position) < len(self.outputs):
                value = self.outputs[int(position)]
        if value is None:
            raise AttributeError(f"the match has no value '{name}'; inputs: {', '.join(self.inputs)}")
        return value

    def shape(self, name: str) -> tuple[int | Dynamic, ...]:
        """Return the sizes of an input or output; () for a scalar."""
        value = self.value(name)
        if not isinstance(value.type, TensorType):
            return ()
        return tuple(_size(f"size {i} of {name}", value, i) for i in range(len(value.type.get_shape())))

    def dtype(self, name: str) -> str:
        """Return the element type of an input or output, such as 'f32'."""
        type = self.value(name).type
        return str(type.element_type if isinstance(type, TensorType) else type)

    def constant(self, name: str) -> float | int | None:
        """Return the number that a scalar input is in the program; None if it is not a constant. The i1 true is 1."""
        owner = self.value(name).owner
        value = owner.properties.get("value") if isinstance(owner, Operation) else None
        if not isinstance(value, (IntegerAttr, FloatAttr)):
            return None
        return abs(value.value.data) if value.type == i1 else value.value.data  # xDSL has -1 for the i1 true

    def __str__(self) -> str:
        """Return the sizes of the match for messages, such as `n = 4, m dynamic`; "this match" without any."""
        texts = [f"{k} dynamic" if isinstance(v, Dynamic) else f"{k} = {v}" for k, v in self.sizes.items()]
        return ", ".join(texts) or "this match"


def _size(name: str, value: SSAValue, axis: int) -> int | Dynamic:
    """Return a static size as an int, else its known range, which messages call `name`."""
    size = facts.size_of(value, axis)
    return size.static if size.static is not None else Dynamic(name, size.low, size.high, size.multiple)
