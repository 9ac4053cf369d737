"""Opcodes of the steps and checks of host procedures; docs/program.md specifies the format."""

from __future__ import annotations

from enum import IntEnum

LAST_USE = 1 << 31
"""Flag of a slot operand: the step reads the slot for the last time, and empties it."""


class Step(IntEnum):
    """Opcode of a step of a procedure; csrc/program/internal.h has the same numbers.

    A step reads and writes slots, the numbered variables of the procedure: a slot holds a scalar or a whole tensor.
    """

    RUN = 1  # run a function of the program: result slots = function(argument slots)
    MOVE = 2  # copy slots to slots; all sources are read before any target is written
    JUMP = 3  # continue at another step
    BRANCH = 4  # continue at one of two steps, by the lowest bit of a scalar slot
    READ = 5  # scalar slot = element of a tensor
    LOAD = 6  # slot = global
    STORE = 7  # global = slot; the store becomes visible when the whole call succeeds
    OBSERVE = 8  # record one or two values for a check, which compares them after the call
    DROP = 9  # release the value of a slot, which is empty from then on
    RETURN = 10  # end the call; the values of the listed slots are its results
    CONSTANT = 11  # tensor slot = constant of the program
    SCALAR = 12  # scalar slot = immediate value
    DIM = 13  # scalar slot = size of a tensor along an axis
    VIEW = 14  # tensor slot = bytes of another one, from a byte offset on, in another shape
    # Tensor slot = value of another one, of which later steps may overwrite the listed rows in place. Its memory is
    # that of the other tensor if possible, else a copy. The elements of these rows are passed along: they restore a
    # global in this memory if the call fails.
    SAVE = 15


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
