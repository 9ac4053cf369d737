"""Report of the matches and near misses of patterns, with locations and reasons."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation

from pydispatch.compiler.match.graph.matches import Mismatch
from pydispatch.errors import Location
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.functions import FUNCTIONS

_MAX_NEAR_MISSES = 3
"""Maximum number of misses that are kept for a pattern: more of them hide the nearest ones."""
OUTSIDE = "the module"
"""The result of `function_of` outside functions."""


def place_of(op: Operation | None) -> str:
    """Return the source location of an operation as text: `file:line:column`, or as much as is known."""
    location = None if op is None else location_of(op)
    return str(location) if location is not None else "an unknown place"


def function_of(op: Operation) -> str:
    """Return `@name` of the function that an operation is or is in; OUTSIDE if it is in none."""
    parent: Operation | None = op
    while parent is not None:
        name = parent.properties.get("sym_name")
        if name is not None and parent.name in FUNCTIONS:
            return f"@{name.data}"  # type: ignore[attr-defined]
        parent = parent.parent_op()
    return OUTSIDE


@dataclass(frozen=True)
class Found:
    """Match of a pattern, for reports.

    Attributes:
        pattern: Name of the pattern.
        op: Name of the root operation.
        function: `@name` of the function that contains it, or OUTSIDE.
        place: Its location in the source, as `file:line:column`.
        kernel: Description of the kernel that replaces it; "" if none does.
    """

    pattern: str
    op: str
    function: str
    place: str
    kernel: str = ""

    def __str__(self) -> str:
        """Return the line of the report: location, pattern, operation, function and, after an arrow, the kernel."""
        into = f" → {self.kernel}" if self.kernel else ""
        return f"{self.place}: {self.pattern} matches {self.op} in {self.function}{into}"


@dataclass(frozen=True)
class Miss:
    """Near miss of a pattern, for reports.

    Attributes:
        pattern: Name of the pattern.
        op: Name of the operation that the root of the pattern matched.
        function: `@name` of the function that contains it, or OUTSIDE.
        place: Its location in the source, as `file:line:column`.
        depth: Number of operations of the pattern that matched at `op` and its producers.
        reason: Why the next operation did not match.
        stopped_place: Location of that operation, as text.
        location: The same location as data; None if it is not known.
    """

    pattern: str
    op: str
    function: str
    place: str
    depth: int
    reason: str
    stopped_place: str
    location: Location | None = None

    def __str__(self) -> str:
        """Return the line of the report: location, pattern, operation, how far they agree, and why not further."""
        agreed = f"{self.depth} operation{'s' if self.depth != 1 else ''} agreed, then "
        place = f" (at {self.stopped_place})" if self.stopped_place != self.place else ""
        return f"{self.place}: {self.pattern} nearly matches {self.op} in {self.function}: {agreed}{self.reason}{place}"


@dataclass
class Report:
    """Record of the matches and near misses of all specs and patterns in one compilation.

    The matchers fill it; the compiler prints it as text, and warns about patterns without matches.

    Attributes:
        patterns: Names of all patterns that were tried, in the order of declaration.
        found: The matches.
        near: For each pattern, its deepest misses, deepest first.
        roots: For each pattern with a root operation, the name of that operation, such as "linalg.matmul".
        hints: Pattern of a kernel that can match nothing in this program -> (name of the kernel in the user's program,
            reason), such as ("mylib::swish", "the model has no operator of this name").
    """

    patterns: list[str] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    near: dict[str, list[Miss]] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    hints: dict[str, tuple[str, str]] = field(default_factory=dict)

    def declare(self, pattern: str, root: str = "") -> None:
        """Register a pattern before it is tried. root: the name of its root operation, '' without one."""
        if root:
            self.roots[pattern] = root
        if pattern not in self.patterns:
            self.patterns.append(pattern)

    def match(self, pattern: str, op: Operation, kernel: str = "") -> None:
        """Record a match with its root at `op`."""
        self.found.append(
            Found(pattern=pattern, op=op.name, function=function_of(op), place=place_of(op), kernel=kernel)
        )

    def miss(self, pattern: str, op: Operation, mismatch: Mismatch) -> None:
        """Record a near miss if it is among the deepest ones of its pattern: before it, the most operations matched.

        An operation of another name than the pattern's root is no near miss, and is not recorded. Of equal depth, the
        first `_MAX_NEAR_MISSES` are retained.
        """
        if mismatch.is_other_root_operation(op):
            return
        kept = self.near.setdefault(pattern, [])  # deepest first
        if len(kept) >= _MAX_NEAR_MISSES and mismatch.depth <= kept[-1].depth:
            return
        miss = Miss(
            pattern=pattern,
            op=op.name,
            function=function_of(op),
            place=place_of(op),
            depth=mismatch.depth,
            reason=mismatch.reason,
            stopped_place=place_of(mismatch.op or op),
            location=location_of(mismatch.op or op),
        )
        if miss in kept:  # a matcher may be run a second time to explain why it matched nothing
            return
        kept.append(miss)
        kept.sort(key=lambda m: -m.depth)
        del kept[_MAX_NEAR_MISSES:]

    @property
    def unmatched(self) -> list[str]:
        """The patterns that matched nothing, in order."""
        matched = {f.pattern for f in self.found}
        return [p for p in self.patterns if p not in matched]

    def explain(self, pattern: str) -> str:
        """Return a sentence on why a pattern matched nothing."""
        if pattern in self.hints:
            kernel, reason = self.hints[pattern]
            return f"the kernel '{kernel}' matched nothing: {reason}"
        near_misses = self.near.get(pattern)  # deepest first
        if near_misses:
            return f"{pattern} matched nothing; nearest is {near_misses[0]}"
        root = f", {self.roots[pattern]}" if pattern in self.roots else ""
        return f"{pattern} matched nothing, and nothing came near: no operation of the program is like its root{root}"

    def text(self) -> str:
        """Return the whole report as text, one line per match or near miss."""
        lines = [str(f) for f in self.found]
        for pattern in self.patterns:
            if pattern in self.unmatched and not self.near.get(pattern):
                lines.append(self.explain(pattern))
            lines += [str(m) for m in self.near.get(pattern, [])]
        return "\n".join(lines) + ("\n" if lines else "")
