"""Functions of the CUDA runtime that kernels call and no PTX defines: assertions and printing."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Arguments, Instruction, PtxSymbol
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.instructions.loads import read_bytes
from pydispatch.runtime.simulators.ptx.registry import handles

HOST = ("vprintf", "__assertfail", "__assert_fail")
_FORMAT = re.compile(r"%[-+ #0]*(?:\d+)?(?:\.\d+)?(hh|h|ll|l|j|z|t)?([diouxXeEfFgGaAcsp%])")


@handles("call")
def host_call(builder: FunctionBuilder, instruction: Instruction) -> Step:
    operands = [operand for operand in instruction.operands if operand is not None]
    at = next(k for k, operand in enumerate(operands) if isinstance(operand, PtxSymbol))
    callee = operands[at]
    assert isinstance(callee, PtxSymbol)
    arguments = operands[at + 1] if at + 1 < len(operands) else None
    if not isinstance(arguments, Arguments):
        builder.fail(instruction, "passes no arguments")
    slots = []
    for operand in arguments.items:
        storage = builder.storage(operand.name) if isinstance(operand, PtxSymbol) else None
        if storage is None:
            builder.fail(instruction, "passes what is no .param variable")
        size = min(8, builder.storages[storage].count)
        slot = builder.view(storage, np.dtype(f"u{size}"))
        builder.reads.add(slot)
        slots.append(slot)
    if callee.name == "vprintf":
        return lambda regs: _print(regs[0], instruction, regs[slots[0]], regs[slots[1]])

    def fail(regs: list[Any]) -> None:
        frame = regs[0]
        words = [int(np.broadcast_to(regs[slot], frame.n)[0]) for slot in slots[:4]]
        text = _string(frame, words[0]) if words else "?"
        where = f" ({_string(frame, words[1])}:{words[2]})" if len(words) > 2 else ""
        frame.fault(instruction, 0, f"assertion '{text}' does not hold{where}")

    return fail


def _string(frame: Frame, address: int) -> str:
    """Return the text at an address, up to its zero."""
    characters = bytearray()
    while len(characters) < 4096:
        byte = read_bytes(frame, 0, address + len(characters), 1)
        if not byte or byte == b"\0":
            break
        characters += byte
    return characters.decode("utf-8", "replace")


def _print(frame: Frame, instruction: Instruction, formats: Any, values: Any) -> None:
    """printf of each thread, in their order, to standard output."""
    formats, values = np.broadcast_to(formats, frame.n), np.broadcast_to(values, frame.n)
    for position in range(frame.n):
        text = _string(frame, int(formats[position]))
        at = int(values[position])

        def one(match: re.Match[str], position: int = position) -> str:
            nonlocal at
            length, kind = match.groups()
            if kind == "%":
                return "%"
            size = 8 if kind in "eEfFgGaAsp" or length in ("l", "ll", "j", "z", "t") else 4
            at = -(-at // size) * size
            raw = read_bytes(frame, position, at, size) or bytes(size)
            at += size
            spec = match.group().replace(length or "", "", 1) if length else match.group()
            if kind == "s":
                return spec % _string(frame, int.from_bytes(raw, "little"))
            if kind == "p":
                return hex(int.from_bytes(raw, "little"))
            if kind in "eEfFgGaA":
                return spec.replace("a", "g") % np.frombuffer(raw, "f8")[0]
            return spec.replace("u", "d") % int.from_bytes(raw, "little", signed=kind in "dic")

        sys.stdout.write(_FORMAT.sub(one, text))
    sys.stdout.flush()
