"""Opcodes of the steps and checks of host procedures; docs/program.md specifies the format."""

from __future__ import annotations

from enum import IntEnum

LAST_USE = 1 << 31
"""Added to a slot that a step reads for the last time."""


class Step(IntEnum):
    """Step of a procedure."""

    RUN = 1  # run a function of the program
    MOVE = 2  # copy slots to slots, all at once
    JUMP = 3
    BRANCH = 4
    READ = 5  # scalar slot = element of a tensor
    LOAD = 6  # slot = global
    STORE = 7  # global = slot, when the call succeeds
    OBSERVE = 8  # pass values to a check
    DROP = 9  # release the value of a slot
    RETURN = 10
    CONSTANT = 11  # tensor slot = constant of the program
    SCALAR = 12  # scalar slot = immediate value
    DIM = 13  # scalar slot = size of a tensor along an axis
    VIEW = 14  # tensor slot = bytes of another in another shape
    SAVE = 15  # tensor slot = another, with its rows saved that are updated in place


class CheckKind(IntEnum):
    """Operations of the `check` dialect. Comparisons with a constant observe the constant as well."""

    EXPECT_TRUE = 0
    EXPECT_FALSE = 1
    EXPECT_ALL_TRUE = 2
    EXPECT_EQ = 3
    EXPECT_ALMOST_EQ = 4
    EXPECT_CLOSE = 5
