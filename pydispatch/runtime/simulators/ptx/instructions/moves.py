"""mov with packing, cvta, isspacep, activemask, and clocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Instruction, Operand, Register, Vector
from pydispatch.runtime.simulators.ptx.builder import Builder, Step
from pydispatch.runtime.simulators.ptx.elements import BOOL, UNSIGNED, dtype_of, is_type
from pydispatch.runtime.simulators.ptx.memory import LOCAL, PARAM, SHARED, WINDOW
from pydispatch.runtime.simulators.ptx.registry import handles
from pydispatch.runtime.simulators.ptx.specials import CLOCKS, clock, is_special


@handles("mov")
def mov(b: Builder, i: Instruction) -> Step:
    """mov.b64 %rd, {%r1, %r2} and back too."""
    if len(i.modifiers) != 1 or not is_type(i.modifiers[0]):
        b.fail(i)
    d, x = b.operands(i, 2)
    dtype = BOOL if i.modifiers[0] == "pred" else UNSIGNED[SIZES[i.modifiers[0]]]
    if isinstance(d, Vector) or isinstance(x, Vector):
        return _pack(b, i, d, x, dtype)
    if isinstance(x, Register) and b.storage(x.name) is None:
        return _special(b, i, d, x.name)
    s, target = b.source(i, x, dtype), b.target(i, d, dtype)

    def step(regs: list[Any]) -> None:
        regs[target][...] = regs[s]

    return step


def _special(b: Builder, i: Instruction, d: Operand | None, name: str) -> Step:
    if not is_special(name):
        b.fail(i, f"reads {name}, which is not declared")
    size = b.register_size(d) or 4
    target = b.target(i, d, UNSIGNED[size])
    if name in CLOCKS:

        def tick(regs: list[Any]) -> None:
            regs[target][...] = clock(name)

        return tick
    s = b.special(name, UNSIGNED[size])

    def step(regs: list[Any]) -> None:
        regs[target][...] = regs[s]

    return step


def _pack(b: Builder, i: Instruction, d: Operand | None, x: Operand | None, dtype: np.dtype[Any]) -> Step:
    if isinstance(x, Vector) and not isinstance(d, Vector):
        count = len(x.items)
        part = UNSIGNED.get(dtype.itemsize // count)
        if part is None or dtype.itemsize % count:
            b.fail(i)
        sources = [b.source(i, one, part) for one in x.items]
        target = b.target(i, d, dtype)

        def join(regs: list[Any]) -> None:
            whole = np.empty((regs[0].n, count), part)
            for k, source in enumerate(sources):
                whole[:, k] = regs[source]
            regs[target][...] = whole.view(dtype)[:, 0]

        return join
    if not isinstance(d, Vector) or isinstance(x, Vector):
        b.fail(i)
    count = len(d.items)
    part = UNSIGNED.get(dtype.itemsize // count)
    if part is None or dtype.itemsize % count:
        b.fail(i)
    piece = part
    source = b.source(i, x, dtype)
    targets = [(k, b.target(i, one, piece)) for k, one in enumerate(d.items) if one is not None]

    def take(regs: list[Any]) -> None:
        # A copy: the source may be a register that is written here.
        whole = np.broadcast_to(regs[source], regs[0].n).copy().view(piece).reshape(-1, count)
        for k, target in targets:
            regs[target][...] = whole[:, k]

    return take


_BASES = {"shared": SHARED, "shared::cta": SHARED, "local": LOCAL}


@handles("cvta")
def cvta(b: Builder, i: Instruction) -> Step:
    """Build a conversion between addresses of a state space and generic addresses.

    Addresses of the global and const spaces are already generic.
    """
    words = [m for m in i.modifiers[:-1] if m != "to"]
    if len(words) != 1 or words[0] not in (*_BASES, "global", "const", "param", "param::entry"):
        b.fail(i)
    d, x = b.operands(i, 2)
    type_ = i.modifiers[-1]
    dtype = dtype_of(type_)
    s, target = b.source(i, x, dtype), b.target(i, d, dtype)
    base = _BASES.get(words[0], 0)
    if dtype.itemsize != 8 and base:
        b.fail(i, "has a generic address of 32 bits")
    by = np.uint64((-base if "to" in i.modifiers else base) & (1 << 64) - 1)

    def step(regs: list[Any]) -> None:
        np.add(regs[s], by, regs[target])

    def same(regs: list[Any]) -> None:
        regs[target][...] = regs[s]

    return step if base else same


@handles("isspacep")
def isspacep(b: Builder, i: Instruction) -> Step:
    p, x = b.operands(i, 2)
    space = i.modifiers[0] if i.modifiers else ""
    s, target = b.source(i, x, "u64"), b.target(i, p, BOOL)
    windows = {"shared": SHARED, "shared::cta": SHARED, "local": LOCAL, "param": PARAM, "param::entry": PARAM}
    if space not in (*windows, "global", "const"):
        b.fail(i)

    def inside(regs: list[Any], base: int) -> Any:
        return (regs[s] >= np.uint64(base)) & (regs[s] < np.uint64(base + WINDOW))

    def step(regs: list[Any]) -> None:
        if space in windows:
            regs[target][...] = inside(regs, windows[space])
            return
        frame = regs[0]
        addresses = np.broadcast_to(regs[s], frame.n)
        known = {}
        for address in np.unique(addresses):
            found = frame.batch.memory.find(int(address))
            known[int(address)] = found is not None and found.kind == space
        regs[target][...] = [known[int(address)] for address in addresses]

    return step


@handles("activemask")
def activemask(b: Builder, i: Instruction) -> Step:
    """Return the closure of activemask: the lanes that execute this together."""
    target = b.target(i, b.operands(i, 1)[0], "u32")

    def step(regs: list[Any]) -> None:
        frame = regs[0]
        lanes = frame.batch.lane_numbers()[frame.threads]
        here = np.zeros(frame.batch.warps * 32, bool)
        here[lanes] = True
        regs[target][...] = np.packbits(here, bitorder="little").view("<u4")[lanes >> 5]

    return step
