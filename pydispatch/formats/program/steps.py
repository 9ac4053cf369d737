"""Opcodes of the steps and checks of host procedures; docs/program.md specifies the format."""

from __future__ import annotations

from enum import IntEnum

LAST_USE = 1 << 31
"""Flag of a slot operand: the step reads the slot for the last time, and empties it."""


class Step(IntEnum):
    """Step of a procedure."""

    RUN = 1  # run a function of the program
    MOVE = 2  # copy slots to slots, all at once
    JUMP = 3
    BRANCH = 4
    READ = 5  # scalar slot = element of a tensor
    LOAD = 6  # slot = global
    STORE = 7  # global = slot; the store becomes visible when the whole call succeeds
    OBSERVE = 8  # record one or two values for a check
    DROP = 9  # release the value of a slot
    RETURN = 10
    CONSTANT = 11  # tensor slot = constant of the program
    SCALAR = 12  # scalar slot = immediate value
    DIM = 13  # scalar slot = size of a tensor along an axis
    VIEW = 14  # tensor slot = bytes of another in another shape
    SAVE = 15  # tensor slot = another, in the same memory; rows that later steps overwrite are saved first


class CheckKind(IntEnum):
    """Assertion of the `check` dialect about one value or two, named after its operation.

    Operations such as `check.expect_eq_const`, which compare a value with a constant, have no kind of their own. They
    have the kind of the comparison of two values; the second one is a constant of the program. The step
    `Step.OBSERVE` records the values when the procedure runs, and they are compared after the call.
    """

    EXPECT_TRUE = 0
    EXPECT_FALSE = 1
    EXPECT_ALL_TRUE = 2
    EXPECT_EQ = 3
    EXPECT_ALMOST_EQ = 4
    EXPECT_CLOSE = 5
