"""Which of many matchers can say yes to an operation: read off the matchers once, so that the others are not run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.preprocess import expressions
from pydispatch.compiler.preprocess.interpret import Interpreter
from pydispatch.compiler.preprocess.matchers import pattern_of, same_names
from pydispatch.compiler.preprocess.tree import Tree
from pydispatch.ir.transform_base import strings_of
from pydispatch.ir.transform_match import MatchDagOp, MatchOperationNameOp, MatchRegionsOp, MatchStructuredOp


class Index:
    """Matchers by what they ask of their root: a computation, a body, a name, or nothing that can be read off."""

    def __init__(self, run: Interpreter, matchers: Sequence[Any]) -> None:
        self.run = run
        self.tree: Tree[int] = Tree()
        self.by_body: dict[Hashable, list[int]] = {}
        self.by_name: dict[str, list[int]] = {}
        self.any: list[int] = []
        self.roots: dict[int, int] = {}
        self.scalars = False
        for number, matcher in enumerate(matchers):
            self._add(number, matcher)

    def _add(self, number: int, matcher: Any) -> None:
        roots: set[SSAValue] = set(matcher.body.block.args[:1])
        names: set[str] | None = None
        body: Hashable | None = None
        for op in matcher.body.block.ops:
            if not op.operands or op.operands[0] not in roots:
                continue
            if isinstance(op, MatchDagOp):
                pattern = pattern_of(self.run, op)
                self.tree.add(pattern.path, number)
                self.roots[number] = pattern.nodes[0].key
                self.scalars = self.scalars or not isinstance(pattern.nodes[0].type, TensorType)
                return
            if isinstance(op, MatchOperationNameOp):
                names = same_names(strings_of(op.op_names))
            elif isinstance(op, MatchStructuredOp):
                block = op.body.block
                last = block.last_op
                if last is not None:
                    roots |= {
                        r for r, v in zip(op.results, last.operands, strict=False) if v is block.args[0]
                    }
            elif isinstance(op, MatchRegionsOp) and op.body.block.first_op is not None:
                body = tuple(expressions.region_key(op.body.block.first_op, []))
        if body is not None:
            self.by_body.setdefault(body, []).append(number)
        elif names is not None:
            for name in names:
                self.by_name.setdefault(name, []).append(number)
        else:
            self.any.append(number)

    def candidates(self, op: Operation) -> list[int]:
        """The numbers of the matchers to try, in order."""
        found = set(self.any)
        found.update(self.by_name.get(op.name, ()))
        if op.regions and self.by_body:
            found.update(self.by_body.get(tuple(expressions.region_key(op, [])), ()))
        if op.results and (self.scalars or isinstance(op.results[0].type, TensorType)):
            found.update(self.tree.find(op, self.run.view))
        return sorted(found)

    def near(self, number: int, op: Operation) -> bool:
        """Whether a matcher can come near to `op`: it is like the root."""
        if number not in self.roots:
            names = {name for name, numbers in self.by_name.items() if number in numbers}
            return not names or op.name in names
        if not op.results or not (self.scalars or isinstance(op.results[0].type, TensorType)):
            return False
        return self.run.view.nodes(op)[0].key == self.roots[number]
