"""Match and replace without compiling: what matched, what nearly did, and the difference."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.compiler.driver.sources import load_source, lower_input
from pydispatch.compiler.match import MatchWarning, rewrites_of
from pydispatch.compiler.match.report import Report
from pydispatch.compiler.normalize import normalize
from pydispatch.faults import faults_as_internal_errors
from pydispatch.frontends.source import ReadOptions


@faults_as_internal_errors()
def dry_run(
    source: str | os.PathLike[str] | ModuleOp,
    *,
    transform_spec: Any = None,
    pdl_spec: Any = None,
    patterns: Sequence[Any] = (),
) -> tuple[Report, str]:
    """Apply the user's rewrites to a copy of a program, without compiling it.

    Args:
        source: MLIR text, the path of a file, or a module.
        transform_spec: A spec of the transform dialect, as `pydispatch.compile` takes it: text, path or module.
        pdl_spec: A spec of patterns in the PDL dialect, in the same forms.
        patterns: Patterns in Python (`pydispatch.pattern`).

    Returns:
        The report of matches and near misses, and the unified diffs of the program's text by each phase, joined.

    Raises:
        CompileError: A spec is not valid.
    """
    module, _ = load_source(source)
    rewrites, _ = rewrites_of(transform_spec, pdl_spec, patterns, require_match=False, load=load_source)
    diff: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatchWarning)  # the report has the patterns that match nothing
        # The three phases in which rewrites can ask to be applied, in the order of a compilation.
        for phase in ("input", "preprocessing", "global-optimization"):
            if phase == "global-optimization":
                if not any(r.phase == phase for r in rewrites.rewrites):
                    break  # normalizing would take time for nothing
                normalize(module)
            before = ir.print_module(module).splitlines(keepends=True)
            rewrites.apply(phase, module)
            after = ir.print_module(module).splitlines(keepends=True)
            diff += difflib.unified_diff(before, after, f"before {phase}", f"after {phase}")
            if phase == "input":  # the later phases rewrite the lowered program
                module = lower_input(module, ReadOptions())
    return rewrites.report, "".join(diff)
