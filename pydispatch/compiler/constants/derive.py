"""What functions compute from constants alone becomes constants that the program derives once.

A value moves out of its function when that saves work in every call and costs little memory. Where it would cost much
(a broadcast, weights that are widened), what it is computed from is looked at instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType, UnitAttr
from xdsl.ir import Block, Operation, OpResult, Region

from pydispatch.compiler.analysis.functions import HOST_FUNCTIONS, symbol_name
from pydispatch.compiler.analysis.kinds import inputs_of
from pydispatch.compiler.constants.known import SOURCES, Known, bytes_of, known_of
from pydispatch.compiler.flatten.inline import DERIVED
from pydispatch.compiler.outline.equal import shape_of_code
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.dialects.flow import tensors
from pydispatch.ir.dialects.pyd.derived import DerivedAttr
from pydispatch.ir.dialects.util import dialect as util
from pydispatch.ir.op_info import Cost

LEAST_BYTES = 4 << 10
"""Of a result of cheap steps: a smaller one costs less to compute in the kernels that read it than to have."""

TABLE_BYTES = 1 << 20
"""Of a result of dear steps (divisions, functions) that is larger than what it is computed from, such as the sines and
cosines of positions."""


def derive_constants(module: ModuleOp) -> None:
    """Rewrites the host functions of `module`; adds a private function for what is derived together."""
    functions = [op for op in module.body.block.ops if op.name in HOST_FUNCTIONS and op.regions[0].blocks]
    made = _Made(module, {symbol_name(op) for op in functions})
    for function in functions:
        if DERIVED not in function.attributes:
            known = known_of(function)
            for values in _together(known, _chosen(known, function)):
                made.derive(known, values)


def _chosen(known: Known, function: Operation) -> list[OpResult]:
    """The values to derive: used by what does not compute on constants alone, or inputs of what is not derived."""
    found: dict[OpResult, None] = {}
    seen: set[Operation] = set()
    pending = [r for op in known.sources for r in op.results if _is_read(known, r, function)]
    while pending:
        value = pending.pop()
        op = value.op
        if op.name in SOURCES or not isinstance(value.type, TensorType):
            continue
        if _pays(known, value):
            found[value] = None
        elif op not in seen:
            seen.add(op)
            pending += [v for v in inputs_of(op) if isinstance(v, OpResult) and v.op in known.sources]
    return list(found)


def _is_read(known: Known, value: OpResult, function: Operation) -> bool:
    """Whether something other than an operation on constants alone uses a value."""
    for use in value.uses:
        user: Operation | None = use.operation
        while user is not None and user.parent_op() is not function:
            user = user.parent_op()
        if user not in known.sources:
            return True
    return False


def _pays(known: Known, value: OpResult) -> bool:
    cost, size = known.costs[value.op], bytes_of(value)
    if cost is Cost.FREE:  # views and fills
        return False
    if cost >= Cost.DIVISION and size <= TABLE_BYTES:
        return True
    return LEAST_BYTES <= size <= sum(bytes_of(op.results[0]) for op in known.sources[value.op])


def _together(known: Known, values: Iterable[OpResult]) -> list[list[OpResult]]:
    """The values in groups; those that are computed by common operations are in one."""
    groups: list[tuple[set[Operation], list[OpResult]]] = []
    for value in values:
        ops = {op for op in known.chain(value.op) if known.costs[op] is not Cost.FREE}
        joined = [g for g in groups if g[0] & ops]
        groups = [g for g in groups if not g[0] & ops]
        groups.append((ops.union(*(g[0] for g in joined)), [v for g in joined for v in g[1]] + [value]))
    return [group for _, group in groups]


@dataclass
class _Made:
    """The functions that derive constants. names: that are taken."""

    module: ModuleOp
    names: set[str]
    _known: dict[Hashable, str] = field(default_factory=dict)

    def derive(self, known: Known, values: list[OpResult]) -> None:
        """Puts constants in the place of values that one function derives."""
        name = self._function(known, values)
        chain: dict[Operation, None] = {}
        for number, value in enumerate(values):
            chain.update(dict.fromkeys(known.chain(value.op)))
            assert isinstance(value.type, TensorType)
            attribute = DerivedAttr.of(name, number, value.type)
            constant = tensors.TensorConstantOp(result_types=[value.type], properties={"value": attribute})
            set_location(constant, value.op)
            constant.results[0].name_hint = value.name_hint
            block = value.op.parent
            assert block is not None
            block.insert_op_before(constant, value.op)
            value.replace_all_uses_with(constant.results[0])
        for op in sorted(chain, key=list(known.sources).index, reverse=True):
            if not any(r.uses.get_length() for r in op.results):
                op.detach()
                op.erase()

    def _function(self, known: Known, values: list[OpResult]) -> str:
        """The name of a function whose results are the values; equal ones are made once."""
        body = Block()
        mapping: dict[object, object] = {}
        for op in dict.fromkeys(op for value in values for op in known.chain(value.op)):
            copy = op.clone(mapping)  # type: ignore[arg-type]
            for new, old in zip(copy.walk(), op.walk(), strict=True):
                set_location(new, old)
            body.add_op(copy)
        body.add_op(util.ReturnOp(operands=[[mapping[v] for v in values]]))  # type: ignore[list-item]
        function = util.FuncOp(
            properties={
                "sym_name": StringAttr("derived"), "sym_visibility": StringAttr("private"),
                "function_type": FunctionType.from_lists([], [v.type for v in values]),
            },
            attributes={DERIVED: UnitAttr()},
            regions=[Region(body)],
        )  # fmt: skip
        set_location(function, values[0].op)
        shape = shape_of_code(function)
        if shape not in self._known:
            number = len(self._known)
            while f"derived_{number}" in self.names:
                number += 1
            self._known[shape] = f"derived_{number}"
            self.names.add(self._known[shape])
            function.properties["sym_name"] = StringAttr(self._known[shape])
            self.module.body.block.add_op(function)
        return self._known[shape]
