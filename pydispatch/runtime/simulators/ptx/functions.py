"""Functions of the CUDA runtime that kernels call and no PTX defines: assertions and printing. A frame has the threads
that call such a function together: `regs[slot]` is an argument, an array with an element for each of them.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Arguments, Instruction, Operand, PtxSymbol
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.instructions.loads import read_bytes
from pydispatch.runtime.simulators.ptx.registry import handles

HOST = ("vprintf", "__assertfail", "__assert_fail")
"""The functions that this module implements. Calls of others run PTX."""
_FORMAT = re.compile(r"%([-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?)(hh|h|ll|l|j|z|t)?([diouxXeEfFgGaAcsp%])")
"""A conversion specifier of C's printf: its groups are the flags, width and precision, the length modifier, and the
kind. An asterisk stands for a width or precision that is an argument."""
_PYTHON_KINDS = {"u": "d", "a": "g", "A": "G"}
"""Kinds of C's printf that Python's % operator lacks, has for other values (a) or calls obsolete (u) → the kinds used.
Hexadecimal floats (a, A) become decimal ones."""


@handles("call")
def host_call(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Return the closure of a call of a function of CUDA's device runtime: vprintf, or a failed assertion.

    vprintf prints for each thread; an assertion ends the kernel with a fault that names its text, file and line.
    """
    builder.require_modifiers(instruction, ("uni",))
    operands = [operand for operand in instruction.operands if operand is not None]
    # The operands are `(results), callee, (arguments)`; a call without results has only the other two.
    callee_index = next(k for k, operand in enumerate(operands) if isinstance(operand, PtxSymbol))
    callee = operands[callee_index]
    assert isinstance(callee, PtxSymbol)
    arguments = operands[callee_index + 1] if callee_index + 1 < len(operands) else None
    if not isinstance(arguments, Arguments):
        builder.fail(instruction, "passes no arguments")
    slots = [_argument_slot(builder, instruction, operand) for operand in arguments.items]
    if callee.name == "vprintf":
        # vprintf(format, values): addresses of the text and of a buffer with the values.
        return lambda regs: _print(regs[FRAME_SLOT], instruction, formats=regs[slots[0]], values=regs[slots[1]])

    def report_assertion(regs: list[Any]) -> None:
        """Report the failed assertion of the first thread: `__assertfail(text, file, line, ...)`.

        `slots` are those of the arguments. text and file are addresses of strings. A call may pass fewer arguments;
        then the message lacks these.
        """
        frame = regs[FRAME_SLOT]
        words = [int(np.broadcast_to(regs[slot], frame.n)[0]) for slot in slots[:3]]
        text = _string(frame, words[0]) if words else "?"
        where = ""
        if len(words) == 3:
            _, file, line = words
            where = f" ({_string(frame, file)}:{line})"
        frame.fault(instruction, 0, f"assertion '{text}' does not hold{where}")

    return report_assertion


def _argument_slot(builder: FunctionBuilder, instruction: Instruction, operand: Operand | None) -> int:
    """Return the slot of an argument: an unsigned view of the first 8 bytes, or less, of a `.param` variable."""
    storage = builder.storage(operand.name) if isinstance(operand, PtxSymbol) else None
    if storage is None:
        builder.fail(instruction, f"passes {operand}, expected a .param variable")
    size = min(8, builder.storages[storage].count)
    slot = builder.view(storage, np.dtype(f"u{size}"))
    builder.reads.add(slot)
    return slot


_LONGEST_STRING = 4096
"""Bytes of a string that are read at most: one without a zero at its end would extend over all memory after it."""


def _string(frame: Frame, address: int) -> str:
    """Return the string that the first thread of a frame sees at a generic address, up to its terminating zero."""
    characters = bytearray()
    while len(characters) < _LONGEST_STRING:
        byte = read_bytes(frame, position=0, address=address + len(characters), size=1)
        if not byte or byte == b"\0":
            break
        characters += byte
    return characters.decode("utf-8", "replace")


class _VariadicArguments:
    """Reader of the arguments of one thread's vprintf, which are in a buffer one after the other.

    Each begins at a multiple of its size. As in variadic calls of C, floats are doubles, and smaller integers have 4
    bytes. For `printf("%d %f", 7, 0.5f)` the buffer has 7 in bytes 0 to 3, and the double 0.5 in bytes 8 to 15.

    `_print` creates one for each thread, and calls `format` for the specifiers of the text, from left to right.
    """

    def __init__(self, frame: Frame, position: int, address: int) -> None:
        """Begin with the first argument of the buffer; `format` reads the arguments in order.

        Args:
            frame: The frame of the threads that call vprintf.
            position: Position in the frame of the thread whose memory is read.
            address: Generic address of the buffer with the arguments of this thread.
        """
        self._frame, self._position, self._address = frame, position, address

    def format(self, match: re.Match[str]) -> str:
        """Read the next argument, and return its text; `%%` takes none, and is "%".

        match: the specifier, a match of `_FORMAT`. `%5ld` has the length modifier "l" and the kind "d"; its argument
        has 8 bytes, and is formatted by Python's `%5d`. `layout`, the flags, width and precision, is "5" here; for each
        `*` in it an argument of 4 bytes is read first.
        """
        layout, length, kind = match.groups()
        if kind == "%":
            return "%"
        stars = [int.from_bytes(self._read(4), "little", signed=True) for _ in range(layout.count("*"))]
        is_double, is_pointer = kind in "eEfFgGaA", kind in "sp"
        is_long = length in ("l", "ll", "j", "z", "t")
        data = self._read(8 if is_double or is_pointer or is_long else 4)
        value: Any = int.from_bytes(data, "little", signed=kind in "di")
        if kind == "p":
            return hex(value)
        if kind == "s":
            value = _string(self._frame, value)
        elif kind == "c":
            value &= 0xFF  # of the promoted integer, the character
        elif is_double:
            value = np.frombuffer(data, "f8")[0]
        return f"%{layout}{_PYTHON_KINDS.get(kind, kind)}" % (*stars, value)

    def _read(self, size: int) -> bytes:
        """Read the next argument of `size` bytes; return zeros if its address is not valid."""
        self._address = -(-self._address // size) * size  # the next multiple of its size
        data = read_bytes(self._frame, self._position, self._address, size) or bytes(size)
        self._address += size
        return data


def _print(frame: Frame, instruction: Instruction, formats: Any, values: Any) -> None:
    """Print the formatted text of each thread to standard output, in the order of threads.

    formats, values: addresses of the format, and of the buffer with the arguments, per thread or one for all.
    """
    formats, values = np.broadcast_to(formats, frame.n), np.broadcast_to(values, frame.n)
    for position in range(frame.n):
        text = _string(frame, int(formats[position]))
        arguments = _VariadicArguments(frame, position, int(values[position]))
        sys.stdout.write(_FORMAT.sub(arguments.format, text))
    sys.stdout.flush()
