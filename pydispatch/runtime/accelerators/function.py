"""Functions of a program on an accelerator: a call binds its arguments to a plan, which the executor runs.

A call chooses the plan for the sizes of its arguments: `Plan` in the C core, `DevicePlan` as the device runs it. The
commands of a plan refer to buffers by index; `blocks` has the device memory of each buffer in one run.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from pydispatch._core.device import DeviceFunction
from pydispatch._core.flops import flops_of
from pydispatch._core.plan_data import data_of
from pydispatch._core.profile import Profile, timing_of
from pydispatch._core.trace import Kind
from pydispatch.errors import InvalidArgumentError
from pydispatch.runtime.accelerators import traced
from pydispatch.runtime.accelerators.context import NATIVE_TYPES, DeviceMemory, bytes_of
from pydispatch.runtime.accelerators.outputs import check_apart, check_out, share_memory
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan
from pydispatch.runtime.accelerators.prepared import Prepared
from pydispatch.runtime.accelerators.public import Callee
from pydispatch.runtime.accelerators.submit import Submitted, check_workers
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from pydispatch._core.arrays import ElementType
    from pydispatch._core.plan import Plan
    from pydispatch._core.program import Module
    from pydispatch.runtime.accelerators.execute import Executor


class AcceleratorFunction(Submitted, Callee):
    """Function of a loaded program on an accelerator: `f(*args, out=None, workers=None, **named)`.

    A call binds its arguments to a plan of the C core for their sizes, finds or acquires the memory of each buffer of
    the plan, and passes both to the executor. Arguments are device buffers, used in place, or arrays, which are copied.
    The call returns a `pydispatch.Buffer` or number for one result, a tuple for several and None for none. `out=` takes
    one device buffer or array per result. `workers=` has no effect. Calls are thread-safe.
    """

    PREPARED: type[Prepared] = Prepared
    """Class of prepared calls."""

    def __init__(self, module: Module, index: int, executor: Executor) -> None:
        """Create function `index` of a module. executor: runs its plans."""
        self._core = DeviceFunction(module, index, Buffer)  # the function in the C core
        context = executor.context
        # Devices with `convert` also take arrays of other libraries.
        self._bind = self._core.bind if context.convert is None else self._bind_converted
        self._executor, self._context = executor, context
        self._acquire, self._release, self._borrow = context.acquire, context.release, context.borrow
        super().__init__(self._core.function, context.name)
        self._results = self._core.function.results  # (element type, rank) of each result
        self._flops = module.flops  # index of an executable → operations of each of its exports
        ranks = [rank for _, rank in self._results]
        self._has_one_tensor_result = len(ranks) == 1 and ranks[0] is not None  # a number has no rank

    @property
    def results(self) -> list[tuple[ElementType, int | None]]:
        """(element type, rank) of each result; the rank of a number is None."""
        return self._results

    def __call__(self, *args: Any, out: Any = None, workers: int | None = None, **named: Any) -> Any:
        """Call the function and return its value; the device may compute the content of results later.

        Args:
            args: Arrays and numbers, in the order of the signature.
            out: Arrays that receive the results; None for new ones.
            workers: Number from 1 to 1024, which has no effect on this device.
            named: Arguments by name.
        """
        if workers is not None:
            check_workers(self.name, workers)
        if named:
            args = self._arranged(args, named)
        if traced.is_on():
            with traced.span(Kind.CALL, self.name):
                return self._call(args, out)
        return self._call(args, out)

    def _call(self, args: tuple[Any, ...], out: Any) -> Any:
        """Run a call and return its value.

        args: all arguments, in the order of the signature. out: arrays that receive the results; None for new ones.
        """
        plan, inputs, scalars = self._bind(args)
        device_plan = plan.device
        if device_plan is None:  # a new plan: it is converted for the device once
            device_plan = plan.device = self._executor.keep(data_of(plan))
        if out is None:
            results = self._run(plan, device_plan, inputs, scalars, None)
            return results[0] if self._has_one_tensor_result else self._value(results)
        return self._run_into(plan, device_plan, inputs, scalars, out)

    def _bind_converted(
        self, args: tuple[Any, ...], plan: Plan | None = None, copies: bool = True
    ) -> tuple[Plan, list[Any], bytes]:
        """Bind arguments, after converting device arrays of other libraries to buffers.

        Return (plan, array or buffer of each argument, bytes of scalar arguments).

        Args:
            args: All arguments, in the order of the signature.
            plan: Plan to use if it fits the arguments; None to try the plan of the call before.
            copies: Whether strided arrays are copied; else they are refused.
        """
        convert = self._context.convert
        converted = tuple(value if isinstance(value, NATIVE_TYPES) else convert(value) for value in args)
        return self._core.bind(converted, plan, copies)

    def _run(
        self,
        plan: Plan,
        device_plan: DevicePlan,
        inputs: list[Any],
        scalars: bytes,
        outputs: list[Buffer | None] | None,
    ) -> list[Any]:
        """Run a plan and return its results.

        Blocks are released in reverse order of acquisition. The pool hands out the most recently released block first,
        so that a loop of equal calls gets equal blocks.

        Args:
            plan: The plan in the C core.
            device_plan: The plan for the device.
            inputs: One item per argument: an array or buffer; None for a number.
            scalars: Bytes of the scalar arguments.
            outputs: Buffer for each result, None for a new one; None instead of a list if all results are new.
        """
        # Compute the constants, the fill patterns, and the results that are numbers. Most calls need no computation:
        # without scalar arguments, the plan has the constants and patterns.
        if scalars or not self._has_one_tensor_result:
            constants, fill_patterns, results = self._evaluate_scalars(plan, device_plan, scalars)
        else:
            constants, fill_patterns = device_plan.data.constants, device_plan.fill_patterns
            results = [None]  # one item per result; tensors are inserted below
        # Find or acquire the memory of each buffer: results, constant tensors, transients and arguments.
        blocks: Blocks = [None] * device_plan.count
        staged: list[Any] = []  # blocks to release after the run
        try:
            # `buffer_index` counts the buffers of the plan, `index` the results, constants or arguments of the
            # function.
            for buffer_index, index, size in device_plan.results:
                buffer = outputs[index] if outputs is not None else None
                if buffer is None:
                    buffer = self._buffer(device_plan, index, DeviceMemory(self._context, self._acquire(size), size))
                results[index] = buffer
                blocks[buffer_index] = buffer.memory.block  # type: ignore[attr-defined]
            for buffer_index, index in device_plan.constants:
                blocks[buffer_index] = self._executor.constant(index)
            if device_plan.transients:
                staged.append(block := self._acquire(device_plan.arena_bytes))
                blocks[device_plan.arena_index] = block
            for buffer_index, index, size in device_plan.arguments:
                blocks[buffer_index] = self._argument(inputs[index], size, staged)
            if device_plan.commands:
                traced.run(self._executor, device_plan, blocks, constants, fill_patterns)
            else:  # a call without commands does not notice by itself that the device was closed
                self._context.require_usable()
        finally:
            while staged:
                self._release(staged.pop())
        return results

    def _value(self, results: list[Any]) -> Any:
        """Return the value of a call: its result, a tuple of several, or None without results."""
        if len(results) == 1:
            return results[0]
        return tuple(results) if results else None

    def _run_into(self, plan: Plan, device_plan: DevicePlan, inputs: list[Any], scalars: bytes, out: Any) -> Any:
        """Run a plan with `out=`, and return the value of the call.

        Results are written directly to outputs on this device that share no memory with an argument or an earlier
        output; others are copied after the run. The value consists of the objects in `out`, and of new buffers for
        results without one.

        Args:
            plan: The plan in the C core.
            device_plan: The plan for the device.
            inputs: One item per argument: an array or buffer; None for a number.
            scalars: Bytes of the scalar arguments.
            out: The output, or a tuple with an output or None for each result.
        """
        # `outs` has the caller's objects, `buffers` the same as buffers or arrays. Both have None for a number, and for
        # a result without an output.
        outs, buffers = self._checked_outputs(device_plan, out)
        buffers_in_use = [argument for argument in inputs if isinstance(argument, Buffer)]
        direct_outputs: list[Buffer | None] = []
        for output in buffers:
            # A kernel may read arguments, and write other results, after it has written this one.
            is_written_directly = self._is_usable_in_place(output) and not any(
                share_memory(output, other) for other in buffers_in_use
            )
            if is_written_directly:
                buffers_in_use.append(output)
            direct_outputs.append(output if is_written_directly else None)
        results = self._run(plan, device_plan, inputs, scalars, direct_outputs)
        for i, (output, result) in enumerate(zip(buffers, results, strict=True)):
            if output is None:
                continue
            if result is not output:
                self._copy_to_output(result, output)
            results[i] = outs[i]
        return self._value(results)

    def _checked_outputs(self, device_plan: DevicePlan, out: Any) -> tuple[list[Any], list[Any]]:
        """Return two lists with one item per result: the `out` objects as passed, and the same as buffers or arrays.

        Raises:
            InvalidArgumentError: An output has the wrong type or shape, or shares memory with another one.
        """
        outs = list(out) if isinstance(out, tuple) else [out]
        if len(outs) != len(self._results):
            raise InvalidArgumentError(f"@{self.name}: out: expected {len(self._results)} buffers, got {len(outs)}")
        buffers: list[Any] = outs
        # Objects of other libraries, such as a tensor of PyTorch on this device, become buffers over their memory.
        convert = self._context.convert
        if convert is not None:
            buffers = [
                output if output is None or isinstance(output, NATIVE_TYPES) else convert(output, is_out=True)
                for output in outs
            ]
        for i, (output, (element, rank)) in enumerate(zip(buffers, self._results, strict=True)):
            expected = device_plan.data.results[i]  # None for a number
            shape = None if expected is None else expected.shape
            check_out(f"@{self.name}: out {i}", output, element, is_number=rank is None, shape=shape)
        check_apart(self.name, buffers)
        return outs, buffers

    def _copy_to_output(self, result: Buffer, output: Any) -> None:
        """Copy a result into the output that the caller passed for it."""
        if self._is_on_device(output):
            self._context.copy(result.memory.block, output.memory.block, result.nbytes)  # type: ignore[attr-defined]
        elif isinstance(output, Buffer):
            output.upload(result.numpy())
        else:
            result.download(output)

    def _is_usable_in_place(self, value: Any) -> bool:
        """Return whether kernels can access a value without a copy."""
        return self._is_on_device(value)

    def _is_on_device(self, value: Any) -> bool:
        """Return whether a value is a buffer in the memory of this device."""
        if not isinstance(value, Buffer):
            return False
        memory = value.memory
        return isinstance(memory, DeviceMemory) and memory.context is self._context

    def _buffer(self, device_plan: DevicePlan, index: int, memory: DeviceMemory) -> Buffer:
        """Return the buffer of result `index` of the function, a tensor, over device memory."""
        result = device_plan.data.results[index]
        assert result is not None  # None is a result that is a number, which has no buffer
        element, _ = self._results[index]
        return Buffer(memory, result.shape, element, result.size)

    def _evaluate_scalars(
        self, plan: Plan, device_plan: DevicePlan, scalars: bytes
    ) -> tuple[bytes, list[int], list[Any]]:
        """Return the push constants, the fill pattern of each command, and the results, for the scalars of a call.

        A result that is a tensor is None in the list of results, which has one item per result.
        """
        constants, fill_patterns, values = self._core.compute(plan, scalars)
        # The C core has one pattern for each of its commands; the device plan may have other commands.
        return constants, [fill_patterns[i] for i in device_plan.command_indices], values

    def _copy_in_buffer(self, block: Any, source: Buffer) -> None:
        """Copy a buffer that kernels cannot access in place into a block of device memory."""
        if self._is_on_device(source):
            self._context.copy(source.memory.block, block, source.nbytes)  # type: ignore[attr-defined]
        else:
            self._context.copy_in(block, raw_bytes(source), source.nbytes)

    def _argument(self, argument: Any, size: int, staged: list[Any]) -> Any:
        """Return the block of an argument: the block of a buffer on this device, a borrowed array, or a copy.

        A borrowed block is over the memory of the array itself, which kernels read without a copy. Few devices can do
        this, and not for every array: `_borrow` is None, or returns None.

        Args:
            argument: Buffer of any device, or array.
            size: Bytes of the argument.
            staged: Receives blocks that are borrowed or acquired here, which the caller releases after the run.
        """
        if isinstance(argument, Buffer):
            if self._is_usable_in_place(argument):
                return argument.memory.block  # type: ignore[attr-defined]
            staged.append(block := self._acquire(size))
            self._copy_in_buffer(block, argument)
            return block
        if self._borrow is not None:
            block = self._borrow(argument, size)
            if block is not None:
                staged.append(block)
                return block
        staged.append(block := self._acquire(size))
        self._context.copy_in(block, bytes_of(argument), size)
        return block

    def prepare(
        self, *args: Any, out: Any = None, workers: int | None = None, fresh: bool = False, **named: Any
    ) -> Prepared:
        """Return a prepared call for arguments of these shapes.

        Args:
            args: The arguments of the first runs, in the order of the signature.
            out: Buffers or arrays for the results; without it the call owns result buffers, which the next run
                overwrites.
            workers: Number from 1 to 1024, which has no effect on this device.
            fresh: Whether each run returns new buffers, as a call does.
            named: Arguments by name.
        """
        check_workers(self.name, workers)
        self._public.check_fresh(fresh, out)
        return self.PREPARED(self, self._arranged(args, named), out, fresh)

    def _temporary_blocks(self, device_plan: DevicePlan, inputs: list[Any], staged: list[Any]) -> Blocks:
        """Return the memory of each buffer of a plan for runs whose results are not used.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            inputs: Arguments of the call.
            staged: Receives the blocks that the caller releases after the runs, also if this method raises.
        """
        blocks: Blocks = [None] * device_plan.count
        # `buffer_index` counts the buffers of the plan, `index` the constants or arguments of the function.
        for buffer_index, _, size in device_plan.results:
            staged.append(block := self._acquire(size))
            blocks[buffer_index] = block
        for buffer_index, index in device_plan.constants:
            blocks[buffer_index] = self._executor.constant(index)
        if device_plan.transients:
            staged.append(block := self._acquire(device_plan.arena_bytes))
            blocks[device_plan.arena_index] = block
        for buffer_index, index, size in device_plan.arguments:
            blocks[buffer_index] = self._argument(inputs[index], size, staged)
        return blocks

    def profile(self, *args: Any, runs: int = 1, **named: Any) -> Profile:
        """Run a call one command at a time, and return the device time of each command. Its results are discarded.

        args, named: the arguments, as for a call. runs: number of runs, of which the median is reported. Raise
        InvalidArgumentError unless it is 1 or more.
        """
        if type(runs) is not int or runs < 1:
            raise InvalidArgumentError(f"profile: runs: expected a number of 1 or more, got {runs!r}")
        plan, inputs, scalars = self._bind(self._arranged(args, named))
        device_plan = plan.device
        if device_plan is None:
            device_plan = plan.device = self._executor.keep(data_of(plan))
        constants, fill_patterns, _ = self._evaluate_scalars(plan, device_plan, scalars)
        staged: list[Any] = []  # blocks to release after the runs
        try:
            blocks = self._temporary_blocks(device_plan, inputs, staged)
            times = [self._executor.time(device_plan, blocks, constants, fill_patterns) for _ in range(runs)]
            timings = []
            for i, command in enumerate(device_plan.commands):
                text = times[0][i].command
                seconds = median(times_of_run[i].seconds for times_of_run in times)
                flops = flops_of(command, self._flops, constants)
                timings.append(timing_of(text, seconds, command, flops))
            return Profile(timings)
        finally:
            while staged:
                self._release(staged.pop())

    def plan_of(self, *args: Any, **named: Any) -> list[str]:
        """Return the commands that a call with these arguments would run, one line each."""
        return self._bind(self._arranged(args, named))[0].describe()

    def close(self) -> None:
        """Release all plans."""
        self._core.close()


def raw_bytes(buffer: Buffer) -> bytearray:
    """Return a copy of the bytes of a buffer of any device."""
    data = bytearray(buffer.nbytes)
    buffer.memory.read(memoryview(data))
    return data
