"""atom and red: one thread after the other, in the order of their numbers, so that results are the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Instruction, Operand, Vector
from pydispatch.runtime.simulators.ptx.addresses import finder
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import UNSIGNED, dtype_of
from pydispatch.runtime.simulators.ptx.instructions.small import bits16, from_bf16, joined, parts_of
from pydispatch.runtime.simulators.ptx.registry import handles

_WORDS = {
    "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "cluster", "global", "shared", "shared::cta",
    "noftz",
}  # fmt: skip
_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "min": np.minimum,
    "max": np.maximum,
}  # fmt: skip
Update = Callable[[Any, list[Any]], Any]
"""The new values of elements from their old ones and the operands; each element occurs once."""


def _half_add(type_: str) -> Update:
    brain, packed = type_.startswith("bf16"), type_.endswith("x2")

    def one(old: Any, value: Any) -> Any:
        if brain:
            return bits16(from_bf16(old) + from_bf16(value), "bf16")
        total = old.view(np.float16).astype(np.float32) + value.view(np.float16).astype(np.float32)
        return bits16(total.astype(np.float16), "f16")

    def update(old: Any, operands: list[Any]) -> Any:
        if not packed:
            return one(old, operands[0])
        pairs = zip(parts_of(old, "f16x2"), parts_of(operands[0], "f16x2"), strict=True)
        return joined(*(one(a.view(np.uint16), c.view(np.uint16)) for a, c in pairs))

    return update


def _update(builder: FunctionBuilder, instruction: Instruction, operation: str, type_: str) -> Update:
    if operation == "exch":
        return lambda old, operands: operands[0]
    if operation == "cas":
        return lambda old, operands: np.where(old == operands[0], operands[1], old)
    if operation == "inc":
        return lambda old, operands: np.where(old >= operands[0], old.dtype.type(0), old + old.dtype.type(1))
    if operation == "dec":
        return lambda old, operands: np.where((old == 0) | (old > operands[0]), operands[0], old - old.dtype.type(1))
    if type_ in ("f16", "bf16", "f16x2", "bf16x2"):
        if operation != "add":
            builder.fail(instruction)
        return _half_add(type_)
    ufunc = _UFUNCS[operation]
    return lambda old, operands: ufunc(old, operands[0])


@handles("atom", "red")
def atomic(builder: FunctionBuilder, instruction: Instruction) -> Step:
    operation = next((m for m in instruction.modifiers if m in _UFUNCS or m in ("exch", "cas", "inc", "dec")), "")
    rest = [m for m in instruction.modifiers[:-1] if m != operation and m not in _WORDS and not m.startswith("L")]
    vector = [m for m in rest if m in ("v2", "v4", "v8")]
    type_ = instruction.modifiers[-1]
    if not operation or len(rest) > len(vector) or type_ not in SIZES or SIZES[type_] > 8:
        builder.fail(instruction)
    dtype = dtype_of(type_)
    if operation in ("exch", "cas"):
        dtype = UNSIGNED[dtype.itemsize]
    update = _update(builder, instruction, operation, type_)
    plain = _UFUNCS.get(operation) if not type_.startswith(("f16", "bf16")) else None
    operands = list(builder.operands(instruction, 2, 5))
    result = operands.pop(0) if instruction.opcode == "atom" else None
    address = operands.pop(0)
    if vector:
        return _vector(builder, instruction, result, address, operands[0], dtype, update, plain)
    values = operands[: 2 if operation == "cas" else 1]
    if len(values) < (2 if operation == "cas" else 1):
        builder.fail(instruction, "has too few operands")
    sources = [builder.source(instruction, one, dtype) for one in values]
    target = builder.target(instruction, result, dtype) if instruction.opcode == "atom" else -1
    find = finder(builder, instruction, address, dtype.itemsize, write=True, atomic=True)
    shift = dtype.itemsize.bit_length() - 1
    wanted = instruction.opcode == "atom" and result is not None

    def step(regs: list[Any]) -> None:
        n = regs[0].n
        operands = [np.broadcast_to(regs[s], n) for s in sources]
        for positions, store, at in find(regs):
            mine = operands if positions is None else [v[positions] for v in operands]
            view, index = store.view(dtype), at >> shift
            if plain is not None and not wanted:
                plain.at(view, index, mine[0])
                continue
            old = in_order(view, index, mine, update, plain)
            if wanted:
                regs[target][... if positions is None else positions] = old

    return step


def _vector(
    builder: FunctionBuilder, instruction: Instruction, result: Operand | None, address: Operand | None,
    values: Operand | None, dtype: np.dtype[Any], update: Update, plain: np.ufunc | None,
) -> Step:  # fmt: skip
    """red.global.add.v4.f32 [a], {…}: element by element."""
    if not isinstance(values, Vector):
        builder.fail(instruction, "has no {…} of values")
    sources = [builder.source(instruction, one, dtype) for one in values.items]
    targets = [builder.target(instruction, one, dtype) for one in result.items] if isinstance(result, Vector) else []
    find = finder(builder, instruction, address, dtype.itemsize * len(sources), write=True, atomic=True)
    shift = dtype.itemsize.bit_length() - 1

    def step(regs: list[Any]) -> None:
        n = regs[0].n
        for positions, store, at in find(regs):
            for k, source in enumerate(sources):
                value = np.broadcast_to(regs[source], n)
                mine = value if positions is None else value[positions]
                old = in_order(store.view(dtype), (at >> shift) + k, [mine], update, plain)
                if targets:
                    regs[targets[k]][... if positions is None else positions] = old

    return step


def in_order(view: Any, index: Any, operands: list[Any], update: Update, plain: np.ufunc | None) -> Any:
    """Return the old values seen by threads that update the elements view[index] one after the other."""
    order = np.argsort(index, kind="stable")
    places = index[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    counts = np.diff(np.append(starts, places.size))
    old = np.empty(index.size, view.dtype)
    most = int(counts.max())
    if plain is not None and most > 1 and starts.size < most:
        # Few elements, each with many threads: each thread sees a running total.
        for start, count in zip(starts, counts, strict=True):
            mine = order[start : start + count]
            line = np.empty(count + 1, view.dtype)
            line[0] = view[places[start]]
            line[1:] = operands[0][mine]
            totals = plain.accumulate(line)
            old[mine] = totals[:-1]
            view[places[start]] = totals[-1]
        return old
    for rank in range(most):
        chosen = order[starts[counts > rank] + rank]
        at = index[chosen]
        before = view[at]
        old[chosen] = before
        view[at] = update(before, [v[chosen] for v in operands])
    return old
