"""Index of matchers by what they require of an operation, which avoids running matchers that cannot match.

A matcher is a named sequence of a transform spec that accepts or rejects an operation of the program, its root.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.match.graph import expressions
from pydispatch.compiler.match.graph.expressions import ValueNumber
from pydispatch.compiler.match.graph.tree import Tree
from pydispatch.compiler.match.transform.interpret import Interpreter
from pydispatch.compiler.match.transform.matchers import pattern_of, with_function_aliases
from pydispatch.ir.dialects.transform.matchers import (
    MatchDagOp,
    MatchOperationNameOp,
    MatchRegionsOp,
    MatchStructuredOp,
)
from pydispatch.ir.dialects.transform.syntax import strings_of

# Operations that read only what `kind_of` compares: the name, types, properties and regions of the root. If a matcher
# consists of them, one rejection holds for all operations of that kind.
_LOCAL = frozenset(
    f"transform.{name}"
    for name in (
        "match.operation_name", "match.structured", "match.structured.yield", "match.structured.rank",
        "match.structured.num_inputs", "match.structured.num_inits", "match.structured.elemental_bitwidth",
        "match.structured.dim", "match.structured.body", "match.param.cmpi", "param.constant", "get_operand",
        "get_result", "iree.match.cast_compatible_type", "iree.match.regions", "yield",
    )
)  # fmt: skip


def _is_local(matcher: Any) -> bool:
    """Return whether a matcher inspects only its root, its only parameter, and no operations around it."""
    return len(matcher.body.block.args) == 1 and all(op.name in _LOCAL for op in _steps(matcher))


def _steps(matcher: Any) -> Iterator[Operation]:
    """Yield the operations that a matcher executes, with those in regions.

    The region of an `iree.match.regions` is left out: it is not executed, but compared with that of an operation.
    """
    pending = list(matcher.body.block.ops)
    while pending:
        op = pending.pop()
        yield op
        if not isinstance(op, MatchRegionsOp):
            pending += [inner for region in op.regions for block in region.blocks for inner in block.ops]


def kind_of(op: Operation) -> Hashable:
    """Return a key that operations share if they differ only in operands, position and discardable attributes."""
    regions = tuple(expressions.region_key(op)) if op.regions else ()
    types = (tuple(v.type for v in op.operands), tuple(r.type for r in op.results))
    segments = op.properties.get("operandSegmentSizes")
    return (op.name, types, segments, expressions.properties_key(op), regions)


class MatcherIndex:
    """Index of matchers by what they require of their root, the operation at which they begin.

    They require a computation (an operation with its operands), a body, a name, or nothing that is known. Matchers are
    identified by their ordinal in the list `matchers`. For each operation, a caller gets its `candidates`, tries them
    in this order, and calls `record_rejection` for each that rejects the operation.

    Args:
        interpreter: The interpreter.
        matchers: The matchers.
    """

    def __init__(self, interpreter: Interpreter, matchers: Sequence[Any]) -> None:
        """Enter each matcher into one of four tables, by what it requires of its root."""
        self.interpreter = interpreter
        # The tables, with the ordinals of matchers. A matcher is in one of them.
        # Matchers of a pattern such as add(mul(%x, %y), %z): keys of its operations, in pre-order → ordinals.
        self.tree: Tree[int] = Tree()
        # Matchers of a body, such as that of a generic that multiplies: key of the root's region → ordinals.
        self.by_body: dict[Hashable, list[int]] = {}
        self.by_name: dict[str, list[int]] = {}  # name of the root, such as "linalg.fill" → ordinals
        self.of_any_root: list[int] = []  # ordinals of matchers that require nothing of the root
        # Matcher in `tree` → key of its root without the operands. An operation with this key that the matcher rejects
        # is a near miss, which messages explain; `may_match_at` compares the keys.
        self.roots: dict[int, ValueNumber] = {}
        self.has_scalar_roots = False  # whether `tree` is also searched for operations whose result is no tensor
        # Local matchers look at the root alone: one rejection holds for all operations of the kind.
        self.local = {ordinal for ordinal, matcher in enumerate(matchers) if _is_local(matcher)}
        self.rejections: dict[Hashable, set[int]] = {}  # `kind_of` an operation → local matchers that rejected one
        self.matcher_count = len(matchers)
        for ordinal, matcher in enumerate(matchers):
            self._add(ordinal, matcher)

    def _add(self, ordinal: int, matcher: Any) -> None:
        """Insert a matcher under the strictest requirement that its operations state for the root.

        A matcher is a named sequence of the spec, and the root the operation of the program that it is run on;
        `ordinal` is the position of the matcher. From the strictest to the weakest: a computation (DAG), the body of an
        operation, operation names, none. A matcher with `transform.match.operation_name %root ["linalg.fill"]` and no
        stricter operation is inserted in `by_name` under "linalg.fill".
        """
        roots: set[SSAValue] = set(matcher.body.block.args[:1])  # values of the matcher that are its root
        names: set[str] | None = None  # names that the root may have; None for any
        body: Hashable | None = None  # key of the root's body; None for any
        for op in matcher.body.block.ops:
            if not op.operands or op.operands[0] not in roots:
                continue  # it inspects no operation, or another one than the root
            if isinstance(op, MatchDagOp):
                self._add_computation(ordinal, matcher, op)
                return  # a computation is the strictest requirement
            if isinstance(op, MatchOperationNameOp):
                names = with_function_aliases(strings_of(op.op_names))
            elif isinstance(op, MatchStructuredOp):
                roots |= _results_that_are_the_root(op)
            elif isinstance(op, MatchRegionsOp) and op.body.block.first_op is not None:
                body = tuple(expressions.region_key(op.body.block.first_op))
        # No computation: the body, the names or nothing.
        if body is not None:
            self.by_body.setdefault(body, []).append(ordinal)
        elif names is not None:
            for name in names:
                self.by_name.setdefault(name, []).append(ordinal)
        else:
            self.of_any_root.append(ordinal)

    def _add_computation(self, ordinal: int, matcher: Any, op: MatchDagOp) -> None:
        """Insert a matcher whose operation `op` requires a computation that ends in the root."""
        pattern = pattern_of(self.interpreter, op)
        root_node = pattern.nodes[0]
        self.tree.add(pattern.path, ordinal)
        self.interpreter.report.declare(f"@{matcher.sym_name.data}", root_node.label)
        self.roots[ordinal] = root_node.key
        # `_may_be_root` then also accepts operations whose result is a scalar.
        self.has_scalar_roots |= not isinstance(root_node.type, TensorType)

    def candidates(self, op: Operation) -> list[int]:
        """Return the ordinals of the matchers to try, in order, without those that rejected an operation of the same
        kind.

        Only rejections by local matchers, which inspect the root alone, hold for all operations of a kind.
        """
        if not self.local:
            return self._candidates(op)
        rejected = self.rejections.setdefault(kind_of(op), set())  # ordinals of local matchers
        if len(rejected) == self.matcher_count:
            return []
        return [ordinal for ordinal in self._candidates(op) if ordinal not in rejected]

    def record_rejection(self, ordinal: int, op: Operation) -> None:
        """Record that a matcher rejected an operation, so that a local one is not run on others of the same kind."""
        if ordinal in self.local:
            self.rejections.setdefault(kind_of(op), set()).add(ordinal)

    def _candidates(self, op: Operation) -> list[int]:
        """Return the ordinals of the matchers whose requirement `op` meets as their root, in order."""
        candidates = set(self.of_any_root)
        candidates.update(self.by_name.get(op.name, ()))
        if op.regions and self.by_body:
            candidates.update(self.by_body.get(tuple(expressions.region_key(op)), ()))
        if self._may_be_root(op):
            candidates.update(self.tree.find(op, self.interpreter.view))  # view: the program as data-flow nodes
        return sorted(candidates)

    def _may_be_root(self, op: Operation) -> bool:
        """Return whether a pattern may have a root with results like those of `op`: tensors, or scalars if a pattern
        has such a root.
        """
        return bool(op.results) and (self.has_scalar_roots or isinstance(op.results[0].type, TensorType))

    def may_match_at(self, op: Operation, ordinal: int) -> bool:
        """Return whether `op` meets the requirement of matcher number `ordinal` for its root, whatever the operands
        are.
        """
        if ordinal not in self.roots:  # no computation is required: only names or a body, which is not checked here
            names = {name for name, ordinals in self.by_name.items() if ordinal in ordinals}
            return not names or op.name in names
        if not self._may_be_root(op):
            return False
        node = self.interpreter.view.nodes(op)[0]
        return node.key == self.roots[ordinal]


def _results_that_are_the_root(op: MatchStructuredOp) -> set[SSAValue]:
    """Return the results for which the body of `op` yields its argument, the root."""
    block = op.body.block
    yielded = block.last_op.operands if block.last_op is not None else ()
    return {result for result, value in zip(op.results, yielded, strict=False) if value is block.args[0]}
