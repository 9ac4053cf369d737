"""Opcodes of the steps and checks of host procedures; docs/program.md specifies the format."""

from __future__ import annotations

from enum import IntEnum

LAST_USE = 1 << 31
"""Added to a slot that a step reads for the last time."""


class Step(IntEnum):
    """Step of a procedure."""

    RUN = 1
    MOVE = 2
    JUMP = 3
    BRANCH = 4
    READ = 5
    LOAD = 6
    STORE = 7
    OBSERVE = 8
    DROP = 9
    RETURN = 10
    CONSTANT = 11
    SCALAR = 12
    DIM = 13
    VIEW = 14
    SAVE = 15


class CheckKind(IntEnum):
    """Operations of the `check` dialect. Comparisons with a constant observe the constant as well."""

    EXPECT_TRUE = 0
    EXPECT_FALSE = 1
    EXPECT_ALL_TRUE = 2
    EXPECT_EQ = 3
    EXPECT_ALMOST_EQ = 4
    EXPECT_CLOSE = 5
