"""Inference of a kernel's grid from how it uses ids: the indices of its invocations and workgroups in the grid."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydispatch.errors import CompileError
from pydispatch.kernels.entities import Entity, Literal, MemoryRef, Scalar
from pydispatch.kernels.races import RaceInstrumentation
from pydispatch.kernels.source import Source

DimensionSize = Scalar | Literal
"""Size of a dimension of a view: dynamic or static."""
GUARDS = {"<": (0, 1), ">=": (0, 1), ">": (1, 0), "<=": (1, 0)}
"""Comparison that bounds an id from above → positions of the id and of the bound among its operands.

`id < n` guards statements, `id >= n` an early return; `n > id` and `n <= id` are the same with exchanged operands."""


@dataclass
class Evidence:
    """Sizes from which the extent of a kernel's grid along one axis is inferred, for global_id or for group_id.

    After `i = global_id(0)` and `if i < x.shape[0]: y[i] = x[i]`, with x of size n and y of size m, `compared` is
    {n}, `stored` {m} and `read` {n, m}. The id is then bounded by m: the grid covers the elements of y.

    Attributes:
        error: Error to raise if the id has no bound.
        stored: Sizes of the view dimensions that the id indexes in stores.
        read: Sizes of the view dimensions that the id indexes in any access, stores included.
        compared: Sizes that the id is compared with, as in `id < size`.
    """

    error: CompileError
    stored: set[DimensionSize] = field(default_factory=set)
    read: set[DimensionSize] = field(default_factory=set)
    compared: set[DimensionSize] = field(default_factory=set)

    def bound(self) -> DimensionSize | None:
        """Return the size that bounds the id, from the first set that has exactly one; None if no set has.

        A set of several sizes does not say which of them the grid covers. Stored sizes precede compared ones: an id
        beyond the end of a view that it indexes in a store is not valid, whatever it is compared with.
        """
        for sizes in (self.stored, self.compared, self.read):
            if len(sizes) == 1:
                return next(iter(sizes))
        return None


class Coverage(RaceInstrumentation):
    """Part of the code generators of kernels: it records which sizes bound global_id and group_id, to infer the grid.

    While the kernel is emitted, `record_position` is called for each use of an id, and the other methods for each
    subscript and comparison, in which a size may bound the id. Afterwards `workgroups` returns the size that the grid
    covers along each axis.
    """

    def __init__(self, source: Source, workgroup: Sequence[int]) -> None:
        """Begin with no bounds recorded for the function `source`. workgroup: invocations along each axis."""
        super().__init__(source, workgroup)
        self._axis_of: dict[str, tuple[str, int]] = {}  # SSA name of an id → ("global" or "group", axis)
        self._evidence: dict[tuple[str, int], Evidence] = {}  # ("global" or "group", axis) → its bounds

    def record_position(self, node: ast.AST, kind: str, axis: int, index: Entity) -> Entity:
        """Record an id of the invocation or of its workgroup as a value that sizes may bound, and return it.

        `kind` is "global", "local", "group", "size" or "grid"; only "global" and "group" are recorded. `index` is the
        value. Its sizes are collected in an `Evidence`, which has the error for an id that no size bounds.
        """
        if isinstance(index, Scalar) and kind in ("global", "group"):
            if axis >= len(self.workgroup):  # a workgroup is one invocation there, so that both ids are equal
                kind = "group"
            self._axis_of[index.name] = kind, axis
            if (kind, axis) not in self._evidence:
                self._evidence[kind, axis] = Evidence(self._unbounded_error(node, kind, axis))
        return index

    def _unbounded_error(self, node: ast.AST, kind: str, axis: int) -> CompileError:
        """Return the error for an id without a bound. kind: "global" or "group", as in global_id and group_id."""
        invocations = f", which has {self.workgroup[axis]} invocations along this axis" if kind == "global" else ""
        names = ", ".join(self.source.parameter_names)
        return self.error(
            node,
            f"kernel '{self.source.name}' has no grid=, and how many workgroups it needs along axis {axis} does not "
            f"follow from pydispatch.{kind}_id({axis}): no dimension of one size is indexed by it alone, or compared "
            "with it",
            f"state the number of workgroups{invocations}: "
            f"@pydispatch.kernel(workgroup={self.workgroup}, grid=lambda {names}: ...), "
            f"or launch {self.source.name}[...](...)",
        )

    def _record(self, kind: str, value: Entity, size: Entity) -> None:
        """Record a size that bounds a value, if the value is an id.

        kind: the attribute of `Evidence` that gets the size: "stored", "read" or "compared".
        """
        key = self._axis_of.get(value.name) if isinstance(value, Scalar) else None
        if key is not None and isinstance(size, (Scalar, Literal)):
            getattr(self._evidence[key], kind).add(size)

    def indices(self, node: ast.expr, memory: MemoryRef, entity: Entity | None = None) -> str:
        """Return the indices of an element as MLIR text, and record the sizes that bound ids among them."""
        indices = super().indices(node, memory, entity)
        self._record_indices("read", memory, indices)  # `on_access` records those of a store as "stored" too
        return indices

    def on_access(self, node: ast.AST, memory: MemoryRef, indices: str, is_write: bool) -> None:
        """Record an access. In a store, the size of a dimension bounds the id that indexes it: the grid covers it.

        indices: SSA names, such as "%3, %zero".
        """
        if is_write:
            self._record_indices("stored", memory, indices)
        super().on_access(node, memory, indices, is_write)

    def _record_indices(self, kind: str, memory: MemoryRef, indices: str) -> None:
        """Record for each invocation or workgroup id among the indices of a view the size of its dimension.

        `kind` is the set of `Evidence` that gets the sizes: "stored" or "read".
        """
        is_view = bool(memory.parameter)
        names = indices.split(", ") if indices else []  # a view of rank 0 has none
        for name, size in zip(names, memory.shape, strict=True):
            if is_view:
                self._record(kind, Scalar(name, "index"), size)

    def on_comparison(self, nodes: Sequence[ast.AST], symbol: str, values: Sequence[Scalar | Literal]) -> None:
        """Record the bound of an id that is compared with a size. `symbol` is the operator, such as "<"."""
        if symbol not in GUARDS:
            return
        id_operand, bound_operand = GUARDS[symbol]
        if is_size(nodes[bound_operand], values[bound_operand]):
            self._record("compared", values[id_operand], values[bound_operand])

    def workgroups(self) -> list[tuple[DimensionSize, int]]:
        """Return for axes 0 to 2 a size, and how many of its elements one workgroup covers; (1, 1) for unused axes.

        Raises:
            CompileError: An id along an axis has no bound, so the kernel needs `grid=`.
        """
        grid: list[tuple[DimensionSize, int]] = [(Literal(1), 1)] * 3
        for axis in range(3):
            used = {kind: self._evidence[kind, axis] for kind in ("global", "group") if (kind, axis) in self._evidence}
            bounds = [(kind, bound) for kind, evidence in used.items() if (bound := evidence.bound()) is not None]
            if len(bounds) == 1:
                kind, size = bounds[0]
                invocations = self.workgroup[axis] if kind == "global" else 1  # a group_id counts workgroups
                grid[axis] = size, invocations
                continue
            # Without a bound, or with two, which may contradict each other, the grid is unknown unless no id is used.
            kinds_in_use = [kind for kind in used if self._is_used(kind, axis)]
            if kinds_in_use:
                raise used[kinds_in_use[0]].error
        return grid

    def _is_used(self, kind: str, axis: int) -> bool:
        """Return whether an operation has an invocation or workgroup number along the axis as an operand."""
        # SSA names of the ids; an id that occurs in no line but its definition is unused.
        names = [re.escape(name) for name, key in self._axis_of.items() if key == (kind, axis)]
        operand = re.compile(rf"(?:{'|'.join(names)})\b(?! = )")  # not its definition, `%name = ...`
        return any(operand.search(line) for line in self.writer.lines)


def is_size(node: ast.AST, value: Scalar | Literal) -> bool:
    """Return whether the operand of a comparison is the size of a view: a dynamic size, `%n_...`, or `x.shape[i]`."""
    if isinstance(value, Scalar):
        return value.name.startswith("%n_")
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
