"""Tunables of pattern matches: computed by the kernel of the pattern, or by generated code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from pydispatch.compiler.driver.options import Options
from pydispatch.compiler.driver.pipeline import Pipeline
from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.compiler.match import Rewrites, rewrites_by_patterns
from pydispatch.compiler.match.python.apply import Candidate
from pydispatch.errors import CompileError
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.tuning.parts import program_of
from pydispatch.tuning.tunable import Trial, TrialBuilder, Tunable

GENERATED = "generated code"
"""Name of the configuration without the pattern's kernel."""


class MatchTunable(Tunable):
    """Tunable of a match that is computed by the kernel of its pattern or by generated code.

    program: a program that contains only this match, as the function `trial`.
    """

    def __init__(self, candidate: Candidate, program: ModuleOp, calls: int) -> None:
        """Create the tunable of `candidate`.

        program: module that computes only the match, for measurements. calls: how often, at least, a run of the tuned
        program computes the match.
        """
        self.candidate, self.program, self.calls = candidate, program, calls
        self.subject = f"{describe_location(candidate.match.root)}, matched by {candidate.pattern.name}"
        self.default = candidate.kernel  # the name of the pattern's kernel
        self.is_replaced = True  # whether the match is computed by the pattern's kernel at present

    def neighbours(self, config: str) -> Sequence[str]:
        """Return both configurations, whichever `config` is the best so far."""
        return [self.default, GENERATED]

    def is_legal(self, config: str) -> bool:
        """Return whether a name, which may be read from a file, is one of the two configurations."""
        return config in (self.default, GENERATED)

    def is_pattern_kernel(self, config: str) -> bool:
        """Return whether a configuration, the name of the kernel or GENERATED, is the pattern's kernel."""
        return config == self.default

    def apply(self, config: str) -> None:
        """Record whether the kernel of the pattern computes the match."""
        self.is_replaced = self.is_pattern_kernel(config)


class MatchPrograms(TrialBuilder):
    """Builder of the programs by which tuning measures a match of a pattern. options: of the tuned compilation."""

    def __init__(self, options: Options) -> None:
        """Copy the options of the tuned compilation, without its dumps and progress messages."""
        self._options = replace(options, dump=None, progress=None)

    def build(self, wanted: Sequence[tuple[Tunable, str]]) -> Sequence[Trial | None]:
        """Return a program for each pair of a match and a configuration; other tunables are skipped."""
        return [self._program(tunable, config) for tunable, config in wanted if isinstance(tunable, MatchTunable)]

    def _program(self, tunable: MatchTunable, config: str) -> Trial | None:
        """Compile the match alone, by the pattern's kernel or without any pattern. Return None if that fails."""
        # A pattern that does not match the extracted operations is an error, as generated code would be measured then.
        patterns = [tunable.candidate.pattern] if tunable.is_pattern_kernel(config) else []
        options = replace(self._options, rewrites=Rewrites(rewrites_by_patterns(patterns), require_match=True))
        try:
            return Trial(Pipeline(tunable.program.clone(), options).artifact(), function="trial", config=config)
        except CompileError:
            return None


def _code_key(artifact: Artifact) -> str:
    """Return a text that identifies the code of an artifact. The manifest is excluded, as it has source positions."""
    members = (name for name in artifact.members if name != "manifest.json")
    return "\0".join(f"{name} {bytes(artifact.read(name)).hex()}" for name in members)


def match_tunables(candidates: Sequence[Candidate], programs: MatchPrograms) -> Mapping[MatchTunable, Sequence[int]]:
    """Return the tunables of matches that can be measured alone, each with the indices of equal `candidates`.

    A match is operations of the program that a kernel of the user can compute instead; a tunable is a program of these
    operations alone, in which both ways are measured. Matches are equal if they compile to the same code with their
    kernels, even from different source files; `calls` is their number. A match with dynamic sizes, or that does not
    compile alone, cannot be measured.
    """
    tunables: dict[str, tuple[MatchTunable, list[int]]] = {}
    for index, candidate in enumerate(candidates):
        match = candidate.match
        module = program_of(match.ops | {match.root}, match.outputs)
        tunable = None if module is None else MatchTunable(candidate, module, calls=1)
        # Compile the default, by whose code equal matches are recognized.
        built = None if tunable is None else programs.build([(tunable, tunable.default)])[0]
        if tunable is not None and built is not None:
            tunable.key = _code_key(built.artifact)
            known, indices = tunables.setdefault(tunable.key, (tunable, []))
            indices.append(index)
            known.calls = len(indices)
    return dict(tunables.values())
