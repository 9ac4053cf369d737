"""Execution of plans with host commands, split where the device cannot run a host command itself."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

from pydispatch._core.commands import Custom
from pydispatch._core.profile import Timing
from pydispatch.runtime.accelerators.execute import Executor
from pydispatch.runtime.accelerators.host_calls import HostCalls
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan


class CommandExecutor:
    """Executor of a program with host commands, a wrapper of the device's executor with the same interface.

    It splits each plan into device plans, which the wrapped executor runs, and the host commands between them. Plans
    without host commands are passed on.

    Attributes:
        inner: Executor of the device plans. Its `surroundings` returns the device state that a command receives.
        calls: Caller of the host commands.
        raised: Id of a thread → exception that ends the procedure (function with loops and branches on the host) that
            the thread runs. The C core passes only a status, so the exception itself is stored here meanwhile.
    """

    def __init__(self, inner: Executor, calls: HostCalls) -> None:
        """Create the executor, and make `calls` available to the executor of the device plans, too."""
        self.inner, self.calls = inner, calls
        self.raised: dict[int, BaseException] = {}
        inner.calls = calls

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped executor.

        A method that the wrapped executor inherits from `Executor` is bound to this object instead. If the method calls
        `self.run`, the `run` of this class splits the plan at host commands.
        """
        base_method: Any = vars(Executor).get(name)
        is_inherited = callable(base_method) and getattr(type(self.inner), name) is base_method
        if is_inherited:
            return base_method.__get__(self)
        return getattr(self.inner, name)

    def fix(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> Any:
        """Return a repeatable run of a plan over fixed memory.

        It calls `run` of this object, with these arguments, each time. `fix` of the wrapped executor is not used,
        because a run that it returns would omit the host commands.
        """
        return Executor.fix(self, device_plan, blocks, constants, fill_patterns)  # type: ignore[arg-type]

    def run(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Run or enqueue all commands of a plan: host commands here, the segments between them on the device.

        A host command is a function of the user that is called between dispatches. A segment is one host command, or
        the plan of the device commands between two of them.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Memory of each buffer of the plan.
            constants: 32-bit words that the commands read in this call.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.

        Raises:
            InvalidArgumentError: This thread is running a host command of the same program.
        """
        self.calls.require_outside_host_command()
        segments = self._segments(device_plan)
        if segments is None:  # no command runs on the host
            self.inner.run(device_plan, blocks, constants, fill_patterns)
            return
        for first_command, segment in segments:
            if isinstance(segment, Custom):
                self._call(device_plan, segment, blocks, constants)
            else:
                own_patterns = fill_patterns[first_command : first_command + len(segment.commands)]
                self.inner.run(segment, blocks, constants, own_patterns)

    def time(
        self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]
    ) -> list[Timing]:
        """Run the commands one at a time, and return the time that each took.

        The time of a device command is measured on the device. The time of a host command is that until it returns, on
        the clock of the host.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Memory of each buffer of the plan.
            constants: 32-bit words that the commands read in this call.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.

        Raises:
            InvalidArgumentError: This thread is running a host command of the same program.
        """
        self.calls.require_outside_host_command()
        segments = self._segments(device_plan)
        if segments is None:
            return self.inner.time(device_plan, blocks, constants, fill_patterns)
        timings: list[Timing] = []
        for first_command, segment in segments:
            if isinstance(segment, Custom):
                begin = time.perf_counter()
                self._call(device_plan, segment, blocks, constants)
                timings.append(Timing(self.calls.label(segment), time.perf_counter() - begin))
            else:
                own_patterns = fill_patterns[first_command : first_command + len(segment.commands)]
                timings += self.inner.time(segment, blocks, constants, own_patterns)
        return timings

    def _call(self, device_plan: DevicePlan, command: Custom, blocks: Blocks, constants: bytes) -> None:
        """Call a host command of a plan. For a synchronous command, first wait for all submitted work."""
        synchronous = self.calls.commands[command.command].synchronous
        surroundings = self.inner.surroundings(synchronous)  # waits, and returns the device state for the command
        self.calls.call(device_plan.data.function, command, blocks, constants, surroundings)

    def _splits_plan(self, command: Any) -> bool:
        """Return whether a command is a host command that must be called between two runs of the device.

        Such a command splits the plan. Other host commands only record into the device's command buffer, so the device
        calls them within a run.
        """
        if not isinstance(command, Custom):
            return False
        return self.inner.cuts_at(self.calls.commands[command.command].synchronous)

    def _segments(self, device_plan: DevicePlan) -> list[tuple[int, Any]] | None:
        """Return the segments of a plan in order; None for a plan that no host command splits.

        A segment is (index of its first command in the plan, a host command or the plan of a range of other commands).
        For the commands [dispatch, copy, host command, dispatch] they are [(0, plan of dispatch and copy), (2, host
        command), (3, plan of dispatch)].
        """
        if device_plan.segments is not None:
            return device_plan.segments or None
        device_plan.segments = []  # cached; empty without a split
        splits = [index for index, command in enumerate(device_plan.commands) if self._splits_plan(command)]
        if splits:
            begin = 0  # first command after the previous host command
            for index in splits:
                if index > begin:  # else two host commands follow each other
                    device_plan.segments.append((begin, _subplan(device_plan, begin, index)))
                device_plan.segments.append((index, device_plan.commands[index]))
                begin = index + 1
            if begin < len(device_plan.commands):
                device_plan.segments.append((begin, _subplan(device_plan, begin, len(device_plan.commands))))
        return device_plan.segments or None


def _subplan(device_plan: DevicePlan, first: int, end: int) -> DevicePlan:
    """Return commands `first` to `end` - 1 of a plan as a plan over the same blocks."""
    subplan = copy.copy(device_plan)
    subplan.state, subplan.segments = None, []  # the copied caches are those of the whole plan
    subplan.commands, subplan.command_indices = device_plan.commands[first:end], device_plan.command_indices[first:end]
    subplan.fill_patterns = device_plan.fill_patterns[first:end]
    return subplan
