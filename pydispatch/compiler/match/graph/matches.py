"""Results of the comparison of a pattern with a program: a match, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue


@dataclass(frozen=True)
class Mismatch:
    """Reason why a pattern did not match.

    Attributes:
        depth: Number of operations of the pattern that matched before the failure.
        reason: Why the comparison failed, for messages.
        op: Operation of the program with which it failed, or that reads the argument with which it failed; None if
            there is neither.
    """

    depth: int
    reason: str
    op: Operation | None = None

    def is_other_root_operation(self, root: Operation) -> bool:
        """Return whether the reason is that `root` itself is another operation than the root of the pattern.

        Such a reason is "expected linalg.matmul, got linalg.fill". A reason that concerns an attribute or operand of
        the root begins with its name: "axis of linalg.softmax: expected 1, got 0".
        """
        return self.depth == 0 and self.op is root and self.reason.startswith("expected")


@dataclass
class Match:
    """Match of a pattern in a program.

    Attributes:
        root: Operation that the root of the pattern matched.
        inputs: Value of the program for each input of the pattern. An input that is only the destination of a result,
            which the pattern overwrites without reading it, has None if the matched operation has no destination.
        outputs: Value of the program for each output of the pattern.
        ops: The matched operations, without constants.
        computed: Value of the pattern → the same value in the program. There is no entry for a value that the program
            does not have, because one of its operations computes it as an intermediate value.
    """

    root: Operation
    inputs: list[SSAValue | None]
    outputs: list[SSAValue]
    ops: set[Operation] = field(default_factory=set)
    computed: dict[SSAValue, SSAValue] = field(default_factory=dict)
