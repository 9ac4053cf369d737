"""Table of PTX instructions: opcode -> handler, which builds the closure that runs an instruction for all threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step

Handler = Callable[[FunctionBuilder, Instruction], Step]
"""Function that checks an instruction and returns its closure."""
HANDLERS: dict[str, Handler] = {}
"""Opcode, such as "add" → its handler."""


def handles(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register a function as the handler of some opcodes."""

    def enter(handler: Handler) -> Handler:
        """Register a handler for the opcodes."""
        for opcode in opcodes:
            assert opcode not in HANDLERS, f"{opcode} is handled twice"
            HANDLERS[opcode] = handler
        return handler

    return enter


def nothing(regs: list[Any]) -> None:
    """Do nothing: the closure of an instruction without effect in this simulator."""
