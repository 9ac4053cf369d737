"""Custom calls and composites: the user's kernels by their names, and what JAX itself calls so."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

from pydispatch.frontends.graph.dtypes import of_element
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.custom import custom_call
from pydispatch.frontends.stablehlo.tracer import Convert, Results, Tracer, callee_of
from pydispatch.frontends.stablehlo.types import dtype_of, shape_of
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.stablehlo.calls import CompositeOp, CustomCallOp

IDENTITIES = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"})
"""Targets that say where data lies: all of it lies on one device."""


def _numbers(t: Tracer, config: Attribute | None) -> dict[str, Tensor]:
    """The attributes that are numbers; others are not passed to kernels."""
    found: dict[str, Tensor] = {}
    values: Mapping[str, Attribute] = config.data if isinstance(config, DictionaryAttr) else {}
    for name, value in values.items():
        if isinstance(value, FloatAttr):
            found[name] = t.b.constant(value.value.data, of_element(value.type))
        elif isinstance(value, IntegerAttr) and isinstance(value.type, IntegerType):
            found[name] = t.b.constant(bool(value.value.data) if value.type.width.data == 1 else value.value.data,
                                       of_element(value.type))  # fmt: skip
    return found


def _kernel(t: Tracer, op: Operation, name: str, operands: list[Tensor], config: Attribute | None) -> Results:
    place = location_of(op)
    results = []
    for result in op.results:
        shape = shape_of(result.type)
        if None in shape:
            like = next((x.shape for x in operands if x.rank == len(shape)), None)
            if like is None:
                raise t.b.fail(f"custom call '{name}': the sizes of its result {result.type} are not known")
            shape = [m if n is None else n for n, m in zip(shape, like, strict=True)]  # type: ignore[misc]
        results.append((dtype_of(result.type, place), tuple(n for n in shape if n is not None)))
    return custom_call(t.b, name, operands, results, _numbers(t, config))


def _custom_call(t: Tracer, op: Operation, operands: list[Tensor]) -> Results:
    assert isinstance(op, CustomCallOp)
    name = op.call_target_name.data
    if name in IDENTITIES:
        return operands[:1]
    if name == "shape_assertion" and not op.results:
        condition = operands[0].numbers if operands else None
        if condition is not None and not condition.all():
            raise t.b.fail("the sizes of the arguments are not what the program was exported for")
        return []
    return _kernel(t, op, name, operands, op.attributes.get("mhlo.backend_config", op.backend_config))


def _composite(t: Tracer, op: Operation, operands: list[Tensor]) -> Results:
    """What its function computes; a kernel of its name comes first."""
    assert isinstance(op, CompositeOp)
    name = op.name_.data
    if name in t.options.kernels:
        return _kernel(t, op, name, operands, op.composite_attributes)
    return t.call(op, callee_of(op), operands)


ROWS: dict[str, Convert] = {"stablehlo.custom_call": _custom_call, "stablehlo.composite": _composite}
