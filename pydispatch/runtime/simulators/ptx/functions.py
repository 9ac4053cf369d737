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
    """Return the closure of a call of a function of CUDA's device runtime: vprintf, or a failed assertion."""
    operands = [operand for operand in instruction.operands if operand is not None]
    callee_index = next(k for k, operand in enumerate(operands) if isinstance(operand, PtxSymbol))
    callee = operands[callee_index]
    assert isinstance(callee, PtxSymbol)
    arguments = operands[callee_index + 1] if callee_index + 1 < len(operands) else None
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
        """Report a failed assertion with its text, file and line, as far as they are passed."""
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
        byte = read_bytes(frame, 0, address + len(characters), size=1)
        if not byte or byte == b"\0":
            break
        characters += byte
    return characters.decode("utf-8", "replace")


def _print(frame: Frame, instruction: Instruction, formats: Any, values: Any) -> None:
    """Print the formatted text of each thread to standard output, in the order of threads."""
    formats, values = np.broadcast_to(formats, frame.n), np.broadcast_to(values, frame.n)
    for position in range(frame.n):
        text = _string(frame, int(formats[position]))
        offset = int(values[position])

        def formatted(match: re.Match[str], position: int = position) -> str:
            """Return an argument formatted by its specifier, and advance `offset` past it in the buffer."""
            nonlocal offset
            length, kind = match.groups()
            if kind == "%":
                return "%"
            size = 8 if kind in "eEfFgGaAsp" or length in ("l", "ll", "j", "z", "t") else 4
            offset = -(-offset // size) * size
            data = read_bytes(frame, position, offset, size) or bytes(size)
            offset += size
            specifier = match.group().replace(length or "", "", 1) if length else match.group()
            if kind == "s":
                return specifier % _string(frame, int.from_bytes(data, "little"))
            if kind == "p":
                return hex(int.from_bytes(data, "little"))
            if kind in "eEfFgGaA":
                return specifier.replace("a", "g") % np.frombuffer(data, "f8")[0]
            return specifier.replace("u", "d") % int.from_bytes(data, "little", signed=kind in "dic")

        sys.stdout.write(_FORMAT.sub(formatted, text))
    sys.stdout.flush()
