"""The invocations of a workgroup under plain Python.

They run one after the other in one thread. If the kernel has collectives (barriers, sums of a workgroup), each
invocation has a thread, and they run in turns from one collective to the next.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from pydispatch.errors import KernelError
from pydispatch.kernels import functions
from pydispatch.kernels.emulation.invocations import Invocation
from pydispatch.kernels.emulation.views import ArrayView
from pydispatch.kernels.subgroups import SUBGROUP_SIZE

Run = Callable[[], None]
"""Runs the body of a kernel for the invocation `functions.running.invocation` of the current thread."""


class _Stopped(BaseException):
    """Signal that ends the thread of an invocation after an error of another one."""


class _Turns:
    """Execution of the invocations of one workgroup under plain Python: a thread for each, one of which runs at a time.

    A thread runs until its invocation comes to a barrier or another collective, or returns; then the next one runs.
    """

    def __init__(self) -> None:
        """Begin without invocations."""
        self.main_turn = threading.Semaphore(0)  # released when an invocation has reached a collective or has ended
        self.turn_of: dict[Invocation, threading.Semaphore] = {}  # released when it is the invocation's turn
        # Invocation → (collective operation that it has reached, arguments).
        self.waiting: dict[Invocation, tuple[str, tuple[Any, ...]]] = {}
        self.results: dict[Invocation, Any] = {}  # invocation → result of the last collective operation
        self.error: BaseException | None = None  # the first exception of an invocation

    def meet(self, invocation: Invocation, name: str, arguments: tuple[Any, ...]) -> Any:
        """Wait in the thread of an invocation until all have reached a collective; return this invocation's result.

        Args:
            invocation: The invocation that calls the collective.
            name: Name of the collective, such as "group_sum".
            arguments: Arguments of this invocation.
        """
        self.waiting[invocation] = name, arguments
        self.main_turn.release()
        self.turn_of[invocation].acquire()
        if self.error is not None:  # another invocation has failed
            raise _Stopped
        return self.results[invocation]

    def run(self, invocations: Sequence[Invocation], run: Run) -> None:
        """Run all invocations, one thread for each, and raise the first error of one.

        A thread waits for its semaphore in `turn_of` before it begins; `_alternate` releases these in turn until all
        invocations have ended. An error of one invocation, or KeyboardInterrupt of this thread, ends the others: `meet`
        raises `_Stopped` in those that wait at a collective or reach one.

        run: runs the body of the kernel for the invocation of the current thread.
        """
        threads = [
            threading.Thread(target=self._body, args=(invocation, run), daemon=True) for invocation in invocations
        ]
        self.turn_of = {invocation: threading.Semaphore(0) for invocation in invocations}
        for thread in threads:
            thread.start()
        try:
            self._alternate(invocations)
        except BaseException as error:
            self.error = error
        # After an error, some threads still wait: released here, they see `error` and end. Without an error, all have
        # ended, and the release has no effect.
        for invocation in invocations:
            self.turn_of[invocation].release()
        for thread in threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def _alternate(self, invocations: Sequence[Invocation]) -> None:
        """Give the turn to each invocation up to its next collective, until all have ended or one has failed.

        This is the main thread. In each round it lets every invocation run alone, in order: it releases the semaphore
        of the invocation, and waits for `main_turn`. The thread of the invocation releases `main_turn` in `meet`, which
        adds the invocation to `waiting`, or at its end. Once all wait in a collective, its results are computed, and
        the next round begins. A kernel with one barrier has two rounds.

        Raise KernelError if some have ended while others wait, since a collective needs all of them.
        """
        running = list(invocations)
        while running:
            self.waiting.clear()
            for invocation in running:
                self.turn_of[invocation].release()
                self.main_turn.acquire()
                if self.error is not None:  # `run` raises it
                    return
            if self.waiting and len(self.waiting) < len(invocations):
                raise KernelError("invocations of a workgroup have ended while others wait for all of them")
            running = list(self.waiting)  # all invocations, or none after the last round
            if running:
                self._complete(running)

    def _body(self, invocation: Invocation, run: Run) -> None:
        """Run one invocation in its thread: wait for its first turn, run the kernel, and return the turn.

        The turn returns to the main thread, which raises an error that is stored in `error`.
        """
        self.turn_of[invocation].acquire()
        functions.running.invocation = invocation
        try:
            if self.error is None:
                with np.errstate(all="ignore"):
                    run()
        except _Stopped:  # another invocation has failed
            pass
        except BaseException as error:
            self.error = error
        self.main_turn.release()

    def _complete(self, invocations: Sequence[Invocation]) -> None:
        """Compute the results of the collective at which all invocations wait.

        Raise KernelError if they wait at different ones.
        """
        names = {self.waiting[invocation][0] for invocation in invocations}
        if len(names) > 1:
            raise KernelError(f"invocations of a workgroup wait in different places: {', '.join(sorted(names))}")
        arguments = [self.waiting[invocation][1] for invocation in invocations]
        self.results = dict(zip(invocations, results_of(names.pop(), arguments), strict=True))


def results_of(name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the result of a collective function for each invocation of a workgroup.

    The calls of group_sum with [(1,), (2,), (3,)] return [6, 6, 6]. Those of subgroup_shuffle with
    [(10, 1), (20, 0), (30, 9)] return [20, 10, 30]: the third invocation asks for lane 9, which does not exist, and
    gets its own value.

    Args:
        name: Name of the function, such as "group_sum" or "subgroup_shuffle".
        arguments: Arguments of the call of each invocation, axis 0 changing fastest: none for a barrier, else a value,
            and for a shuffle also the lane (index in the subgroup) that is read.
    """
    if name == "barrier":
        return [None] * len(arguments)
    size = SUBGROUP_SIZE if name.startswith("subgroup_") else len(arguments)
    results: list[Any] = []
    for begin in range(0, len(arguments), size):  # one group or subgroup
        values = [call[0] for call in arguments[begin : begin + size]]
        match name.partition("group_")[2]:  # the part after "group_" or "subgroup_"
            case "sum" | "max" | "min" as word:
                # The order of the additions matters for floats: `subgroup_sum` states it.
                results += [_in_pairs(_COMBINERS[word], values)] * len(values)
            case "ballot":
                bit_mask = sum(bool(value) << lane for lane, value in enumerate(values))
                results += [np.uint32(bit_mask)] * len(values)
            case _:  # "shuffle"
                sources = [call[1] for call in arguments[begin : begin + size]]  # the lane that each lane reads
                results += [  # a lane that the subgroup lacks yields the own value, as `subgroup_shuffle` states
                    values[source] if 0 <= source < len(values) else values[own] for own, source in enumerate(sources)
                ]
    return results


_COMBINERS: dict[str, Callable[[Any, Any], Any]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
"""Functions of reductions over a workgroup, by the end of the collective's name."""


def _in_pairs(combine: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Combine adjacent pairs of values, then adjacent pairs of these results, and so on until one value is left.

    If the number of values is odd, the last one goes to the next level unchanged. `subgroup_sum` states this order.
    """
    values = [np.asarray(value)[()] for value in values]
    while len(values) > 1:
        pairs = [combine(*pair) for pair in zip(values[::2], values[1::2], strict=False)]
        values = [*pairs, values[-1]] if len(values) % 2 else pairs
    return values[0]


def _refuse_nested(invocation: Invocation, name: str, arguments: tuple[Any, ...]) -> NoReturn:
    """Raise KernelError for a collective that a function called by the kernel executes.

    Invocations call it instead of `_Turns.meet` if no statement of the kernel itself is a collective.
    """
    raise KernelError(f"pydispatch.{name} in a function that the kernel calls: call it in the kernel itself")


def run_workgroup(
    run: Run,
    group: Sequence[int],
    extents: Sequence[int],
    counts: Sequence[int],
    *,
    is_whole: bool,
    has_collectives: bool,
) -> None:
    """Run one workgroup: its invocations one after the other, or in threads if they wait for each other.

    Args:
        run: Runs the body of the kernel for `functions.running.invocation`, which this function sets.
        group: Index of the workgroup along each axis.
        extents: Invocations of a workgroup along each axis.
        counts: Workgroups along each axis.
        is_whole: Whether one invocation, without a local index, computes the whole workgroup: the kernel has tiles.
        has_collectives: Whether statements of the kernel call collectives, functions that all invocations call
            together, such as `barrier`. Each invocation then needs a thread.
    """
    memory: list[ArrayView] = []  # workgroup memory, in the order of its allocation by the invocations
    turns = _Turns()
    # `meet` waits in a collective. If no statement of the kernel is one, there are no threads that could wait: a
    # collective can then only be in a function that the kernel calls, which is an error.
    meet = turns.meet if has_collectives else _refuse_nested
    # Indices in the workgroup, axis 0 changing fastest, so that neighbours are in the same subgroup.
    indices = [index[::-1] for index in itertools.product(*map(range, reversed(extents)))]
    locals_: list[tuple[int, ...] | None] = [None] if is_whole else [*indices]
    invocations = [Invocation(local, group, extents, counts, memory, meet) for local in locals_]
    if has_collectives:
        turns.run(invocations, run)
        return
    before = getattr(functions.running, "invocation", None)  # of a kernel that calls this one
    try:
        for invocation in invocations:
            functions.running.invocation = invocation
            with np.errstate(all="ignore"):  # kernels overflow and divide by 0 without a warning
                run()
    finally:
        functions.running.invocation = before
