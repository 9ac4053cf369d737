"""Conversions of collective operations whose groups have one participant.

A program runs on one device, whose replica and partition are 0. In a group of its own a collective returns its operand;
groups with other participants are errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import ONE_DEVICE, Convert, StablehloTracer
from pydispatch.frontends.stablehlo.types import shape_of
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.shapes import full

_PADDING = -1
"""Entry of replica groups in rows that are shorter than others."""


def _participants(tracer: StablehloTracer, op: Operation, name: str) -> list[int]:
    """Return the numbers of the participants that the property `name` lists, all of them 0; [] if it is missing.

    Raise CompileError for any other participant, as a program runs on one device.
    """
    listed: Any = op.properties.get(name)
    if listed is None:
        return []
    if not isinstance(listed, DenseIntOrFPElementsAttr):
        raise tracer.b.fail(f"'{op.name}': {name} must be a list of numbers, got {listed.name}")
    # Rows of replica_groups, one for each group, are padded to the length of the longest.
    numbers = [int(n) for n in listed.get_values() if n != _PADDING or name != "replica_groups"]
    if others := sorted(set(numbers) - {0}):
        named = ", ".join(map(str, others))
        raise tracer.b.fail(f"'{op.name}' is not supported with participant {named} in its {name}", ONE_DEVICE)
    return numbers


def _is_in_group(tracer: StablehloTracer, op: Operation) -> bool:
    """Return whether participant 0 is in a group.

    If the list of groups is missing or empty (a tensor with an axis of size 0), all participants form one group.
    """
    members = _participants(tracer, op, "replica_groups")
    if len(members) > 1:
        raise tracer.b.fail(f"'{op.name}' has participant 0 in its replica_groups {len(members)} times, expected once")
    listed: Any = op.properties.get("replica_groups")
    return bool(members) or listed is None or 0 in listed.type.get_shape()


def _unchanged(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> list[Tensor]:
    """Return the operands, converted to the element types of the results. Raise CompileError if the shapes differ."""
    if len(operands) != len(op.results):
        raise tracer.b.fail(f"'{op.name}' of {len(operands)} tensor(s) has {len(op.results)} result(s)")
    results = []
    for index, (x, result) in enumerate(zip(operands, op.results, strict=True)):
        stated = shape_of(result.type)
        if len(stated) != x.rank or any(n is not None and n != size for n, size in zip(stated, x.shape, strict=True)):
            raise tracer.b.fail(f"'{op.name}' of one participant returns the shape of its operand {x}, "
                                f"but its result is {result.type}")  # fmt: skip
        results.append(ew.convert(tracer.b, x, tracer.dtype(op, index)))
    return results


def _in_required_group(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> list[Tensor]:
    """Convert a collective whose groups must list every participant: return its operands unchanged.

    Raise CompileError if no group has participant 0, which runs the program.
    """
    if not _is_in_group(tracer, op):
        raise tracer.b.fail(f"'{op.name}' has replica_groups without participant 0, which runs the program")
    return _unchanged(tracer, op, *operands)


def _all_to_all(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> list[Tensor]:
    """Convert an exchange of slices between the participants of a group: one slice, as a group has one participant."""
    if (count := tracer.integer(op, "split_count")) != 1:
        raise tracer.b.fail(f"'{op.name}' splits into {count} parts, expected 1 for a group of one participant")
    return _in_required_group(tracer, op, *operands)


def _or_zeros(tracer: StablehloTracer, op: Operation, operands: Sequence[Tensor], is_sent: bool) -> list[Tensor]:
    """Return the tensors that participant 0, which runs the program, receives, in the types of the results.

    These are the operands if `is_sent`: the participant sends them to itself. Else nothing is sent to it, and it gets
    zeros.
    """
    received = operands if is_sent else [full(tracer.b, 0, x.shape, x.dtype) for x in operands]
    return _unchanged(tracer, op, *received)


def _from_root(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> list[Tensor]:
    """Convert a collective of a group with a root. Participant 0 is the only one, hence the root: it gets its operands
    if it is in a group, else zeros."""
    if "has_dynamic_root" in op.properties:
        operands = operands[:-1]  # the last operand selects the root
    return _or_zeros(tracer, op, operands, _is_in_group(tracer, op))


def _permute(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> list[Tensor]:
    """Convert a permutation: participant 0 gets its operands if it sends them to itself, else zeros."""
    return _or_zeros(tracer, op, operands, bool(_participants(tracer, op, "source_target_pairs")))


ROWS: dict[str, Convert] = {
    "stablehlo.all_gather": _in_required_group,
    "stablehlo.all_reduce": _in_required_group,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_broadcast": _from_root,
    "stablehlo.collective_permute": _permute,
    "stablehlo.collective_reduce": _from_root,
    "stablehlo.reduce_scatter": _in_required_group,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
