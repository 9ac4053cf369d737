"""Functions with control flow, state or checks: the host runs their steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pydispatch._core.commands import Command
from pydispatch._core.flops import flops_of
from pydispatch._core.pickling import refuse
from pydispatch._core.profile import Profile, Timing, check_runs, timing_of
from pydispatch.errors import InvalidArgumentError
from pydispatch.runtime.accelerators.context import NATIVE_TYPES, DeviceMemory
from pydispatch.runtime.accelerators.outputs import check_apart, check_out
from pydispatch.runtime.accelerators.public import Callee
from pydispatch.runtime.accelerators.submit import Submitted, check_workers
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from pydispatch._core.procedure import Procedure
    from pydispatch.runtime.accelerators.execute import Executor
    from pydispatch.runtime.accelerators.plan import DevicePlan


@dataclass
class _CommandTime:
    """Accumulated time of a command that a procedure runs several times.

    Attributes:
        command: The command.
        constants: Push constants of its last run.
        text: Description of the command.
        seconds: Total time of all runs.
        runs: Number of runs, over all measured calls.
    """

    command: Command
    constants: bytes
    text: str
    seconds: float = 0.0
    runs: int = 0

    def timing(self, stated_flops: Mapping[int, list[Any]], calls: int) -> Timing:
        """Return the time of the command per call of the procedure: the total time divided by `calls`.

        calls: number of calls that were measured. In each, a loop may run the command several times.
        stated_flops: index of an executable → operations of each of its exports, as the manifest states them.
        """
        flops = flops_of(self.command, stated_flops, self.constants)
        runs_per_call = max(1, round(self.runs / calls))  # at least 1: a command may run in some of the calls only
        return timing_of(self.text, self.seconds / calls, self.command, flops, runs_per_call)


class AcceleratorProcedure(Submitted, Callee):
    """Function with control flow, state or checks: the host runs its steps, the device the dispatches between them.

    The C core runs the steps of a call, and calls the executor for each plan of dispatches. Tensors stay on the device;
    the host reads only elements that decide control flow. Arguments and results are those of `AcceleratorFunction`.
    """

    BUFFER: type[Buffer] = Buffer
    """Class of the buffers that calls return."""

    def __init__(self, procedure: Procedure, device: Any, executor: Executor, flops: Mapping[int, list[Any]]) -> None:
        """Create the function over `procedure`, the function in the C core.

        executor: runs the dispatches. flops: index of an executable → operations of each of its exports, for profiles.
        """
        self._procedure, self._device, self._executor = procedure, device, executor
        self._context = device._context
        self._order = procedure.order  # lets submitted calls run one after the other
        super().__init__(procedure, self._context.name)
        self.results = procedure.results  # (element type, rank; None for a number) of each result
        self._flops = flops

    _keeps_order = True  # calls run in the order of submission, because they may change the program's state

    def __call__(self, *args: Any, out: Any = None, workers: int | None = None, **named: Any) -> Any:
        """Run the procedure, and return its results. The host runs the steps, the device the kernels."""
        check_workers(self.name, workers)
        return self._call(self._converted(self._arranged(args, named)), out)

    def _call(self, converted_args: tuple[Any, ...], out: Any) -> Any:
        """Run the procedure and return the value of the call.

        converted_args: buffers of the device, arrays and numbers. out: output for the result, or a tuple with an output
        or None for each result; None for new buffers.
        """
        outs = self._checked_outputs(out)
        values = self._run_call(converted_args)
        # The run has determined the shapes of the results: check the outputs against them.
        for i, (value, (element, rank), output) in enumerate(zip(values, self.results, outs, strict=True)):
            is_number = rank is None
            shape = None if is_number else value[1]  # `value` is (memory, shape, element type, bytes)
            check_out(f"@{self.name}: out {i}", output, element, is_number, shape)
        results = [self._result(value, output) for value, output in zip(values, outs, strict=True)]
        if not results:
            return None
        return results[0] if len(results) == 1 else tuple(results)

    def _run_call(self, args: tuple[Any, ...]) -> list[Any]:
        """Run a call and return its results: numbers, or (memory, shape, element type, bytes) of tensors.

        The C core runs the procedure and calls the executor back for each step. If a callback raises (an error of the
        device or of a host command, or an exception of a signal handler), the core passes on only a status. The
        exception itself is stored in `Executor.raised`, under the id of the thread; this method raises it unchanged.

        args: buffers of the device, arrays and numbers, in the order of the signature.

        Raises:
            DeviceUnavailableError: The device is closed or lost. That is an error also if no step runs commands.
        """
        self._context.require_usable()
        raised, here = self._executor.raised, threading.get_ident()
        try:
            try:
                return self._procedure.on_device(args)
            except BaseException:
                error = raised.pop(here, None)
                if error is None:  # no callback has raised: an error of the core itself
                    raise
            try:
                raise error  # outside of the handler, so that the core's error is not its context
            finally:
                del error  # its traceback refers to this frame: a cycle, which would keep arguments alive
        finally:
            raised.pop(here, None)  # the next call of this thread must not raise an exception of this one

    def _checked_outputs(self, out: Any) -> list[Any]:
        """Return one output per result, checked before the procedure runs; None for a result without output.

        Raises:
            InvalidArgumentError: An output has the wrong type, or shares memory with another one.
        """
        count = len(self.results)
        if out is None:
            return [None] * count
        outs = list(out) if isinstance(out, tuple) else [out]
        if len(outs) != count:
            raise InvalidArgumentError(f"@{self.name}: out: expected {count} buffers, got {len(outs)}")
        for i, (output, (element, rank)) in enumerate(zip(outs, self.results, strict=True)):
            check_out(f"@{self.name}: out {i}", output, element, is_number=rank is None, shape=None)
        check_apart(self.name, outs)
        return outs

    def _converted(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arguments, in order, as `_run_call` takes them."""
        return tuple(map(self._argument, args))

    def _argument(self, argument: Any) -> Any:
        """Convert an argument to a device buffer that kernels can access in place, an array or a number.

        The C core copies arrays to the device.
        """
        context = self._context
        if context.convert is not None and not isinstance(argument, NATIVE_TYPES):
            argument = context.convert(argument)  # an array of another library as a buffer over the same memory
        if not isinstance(argument, Buffer):
            return argument
        if not self._is_on_device(argument):
            return argument.numpy()
        if self._executor.can_use_in_place(argument.memory.block):  # type: ignore[attr-defined]
            return argument
        # Kernels cannot access this memory, such as memory of another library at an unaligned address: copy it.
        memory = self._executor.acquire(argument.nbytes)
        context.copy(argument.memory.block, memory.block, argument.nbytes)  # type: ignore[attr-defined]
        return Buffer(memory, argument.shape, argument.element, argument.nbytes)

    def _is_on_device(self, buffer: Buffer) -> bool:
        """Return whether a buffer is in the memory of this device."""
        return isinstance(buffer.memory, DeviceMemory) and buffer.memory.context is self._context

    def _result(self, value: Any, out: Any) -> Any:
        """Return one result of a call, copied into `out` unless that is None.

        value: a number, or (memory, shape, element type, bytes) of a tensor.
        """
        if not isinstance(value, tuple):
            return value  # a number
        result = self.BUFFER(*value)
        if isinstance(out, np.ndarray):
            np.copyto(out, result.numpy(), casting="no")
        elif isinstance(out, Buffer) and self._is_on_device(out):
            self._context.copy(result.memory.block, out.memory.block, result.nbytes)  # type: ignore[attr-defined]
        elif isinstance(out, Buffer):
            out.upload(result.numpy())
        return result if out is None else out

    def prepare(
        self, *args: Any, out: Any = None, workers: int | None = None, fresh: bool = False, **named: Any
    ) -> PreparedProcedure:
        """Check and bind the arguments, and return a prepared call.

        Args:
            args: The arguments, in order. Arrays are read again in each run, and must be contiguous.
            out: Buffers or arrays that receive the results; without it each run returns new buffers.
            workers: Number from 1 to 1024, which has no effect on this device.
            fresh: Must not be combined with `out`; it has no other effect, since results are new without `out`.
            named: Arguments by name.
        """
        check_workers(self.name, workers)
        self._public.check_fresh(fresh, out)
        self._checked_outputs(out)
        return PreparedProcedure(self, self._arranged(args, named), out)

    def profile(self, *args: Any, runs: int = 1, **named: Any) -> Profile:
        """Measure the device time of each command of a call.

        A command that runs several times has one timing. runs: number of measured runs, of which the mean is reported,
        after one warm-up run. Each run changes the state of the program.
        """
        check_runs(self.name, runs)
        # (function of the plan, index of the command in the plan, description) → time
        command_times: dict[tuple[int, int, str], _CommandTime] = {}

        def observe(device_plan: DevicePlan, constants: bytes, timings: list[Timing]) -> None:
            """Add the times of a plan's commands to `command_times`."""
            for index, (command, timing) in enumerate(zip(device_plan.commands, timings, strict=True)):
                label = timing.command
                key = device_plan.data.function, index, label
                command_time = command_times.setdefault(key, _CommandTime(command, constants, label))
                command_time.seconds += timing.seconds
                command_time.runs += 1

        self(*args, **named)  # warm-up, which is not observed
        observers, thread = self._executor.observers, threading.get_ident()
        start = time.perf_counter()
        try:
            observers[thread] = observe
            for _ in range(runs):
                self(*args, **named)
        finally:
            elapsed = time.perf_counter() - start
            observers.pop(thread, None)
        device_seconds = sum(command_time.seconds for command_time in command_times.values())
        timings = [command_time.timing(self._flops, runs) for command_time in command_times.values()]
        host_seconds = max(0.0, elapsed - device_seconds) / runs  # outside of commands
        return Profile(timings, call=None, outside=host_seconds)

    def close(self) -> None:
        """Release all plans."""
        self._procedure.close()


class PreparedProcedure:
    """Call of a procedure with bound arguments. `p()` runs it on them; `p(c, d)` first binds c and d instead.

    Each run returns new buffers unless `out=` was passed to `prepare`.
    """

    def __init__(self, procedure: AcceleratorProcedure, args: tuple[Any, ...], out: Any) -> None:
        """Check and bind the arguments.

        Args:
            procedure: The procedure.
            args: The arguments, in order.
            out: Buffers or arrays that receive the results; None for new buffers.
        """
        self._procedure, self._out = procedure, out
        procedure._procedure.check_prepared(procedure._converted(args))  # raises for arguments that do not fit
        self._args = args

    def __reduce__(self) -> NoReturn:
        refuse("prepared call")

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the procedure on the bound arguments. If arguments are passed, all of them, bind these before.

        Raise InvalidArgumentError for arguments that do not fit; then the earlier ones remain bound.
        """
        procedure = self._procedure
        if named:
            args = procedure._arranged(args, named)
        converted = procedure._converted(args or self._args)
        if args:
            procedure._procedure.check_prepared(converted)
            self._args = args
        return procedure._call(converted, self._out)
