"""Comparison of a pattern with an operation of a program and its producers, or a report of where and why it failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.match.graph.backtracking import ways_of_all
from pydispatch.compiler.match.graph.broadcasts import reads_equal_elements
from pydispatch.compiler.match.graph.dag import DagPattern
from pydispatch.compiler.match.graph.facts import cast_problem
from pydispatch.compiler.match.graph.matches import Match, Mismatch
from pydispatch.compiler.match.graph.nodes import Node, difference_text, type_text
from pydispatch.compiler.match.graph.view import GraphView, source_of
from pydispatch.ir.affine_maps import dims_in

ABSENT = "absent"
"""Binding of a pattern input that is only overwritten and that does not exist in the program."""
_STEPS = 100_000
"""Maximum number of compared nodes: n nested commutative operations have 2**n orders of operands."""


def match_dag(pattern: DagPattern, root: Operation, view: GraphView) -> Match | Mismatch:
    """Compare a pattern with `root` and its producers; return the match or the deepest mismatch.

    Operands of commutative operations may match in several orders. The first way that matches is taken: the search
    stops there, and keeps the values that it has bound to the pattern's inputs. The deepest mismatch is the one
    before which the most operations had matched.

    Args:
        pattern: The pattern.
        root: Operation of the program that the pattern's root is compared with.
        view: The computation graph of the program, which has a node for each of its values.
    """
    if len(root.results) != len(pattern.root.results):
        want, got = len(pattern.root.results), len(root.results)
        reason = f"expected {pattern.root.name} with {want} result(s), got {root.name} with {got}"
        return Mismatch(depth=0, reason=reason, op=root)
    # All results of the root must match together; the search ends at the first way.
    search = _Search(pattern, view)
    nodes = view.nodes(root)
    names = [f"result {i}" if len(nodes) > 1 else "" for i in range(len(nodes))]
    has_match = any(True for _ in search.compare_all(pattern.nodes, nodes, names, user=None))
    if not has_match:
        assert search.best is not None
        return search.best
    if any(value in root.results for value in search.bound.values()):  # a replacement would read its own result
        return Mismatch(depth=0, reason="an input of the pattern is its own result", op=root)
    return Match(root, search.inputs(), list(root.results), search.ops, search.computed())


class _Search:
    """Comparison of the operations of a pattern with an operation of a program and its producers.

    Names with `wanted` are of the pattern, names with `actual` of the program. `match_dag` creates a search, and takes
    the first item of `compare_all` for the results of both. It then reads `inputs`, `ops` and `computed` or, if there
    is no item, `best`: why the comparison failed.

    The methods `compare...` are generators: they yield once for each way in which the pattern matches, with the inputs
    bound accordingly. There are several ways if operands of commutative operations may be exchanged: `(a + b) - a`
    matches `(x + y) - y` with a bound to y. A caller that cannot use a way continues the generator.

    Args:
        pattern: The pattern.
        view: Nodes of the program.
    """

    def __init__(self, pattern: DagPattern, view: GraphView) -> None:
        self.pattern, self.view = pattern, view
        self.bound: dict[int, SSAValue | str] = {}  # index of an input of the pattern → value of the program, or ABSENT
        # Each input that was bound with the value before (None if it had none), in the order of binding.
        self.trail: list[tuple[int, SSAValue | str | None]] = []
        # (node of the pattern, node of the program) that are known to match under the current bindings.
        self.agreed: set[tuple[Node, Node]] = set()
        # Pairs of such nodes in the order in which they matched, for backtracking.
        self.pairs: list[tuple[Node, Node]] = []
        self.ops: set[Operation] = set()  # operations of the program that matched
        self.depth = 0  # number of operations that matched under the current bindings; ranks mismatches
        self.steps = 0  # number of comparisons so far, which is limited
        self.conflicts = 0  # number of comparisons so far that failed because an input is bound to another value
        self.best: Mismatch | None = None  # the deepest mismatch so far

    def inputs(self) -> list[SSAValue | None]:
        """Return the bound value of each input of the pattern; None for absent and unbound ones."""
        values = [self.bound.get(i) for i in range(len(self.pattern.inputs))]
        return [None if isinstance(f, str) else f for f in values]

    def computed(self) -> dict[SSAValue, SSAValue]:
        """Return `Match.computed`: for each value that the pattern computes, the value of the program that it matched.

        A node inside of an elementwise generic of the program is a scalar and has no tensor of its own. It is mapped to
        result 0 of the generic, which has the shape that the tensor would have: callers compare only sizes
        (`python/sizes.py`).
        """
        values: dict[SSAValue, SSAValue] = {}
        for wanted, actual in self.pairs:
            value = actual.value
            if value is None and isinstance(actual.op, GenericOp):
                value = actual.op.results[0]
            if wanted.value is not None and value is not None:
                values[wanted.value] = value
        return values

    def fail(self, reason: str, where: str, op: Operation | None) -> bool:
        """Record a mismatch if more operations matched before it than before the recorded one; return False.

        Args:
            reason: Why the comparison failed, for messages.
            where: Position in the pattern, such as "operand 1 of linalg.matmul"; "" for the root.
            op: Operation of the program at which it failed, or that reads the argument at which it failed; None if
                there is neither.
        """
        if self.best is None or self.depth > self.best.depth:
            self.best = Mismatch(self.depth, f"{where}: {reason}" if where else reason, op)
        return False

    def compare(
        self, wanted: SSAValue | Node, actual: SSAValue | Node, where: str, user: Operation | None = None
    ) -> Iterator[None]:
        """Yield None for each way in which a node of the pattern matches one of the program, with the inputs bound.

        While the generator is suspended, `bound` has the value of each input for this way. The recorded failure is the
        one before which the most operations had matched.

        Args:
            wanted: The node of the pattern, or a value of it.
            actual: The node of the program, or a value of it.
            where: Position of the node in the pattern, for messages, such as "operand 1 of linalg.matmul"; "" for the
                root.
            user: The operation of the program that reads `actual`; None for the root.
        """
        # An input of the pattern, which matches any value, or an operation of which only the name is compared.
        input_index = self.pattern.input_index_of(wanted)
        if input_index is not None:
            if self.bind(input_index, actual, where, user):
                yield
            return
        name = self.pattern.name_only(wanted)
        actual_node = self.view.node(actual)
        op = actual_node.op or user
        if name is not None:
            if actual_node.op is not None and actual_node.op.name == name:
                yield
            else:
                self.fail(f"expected {name}, got {actual_node.description}", where, op)
            return
        wanted_node = self.pattern.view.node(wanted)
        # The pattern has a node with a map (`Node.index_map`) that reads each element of its operand once and in order,
        # and the program has the operand itself: skip the map. An example is a broadcast along an axis of size 1.
        if actual_node.index_map is None and self._reads_all(wanted_node, actual_node):
            self.pairs.append((wanted_node, actual_node))
            yield from self.compare(wanted_node.children[0], actual, where, user)
            return
        # Two operations, with their operands. A node with several users is reached again after it has matched.
        if (wanted_node, actual_node) in self.agreed:
            yield
        elif self.are_alike(wanted_node, actual_node, where, op):
            for _ in self.compare_children(wanted_node, actual_node):
                self._record_match(wanted_node, actual_node)
                yield

    def _record_match(self, wanted: Node, actual: Node) -> None:
        """Record that a node of the pattern and one of the program match."""
        # Operands that only give the initial contents of a result bind the inputs that nothing else has bound.
        for i, out in enumerate(wanted.overwritten):
            input_index = self.pattern.input_index_of(out)
            if input_index is not None and input_index not in self.bound:
                # ABSENT: the operation of the program has no such operand.
                self._set(input_index, actual.overwritten[i] if i < len(actual.overwritten) else ABSENT)
        self.agreed.add((wanted, actual))
        self.pairs.append((wanted, actual))
        if actual.op is not None and not actual.is_constant:
            self.ops.add(actual.op)

    def are_alike(self, wanted: Node, actual: Node, where: str, op: Operation | None) -> bool:
        """Return whether two nodes compute the same function of their operands, and their types fit.

        Record the reason if not.

        Args:
            wanted: The node of the pattern.
            actual: The node of the program.
            where: Position of the node in the pattern, for messages, such as "operand 1 of linalg.matmul"; "" for the
                root.
            op: Operation of the program that a mismatch names.
        """
        # The functions: the keys, and the maps of operands that are broadcast or transposed.
        if wanted.key != actual.key or not self._reads_alike(wanted, actual):
            return self.fail(difference_text(wanted, actual), where, op)
        # A scalar operation has the key of the elementwise one on tensors: a pattern on tensors must not match it.
        is_root = not where
        if is_root and not isinstance(actual.type, TensorType) and isinstance(wanted.type, TensorType):
            return self.fail(f"expected {type_text(wanted.type)}, got {actual.type}", where, op)
        self.depth += 1  # restored by `_undo` if an order of operands fails
        self.steps += 1
        if self.steps > _STEPS:
            return self.fail("too many ways to order the operands of commutative operations", where, op)
        # The types of results. The key of a constant is its element with the element's type, and the type of the
        # constant itself is not compared: a scalar constant matches a splat of it.
        problem = None if wanted.is_constant else cast_problem(actual.type, wanted.type)
        return problem is None or self.fail(f"result of {wanted.label}: {problem}", where, op)

    def _reads_alike(self, wanted: Node, actual: Node) -> bool:
        """Return whether two nodes with equal keys read equal elements of their operands.

        Nodes with equal keys either both have a map, because they broadcast or transpose an operand, or none.
        """
        if wanted.index_map is None or actual.index_map is None:
            return True
        return reads_equal_elements(wanted.index_map, actual.index_map, _sizes(actual.type))

    def _reads_all(self, wanted: Node, actual: Node) -> bool:
        """Return whether a pattern node that broadcasts or transposes an operand would not change an operand of the
        type of the program's node `actual`: its map reads each element once and in order.

        An example is a broadcast along an axis of size 1. Return False for a pattern node without a map.
        """
        if wanted.index_map is None:
            return False
        sizes, indexed_loops = _sizes(actual.type), dims_in(wanted.index_map)
        repeating = [size for loop, size in enumerate(_sizes(wanted.type)) if loop not in indexed_loops]
        # A loop that the map does not index repeats elements unless its size is 1. A dynamic size in the pattern is not
        # rejected here: the comparison with the identity then requires that `actual` has the size 1.
        if any(size not in (1, DYNAMIC_INDEX) for size in repeating):
            return False
        return reads_equal_elements(wanted.index_map, AffineMap.identity(len(sizes)), sizes)

    def compare_children(self, wanted: Node, actual: Node) -> Iterator[None]:
        """Yield None for each way in which the operands of two nodes match, in both orders for a commutative operation.

        The bindings of an order that fails are undone. The caller resumes the generator if a later comparison has
        failed. Another way is tried only if the later comparison met an input that this way had bound to another value
        (`conflicts` has grown): other ways bind other values, but do not change any other reason to fail.
        """
        if len(wanted.children) != len(actual.children):
            want, got = len(wanted.children), len(actual.children)
            self.fail(f"expected {want} operand(s), got {got}", wanted.label, actual.op)
            return
        # The orders of the program's operands.
        orders = [list(actual.children)]
        if wanted.commutative and actual.children[0] is not actual.children[1]:
            orders.append(orders[0][::-1])
        names = [f"operand {i} of {wanted.label}" for i in range(len(wanted.children))]
        trail_length, pair_count, depth = len(self.trail), len(self.pairs), self.depth
        for order in orders:
            for _ in self.compare_all(wanted.children, order, names, actual.op):
                conflicts_before = self.conflicts
                yield
                if self.conflicts == conflicts_before:
                    return
            self._undo(trail_length, pair_count, depth)

    def compare_all(
        self, wanted: Sequence[SSAValue | Node], actual: Sequence[SSAValue | Node], names: Sequence[str],
        user: Operation | None,
    ) -> Iterator[None]:  # fmt: skip
        """Yield once for each way in which all nodes of the pattern match those of the program at the same positions.

        The bindings of a way are in effect until the caller requests the next one.

        Args:
            wanted: Nodes of the pattern.
            actual: Nodes of the program, as many.
            names: Position of each in the pattern, for messages, such as "operand 1 of linalg.matmul".
            user: The operation of the program that reads the nodes; None for results of the root.
        """
        return ways_of_all(len(names), lambda i: self.compare(wanted[i], actual[i], names[i], user))

    def _undo(self, trail_length: int, pair_count: int, depth: int) -> None:
        """Undo the bindings and matches that were added since `trail` and `pairs` had these lengths, and restore
        `depth`.
        """
        while len(self.trail) > trail_length:
            input_index, old_value = self.trail.pop()
            if old_value is None:
                del self.bound[input_index]
            else:
                self.bound[input_index] = old_value
        del self.pairs[pair_count:]
        self.depth = depth
        self.agreed.clear()  # some pairs may have matched only under the bindings that are undone

    def bind(self, input_index: int, actual: SSAValue | Node, where: str, user: Operation | None) -> bool:
        """Bind an input of the pattern to a value of the program; return whether that is possible.

        It is not possible in three cases, of which the reason is recorded:

        - `actual` is a node: the program computes it inside of a fused generic, as a scalar for each element. No tensor
          of the program has these elements, so that a replacement of the match could not use it.
        - The types do not fit.
        - The input is bound to another value: the pattern x * x does not match a * b.

        Args:
            input_index: Position of the input among those of the pattern.
            actual: The operand that the program has in place of the input.
            where: Position of the input in the pattern, for messages, such as "operand 1 of linalg.matmul".
            user: The operation of the program that reads `actual`; None for the root.
        """
        input = self.pattern.inputs[input_index]
        name = f"%{input.name_hint or input_index}"
        if isinstance(actual, Node):
            return self.fail(
                f"input {name} of the pattern is computed by {actual.label} inside of a fused operation, "
                "where it is no value of its own", where, actual.op or user,
            )  # fmt: skip
        # The program may have a splat of a scalar: a scalar input is bound to this scalar.
        if not isinstance(input.type, TensorType) and isinstance(actual.type, TensorType):
            actual = self._element(actual)
        problem = cast_problem(actual.type, input.type)
        # The source of a cast may have a type that fits, with static sizes.
        if problem is not None and source_of(actual) is not actual:
            actual, problem = source_of(actual), cast_problem(source_of(actual).type, input.type)
        if problem is not None:
            return self.fail(problem, where, user)
        bound_value = self.bound.get(input_index)
        # ABSENT (a string) stands for initial contents that the program lacks; a value that is read replaces it.
        if bound_value is None or isinstance(bound_value, str):
            self._set(input_index, actual)
        elif source_of(bound_value) is not source_of(actual):
            other = f"%{bound_value.name_hint}" if bound_value.name_hint else "another value"
            this = f"%{actual.name_hint}" if actual.name_hint else "a different one"
            self.conflicts += 1
            return self.fail(f"input {name} of the pattern is {other} elsewhere, here it is {this}", where, user)
        return True

    def _element(self, value: SSAValue) -> SSAValue:
        """Return the scalar of a splat tensor; the tensor itself if it is no splat.

        The tensor is also returned if the scalar is computed inside of a fused operation, and so is no value of the
        program.
        """
        node = self.view.node(value)
        scalar = node.children[0] if node.label == "splat" else value
        return value if isinstance(scalar, Node) else scalar

    def _set(self, input_index: int, value: SSAValue | str) -> None:
        """Bind the input at position `input_index` to a value or ABSENT, so that backtracking can undo it."""
        self.trail.append((input_index, self.bound.get(input_index)))
        self.bound[input_index] = value


def _sizes(type: Attribute) -> Sequence[int]:
    """Return the sizes of a tensor type, () for a scalar."""
    return type.get_shape() if isinstance(type, TensorType) else ()
