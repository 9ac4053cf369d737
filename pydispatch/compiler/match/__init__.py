"""Match and replace: specs and patterns that rewrite a program before any other phase changes it.

Each rewrite attaches to a phase: before the program is processed, at preprocessing (the default, where named operations
still exist), or after global optimization (where the program is in normal form).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr

from pydispatch.compiler.match.custom import kernel_hints
from pydispatch.compiler.match.report import Report
from pydispatch.errors import CompileError, CompileWarning, InvalidArgumentError
from pydispatch.frontends.source import frontends
from pydispatch.graph.builder import KERNEL_HINTS
from pydispatch.ir.core.walk import walk
from pydispatch.logs import caller_level

PHASES = {
    "input": "input",
    "before-input-conversion": "input",
    "preprocessing": "preprocessing",
    "global-optimization": "global-optimization",
    "after-global-optimization": "global-optimization",
}
"""Phase names that users may write, and the phase of the pipeline for each."""


class MatchWarning(CompileWarning):
    """A pattern matched nothing."""


@dataclass(frozen=True)
class Rewrite:
    """Rewrite of a program by patterns or specs of the user, which the compiler applies in one phase.

    Attributes:
        kind: "transform" or "pdl" for a spec in that dialect, "python" for patterns written in Python.
        phase: The phase to which it attaches, a value of `PHASES`.
        rules: The module of the spec, or the list of Python patterns.
        name: File name of the spec, for messages; "" for a spec from no file, and for patterns.
    """

    kind: str
    phase: str
    rules: Any
    name: str = ""


@dataclass
class Rewrites:
    """Ordered list of the rewrites that are applied to one program.

    The compiler calls `apply` once for each phase, in the order of the pipeline.

    Attributes:
        rewrites: The rewrites, in order.
        require_match: Whether a pattern without matches is an error.
        report: The matches and misses so far.
        targets: Function that returns the names of the formats that the program is compiled for; by default none.
        quiet: Whether to omit warnings about patterns without matches.
        decide: Function that selects which matches of Python patterns to replace, see `python/apply.py`. Tuning passes
            one to try alternatives. None replaces all.
    """

    rewrites: list[Rewrite] = field(default_factory=list)
    require_match: bool = False
    report: Report = field(default_factory=Report)
    targets: Callable[[], tuple[str, ...]] = tuple
    quiet: bool = False
    decide: Callable[[Any], Any] | None = None

    def apply(self, phase: str, module: ModuleOp) -> None:
        """Apply the rewrites of a phase. After the last rewrite, warn about patterns without matches, unless `quiet`.

        Args:
            phase: A value of `PHASES`.
            module: The program, which is changed in place.

        Raises:
            CompileError: A spec is invalid; the rewritten program does not verify; or a pattern has no match, although
                `require_match` is set.
        """
        # The frontend may have left hints: name of a kernel -> why no operation of the program uses it.
        hints = module.attributes.pop(KERNEL_HINTS, None)
        if isinstance(hints, DictionaryAttr):
            texts = {name: text.data for name, text in hints.data.items() if isinstance(text, StringAttr)}
            self.report.hints |= kernel_hints(texts)
        due = [rewrite for rewrite in self.rewrites if rewrite.phase == phase]
        for rewrite in due:
            apply_one(rewrite, module, self.report, self.targets(), self.decide)
        # This phase had rewrites, and none has any in a later phase: the report is complete.
        order = tuple(dict.fromkeys(PHASES.values()))  # the phases of the pipeline as they follow each other
        are_all_applied = all(order.index(rewrite.phase) <= order.index(phase) for rewrite in self.rewrites)
        if due and are_all_applied and not self.quiet:
            self._finish()

    def _finish(self) -> None:
        """Warn about patterns without matches, or raise CompileError if a match is required."""
        unmatched = self.report.unmatched
        sentences = [self.report.explain(pattern) for pattern in unmatched]  # one for each pattern, in the same order
        if sentences and self.require_match:
            hint = "see what comes near with: pydispatch match"
            if len(sentences) > 1:  # the others by their names, at most three
                hint = f"{len(sentences) - 1} more did not: {', '.join(unmatched[1:4])}"
            note = f"every pattern is required to match; {hint}"
            raise CompileError(sentences[0], self._near_location(), note)
        for sentence in sentences[:_WARNED]:
            warnings.warn(sentence, MatchWarning, stacklevel=caller_level())
        if sentences[_WARNED:]:
            more = f"{len(sentences) - _WARNED} more patterns matched nothing"
            warnings.warn(more, MatchWarning, stacklevel=caller_level())

    def _near_location(self) -> Any:
        """Return the location of the nearest miss of the first pattern without a match; None if there is no miss."""
        near = self.report.near.get(self.report.unmatched[0])
        return near[0].location if near else None


_WARNED = 8
"""Number of patterns without matches that have a warning of their own; the others are counted in one more."""


def apply_one(
    rewrite: Rewrite, module: ModuleOp, report: Report, targets: tuple[str, ...] = (),
    decide: Callable[[Any], Any] | None = None,
) -> None:  # fmt: skip
    """Apply one rewrite to `module`, and record its matches and misses in `report`.

    Args:
        rewrite: The rewrite.
        module: The program, which is changed in place.
        report: Receives what matched, and what nearly did.
        targets: Names of the formats that the program is compiled for; Python patterns choose kernels for these.
        decide: Selects the matches of Python patterns to replace; None for all.

    Raises:
        CompileError: The spec is invalid, or the rewritten program does not verify; located in the spec or the program.
    """
    from pydispatch import ir

    if rewrite.kind == "transform":
        from pydispatch.compiler.match.transform.handlers import HANDLERS
        from pydispatch.compiler.match.transform.interpret import Interpreter

        Interpreter(rewrite.rules, module, report, HANDLERS, rewrite.name).run()
    elif rewrite.kind == "pdl":
        from pydispatch.compiler.match.pdl.apply import apply_pdl

        apply_pdl(rewrite.rules, module, report)
    else:
        from pydispatch.compiler.match.python.apply import apply_patterns

        apply_patterns(rewrite.rules, module, report, targets, decide=decide)
    # A spec or pattern may have built operations that are not valid.
    try:
        ir.verify(module)
    except CompileError as error:
        culprit = f"spec {rewrite.name}" if rewrite.name else "patterns"
        raise CompileError(f"after the {culprit}: {error.message}", error.location, error.note) from None


Source = Any
"""A spec: MLIR text, a path or a module."""


def rewrites_of(
    transform_spec: Source | Sequence[Source] | Mapping[str, Source] | None,
    pdl_spec: Source | Sequence[Source] | Mapping[str, Source] | None,
    patterns: Iterable[Any],
    require_match: bool,
    load: Callable[[Any, str], tuple[ModuleOp, Sequence[Path]]],
) -> tuple[Rewrites, list[str]]:
    """Load the rewrites of the compiler's options.

    Args:
        transform_spec: Specs in the transform dialect: one, several, or a dict from phases to them; None for none.
        pdl_spec: Specs in PDL: one, several, or a dict from phases to them; None for none.
        patterns: Patterns of `@pydispatch.pattern`.
        require_match: Whether a pattern without matches is an error.
        load: Parses a spec; its second argument is the name of the option, for messages. Returns the module and the
            paths of its files.

    Returns:
        The rewrites, and the folders of the files of the specs, which are searched for the object files they name.
    """
    rewrites = Rewrites(require_match=require_match)
    folders: list[str] = []
    # Specs attach to the phase that a dict states. Others run before the input is converted if they name operations of
    # an input dialect, else in preprocessing.
    for kind, spec in (("transform", transform_spec), ("pdl", pdl_spec)):
        for stated, source in _attached(spec):
            module, paths = load(source, f"{kind}_spec")
            phase = stated or ("input" if _names_input_dialect(module) else "preprocessing")
            folders += [os.fspath(path.parent) for path in paths]
            rewrites.rewrites.append(Rewrite(kind, phase, module, paths[0].name if paths else ""))
    rewrites.rewrites += rewrites_by_patterns(patterns)
    return rewrites, folders


def rewrites_by_patterns(patterns: Iterable[Any]) -> list[Rewrite]:
    """Return one rewrite for each phase, with the Python patterns that attach to it."""
    by_phase: dict[str, list[Any]] = {}
    for pattern in _patterns(patterns):
        by_phase.setdefault(phase_of(pattern.phase), []).append(pattern)
    return [Rewrite("python", phase, attached) for phase, attached in by_phase.items()]


def _patterns(patterns: Any) -> list[Any]:
    """Return one pattern, or an iterable of them, as a list. Raise InvalidArgumentError for anything else."""
    from pydispatch.patterns import Pattern

    if not isinstance(patterns, (Pattern, Iterable)) or isinstance(patterns, (str, bytes, Mapping)):
        raise InvalidArgumentError(f"patterns: expected a list of what @pydispatch.pattern made, got {patterns!r}")
    is_array = hasattr(patterns, "dtype")  # not iterated, so that the error below shows the array, not an element
    listed = [patterns] if isinstance(patterns, Pattern) or is_array else [*patterns]
    for pattern in listed:
        if not isinstance(pattern, Pattern):
            raise InvalidArgumentError(f"patterns=[...] takes what @pydispatch.pattern made, got {pattern!r}")
    return listed


def _names_input_dialect(spec: ModuleOp) -> bool:
    """Return whether a spec mentions an operation of a frontend's dialect. Such operations are lowered before
    preprocessing, so that the spec must attach to the input phase.
    """
    prefixes = tuple(f"{dialect}." for frontend in frontends() for dialect in frontend.dialects)
    for op in walk(spec):
        # Specs name the operations that they match in attributes: ops{["stablehlo.add"]}, or a single string.
        attributes = [*op.properties.values(), *op.attributes.values()]
        items = [item for a in attributes for item in (a if isinstance(a, ArrayAttr) else (a,))]
        names = [op.name, *(item.data for item in items if isinstance(item, StringAttr))]
        if any(name.startswith(prefixes) for name in names):
            return True
    return False


def _attached(spec: Any) -> list[tuple[str, Any]]:
    """Return a pair (phase, source) for each source in `spec`: one source, a list of them, or a dict from phase names
    to either.

    The phase is "" for a source that is not in a dict: the caller derives it from the source.
    """
    if spec is None:
        return []
    if isinstance(spec, Mapping):
        return [(phase_of(p), s) for p, sources in spec.items() for s in _listed(sources)]
    return [("", s) for s in _listed(spec)]


def _listed(value: Any) -> list[Any]:
    """Return a list or tuple as a list, and any other value as a list of it."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def phase_of(name: str) -> str:
    """Return the phase that a name stands for; CompileError for an unknown name."""
    if not isinstance(name, str) or name not in PHASES:
        raise CompileError(f"patterns cannot be attached to '{name}'", note=f"phases: {', '.join(PHASES)}")
    return PHASES[name]
