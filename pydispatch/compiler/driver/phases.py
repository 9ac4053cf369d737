"""Phases of a compilation, and the passes that other packages add after them."""

from __future__ import annotations

from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import extensions, ir
from pydispatch.compiler.match import Rewrites, rewrites_by_patterns
from pydispatch.errors import CompileError

PHASES = ("input", "preprocessing", "global-optimization", "dispatches", "executables", "program")
"""Phases of a compilation, in the order in which they run."""

MODULE_PHASES = PHASES[:-1]
"""The phases after which there is a module: "program" writes the artifact."""

PHASE_NAMES = {
    **{phase: phase for phase in PHASES},
    "start": "input",
    "abi": "input",
    "dispatch-creation": "dispatches",
    "flow": "dispatches",
    **dict.fromkeys(
        ("stream", "executable-sources", "executable-configurations", "executable-targets", "hal"), "executables"
    ),
    "vm": "program",
    "end": "program",
}
"""Name that `compile_to` accepts -> its phase. These are the names of the phases, and those of IREE."""


def added_patterns() -> Rewrites:
    """Return the patterns of installed extension packages as rewrites.

    The caller did not ask for them, so that those without a match are not reported.
    """
    return Rewrites(rewrites_by_patterns(_patterns()), quiet=True)


@cache
def _patterns() -> list[Any]:
    """Return the rewrite patterns that other packages add by the entry point "patterns"."""
    return [pattern for part in extensions.parts("patterns") for pattern in part.load()]


def run_added_passes(phase: str, module: ModuleOp) -> None:
    """Run the passes of installed extension packages that are registered for the end of a phase.

    Raises CompileError if one fails or leaves an invalid module, and ExtensionError if one is registered for an unknown
    phase, whichever phase is run.
    """
    for part in extensions.parts("pass"):
        if part.name not in MODULE_PHASES:
            raise extensions.ExtensionError(
                f"pass {part.place} of {part.owner}: there is no phase '{part.name}' of the module; "
                f"phases: {', '.join(MODULE_PHASES)}"
            )
        if part.name != phase:
            continue
        what = f"pass {part.place} of {part.owner}"
        try:
            part.load()(module)
        except CompileError:
            raise
        except Exception as error:
            raise CompileError(f"{what}: {type(error).__name__}: {error}") from error
        try:
            ir.verify(module)
        except CompileError as error:
            raise CompileError(f"after the {what}: {error.message}", error.location, error.note) from None
