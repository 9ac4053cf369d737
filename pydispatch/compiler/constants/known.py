"""Analysis of host functions: operations that compute on constants alone, and the constants that each depends on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator

from pydispatch.compiler.analysis.kinds import CONSTANTS, inputs_of, is_fill, is_view
from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.formats.program.opcodes import buffer_bytes
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.values import shape_of

EVALUABLE_PREFIXES = ("arith.", "math.", "linalg.", "tensor.", "flow.tensor.reshape", "flow.tensor.bitcast")
"""Prefixes of operations that may be evaluated once, before the first call. Control flow such as `scf.if` is not among
them."""


@dataclass
class KnownConstants:
    """Analysis result: the operations of one host function that depend on constants alone.

    A pass moves these operations to functions that compute derived constants once, when the program is loaded. Example:
    with %w a large constant and %x an argument,

        %t = transpose %w        // recorded: `sources` is {the constant %w}, `costs` is CHEAP
        %y = matmul %x, %t       // not recorded

    `known_of` creates it and calls `add` for the operations of a function in order.

    Attributes:
        sources: Operation → the operations in `CONSTANTS` that it depends on. Scalars, splats and small constants are
            left out, since kernels contain them. The set of an operation on such constants alone is empty.
        costs: Operation → cost per element of the most expensive operation among those in its body and those that it
            depends on. An operation counts as CHEAP itself; a constant, view or fill as FREE.
    """

    sources: dict[Operation, frozenset[Operation]] = field(default_factory=dict)
    costs: dict[Operation, Cost] = field(default_factory=dict)

    def is_known(self, value: SSAValue) -> bool:
        """Return whether a value depends on constants alone."""
        return isinstance(value, OpResult) and value.op in self.sources

    def add(self, op: Operation) -> None:
        """Record an operation if it depends on constants alone and may be executed before the first call.

        All values that it and its regions read from outside must be known, so the operations that compute them must be
        added first. Its results must be tensors of static shape, or scalars. It must be of EVALUABLE_PREFIXES, and
        neither have side effects nor trap.
        """
        if op.name in CONSTANTS:
            # Kernels embed a fill, such as a splat, so that its users depend on no stored constant.
            self.sources[op] = frozenset() if is_fill(op) else frozenset([op])
            self.costs[op] = Cost.FREE
            return
        # Operands are checked before the regions of an operation are walked, which takes longer.
        if not op.results or not all(self.is_known(v) for v in op.operands):
            return
        inner = [i for region in op.regions for i in walk(region)]
        nested = {op, *inner}
        inputs = [v for v in inputs_of(op) if not _is_inside(v, nested)]  # operands, and values that regions read
        if not all(self.is_known(v) for v in inputs) or not _is_evaluable(op, inner):
            return
        producers = [v.op for v in inputs if isinstance(v, OpResult)]
        self.sources[op] = frozenset[Operation]().union(*(self.sources[producer] for producer in producers))
        # The cost of the most expensive one of: the operation itself, those in its body, and its producers.
        own_cost = Cost.FREE if is_view(op) or is_fill(op) else Cost.CHEAP
        inner_costs = [info_of(i).cost for i in inner]
        self.costs[op] = max([own_cost, *inner_costs, *(self.costs[producer] for producer in producers)])

    def chain(self, op: Operation) -> list[Operation]:
        """Return the known operations that `op` depends on, and `op` itself, producers first."""
        order: dict[Operation, None] = {}
        stack = [(op, False)]  # (operation, whether its producers were pushed before and are in `order` now)
        while stack:
            top, is_ready = stack.pop()
            if top in order:
                continue
            if is_ready:
                order[top] = None
                continue
            stack.append((top, True))
            stack += [(v.op, False) for v in inputs_of(top) if isinstance(v, OpResult) and v.op in self.sources]
        return list(order)


def known_of(function: Operation) -> KnownConstants:
    """Return the operations of a host function that depend on constants alone."""
    known = KnownConstants()
    for block in function.regions[0].blocks:
        for op in block.ops:
            known.add(op)
    return known


def _is_evaluable(op: Operation, inner: Sequence[Operation]) -> bool:
    """Return whether an operation may be computed once, before the first call, apart from what its inputs are.

    inner: the operations in its regions.
    """
    if not op.name.startswith(EVALUABLE_PREFIXES):
        return False
    has_evaluable_results = all(_is_static_tensor_or_scalar(r) for r in op.results)
    return has_evaluable_results and all(_is_speculatable(i) for i in (op, *inner))


def _is_speculatable(op: Operation) -> bool:
    """Return whether an operation may be executed before the first call, although a call might never execute it.

    It has no side effects and does not trap, or it is the terminator of a body, such as a yield.
    """
    info = info_of(op)
    return (info.is_pure and not info.traps) or op.has_trait(IsTerminator)


def _is_inside(value: SSAValue, nested: set[Operation]) -> bool:
    """Return whether a value is defined by an operation of `nested`, or is an argument of a block inside of one."""
    owner = value.owner if isinstance(value, OpResult) else value.owner.parent_op()
    return owner in nested


def _is_static_tensor_or_scalar(value: SSAValue) -> bool:
    """Return whether a result has a type that can be evaluated before the first call.

    It is a tensor of static shape, or a scalar that is not extracted from a tensor. The tensor may be a derived
    constant, so that its elements are only known when the program is loaded.
    """
    if isinstance(value.type, TensorType):
        return value.type.has_static_shape()
    return isinstance(value, OpResult) and value.op.name != "tensor.extract"


def bytes_of(value: SSAValue) -> int:
    """Return the size in bytes of a tensor of static shape."""
    assert isinstance(value.type, TensorType)
    return buffer_bytes(math.prod(shape_of(value)), dtype_of(value.type.element_type))
