"""Checks that the architecture of a CUDA target has an instruction, which LLVM ends the process for if it has not."""

from __future__ import annotations

import re

from pydispatch.compiler.emit.llvm.function import FunctionEmitter


def generation_of(emitter: FunctionEmitter) -> int:
    """Return the number of the target's architecture, such as 80 for sm_80."""
    names = (re.fullmatch(r"sm_(\d+)[af]?", name) for name in emitter.platform.features)
    return next(int(match[1]) for match in names if match is not None)


def require_generation(emitter: FunctionEmitter, least: int, feature: str) -> None:
    """Raise CompileError, at the operation that is being lowered, if the target's architecture is older than `least`.

    `feature` is the part of the operation that needs the architecture, such as "pyd.mma tensor of bf16".
    """
    generation = generation_of(emitter)
    if generation < least:
        raise emitter.error(
            f"{feature} needs sm_{least} or newer, and the target is sm_{generation}",
            "name a newer architecture, or compute it with other operations for this one",
        )
