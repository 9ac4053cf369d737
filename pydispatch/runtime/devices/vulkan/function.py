"""Functions of a program on a Vulkan device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch._core.device import DeviceFunction, data_of
from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.runtime.buffer import Buffer
from pydispatch.runtime.devices.vulkan.execute import Blocks, DeviceMemory, Executor, Record, Timing

if TYPE_CHECKING:
    from pydispatch._core.arrays import ElementType
    from pydispatch._core.procedure import Procedure
    from pydispatch._core.program import Module, Plan
    from pydispatch.runtime.devices.vulkan.memory import Block
    from pydispatch.runtime.devices.vulkan.record import Recorded


class VulkanFunction:
    """`f(*args, out=None)`. Arguments are buffers of the device, which are used where they lie, or arrays, which are
    copied to it. The value is a `pydispatch.Buffer` or number for one result, a tuple for several, None for none.

    `out=` takes buffers of the device or arrays, one per result. Any thread may call.
    """

    def __init__(self, module: Module, index: int, executor: Executor) -> None:
        self._core = DeviceFunction(module, index, Buffer)
        self._bind = self._core.bind
        self._executor, self._context, self._pool = executor, executor.context, executor.context.pool
        function = self._core.function
        self.name, self.signature, self.__name__ = function.name, function.signature, function.name
        self._results = function.results
        self._simple = len(self._results) == 1 and self._results[0][1] is not None

    @property
    def arguments(self) -> list[tuple[str, ElementType, tuple[int, ...] | None]]:
        """Per argument (name or "", element type, sizes with -1 for a free one, or None for a number)."""
        return self._core.function.arguments

    @property
    def results(self) -> list[tuple[ElementType, int | None]]:
        """Per result (element type, rank, or None for a number)."""
        return self._results

    def __call__(self, *args: Any, out: Any = None) -> Any:
        plan, inputs, scalars = self._bind(args)
        record = plan.device
        if record is None:
            record = plan.device = Record(data_of(plan))
        if out is None:
            return self._value(self._run(plan, record, inputs, scalars, None))
        return self._run_into(plan, record, inputs, scalars, out)

    def _run(
        self, plan: Plan, record: Record, inputs: list[Any], scalars: bytes, given: list[Buffer | None] | None
    ) -> list[Any]:
        """The results, in `given` buffers where there are some."""
        executor, pool = self._executor, self._pool
        constants, patterns, values = record.data.constants, record.patterns, None
        if scalars or not self._simple:
            constants, patterns, values = self._compute(plan, record, scalars)
        blocks = executor.blocks(record)
        staged: list[Block] = []
        made: list[Any] = values or [None]
        try:
            for number, index, size in record.arguments:
                blocks[number] = self._argument(inputs[index], size, staged)
            for number, index, size in record.results:
                buffer = given[index] if given is not None else None
                if buffer is None:
                    buffer = self._buffer(record, index, DeviceMemory(self._context, pool.acquire(size), size))
                made[index] = buffer
                blocks[number] = buffer.memory.block  # type: ignore[attr-defined]
            if record.commands:
                executor.run(record, blocks, constants, patterns)
        finally:
            for block in staged:
                pool.release(block)
            executor.release(record, blocks)
        return made

    def _value(self, results: list[Any]) -> Any:
        """What a call returns."""
        if len(results) == 1:
            return results[0]
        return tuple(results) if results else None

    def _run_into(self, plan: Plan, record: Record, inputs: list[Any], scalars: bytes, out: Any) -> Any:
        outs = list(out) if isinstance(out, tuple) else [out]
        if len(outs) != len(self._results) or (len(outs) != 1 and not isinstance(out, tuple)):
            raise InvalidArgumentError(f"@{self.name}: out: expected {len(self._results)} buffers, got {len(outs)}")
        for i, (given, (element, rank)) in enumerate(zip(outs, self._results, strict=True)):
            self._check_out(i, given, element, None if rank is None else record.data.results[i])
        used = {id(given.memory) for given in inputs if isinstance(given, Buffer)}
        direct: list[Buffer | None] = []
        for given in outs:
            fits = (
                self._is_here(given) and id(given.memory) not in used
            )  # an argument is not overwritten while it is read
            if fits:
                used.add(id(given.memory))
            direct.append(given if fits else None)
        results = self._run(plan, record, inputs, scalars, direct)
        for i, (given, result) in enumerate(zip(outs, results, strict=True)):
            if given is None or result is given:
                continue
            if isinstance(given, Buffer):
                given.upload(result.numpy())
            else:
                result.download(given)
            results[i] = given
        return self._value(results)

    def _check_out(self, index: int, given: Any, element: ElementType, expected: tuple[Any, int] | None) -> None:
        if given is None:
            return
        where = f"@{self.name}: out {index}"
        if expected is None:
            raise InvalidArgumentError(f"{where}: result {index} is a number; expected None")
        if not isinstance(given, (Buffer, np.ndarray)):
            raise InvalidArgumentError(f"{where}: expected a buffer or an array, got {type(given).__name__}")
        if given.dtype != element.dtype or given.shape != expected[0]:
            raise InvalidArgumentError(
                f"{where}: expected {element.dtype} of shape {expected[0]}, got {given.dtype} of shape {given.shape}"
            )
        if isinstance(given, np.ndarray) and not (given.flags.c_contiguous and given.flags.writeable):
            raise InvalidArgumentError(f"{where}: expected a contiguous, writable array")

    def _is_here(self, given: Any) -> bool:
        return type(given) is Buffer and type(given.memory) is DeviceMemory and given.memory.context is self._context

    def _buffer(self, record: Record, index: int, memory: DeviceMemory) -> Buffer:
        shape = record.data.results[index]
        assert shape is not None
        element = self._results[index][0]
        return Buffer(memory, shape[0], element, shape[1])

    def _compute(self, plan: Plan, record: Record, scalars: bytes) -> tuple[bytes, list[int], list[Any]]:
        constants, patterns, values = self._core.compute(plan, scalars)
        return constants, [patterns[i] for i in record.data.numbers], values

    def _argument(self, given: Any, size: int, staged: list[Block]) -> Block:
        """The block of an argument; one that is not on the device is copied there."""
        if type(given) is Buffer:
            memory = given.memory
            if type(memory) is DeviceMemory and memory.context is self._context:
                return memory.block
            staged.append(block := self._pool.acquire(size))
            self._context.copy_in(block, 0, _raw(given), given.nbytes)
            return block
        block = self._pool.acquire(size)
        staged.append(block)
        self._context.copy_in(block, 0, _bytes_of(given, self._context), size)
        return block

    def prepare(self, *args: Any, out: Any = None) -> VulkanPrepared:
        """Fixes the shapes of `args`. The returned call owns its results unless it is given some."""
        return VulkanPrepared(self, args, out)

    def profile(self, *args: Any) -> list[Timing]:
        """Runs once, one command after the other, and returns how long each took on the device."""
        plan, inputs, scalars = self._bind(args)
        record = plan.device
        if record is None:
            record = plan.device = Record(data_of(plan))
        constants, patterns, _ = self._compute(plan, record, scalars)
        executor, staged = self._executor, []  # type: tuple[Executor, list[Block]]
        blocks = executor.blocks(record)
        try:
            for number, index, size in record.arguments:
                blocks[number] = self._argument(inputs[index], size, staged)
            for number, _, size in record.results:
                block = blocks[number] = self._pool.acquire(size)
                staged.append(block)
            return executor.time(record, blocks, constants, patterns)
        finally:
            for block in staged:
                self._pool.release(block)
            executor.release(record, blocks)

    def plan_of(self, *args: Any) -> list[str]:
        """The commands that a call with these arguments would run, one line each."""
        return self._bind(args)[0].describe()

    def close(self) -> None:
        """Forgets every plan."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<function @{self.name}{self.signature} on vulkan:{self._context.index}>"


class VulkanPrepared:
    """A call with fixed shapes. `p()` runs it on the same arguments, reading arrays again; `p(c, d)` takes others of
    the same shapes first. It owns its results unless it was given some: the next run overwrites them."""

    def __init__(self, function: VulkanFunction, args: tuple[Any, ...], out: Any) -> None:
        self._function, self._context = function, function._context
        self._plan, self._inputs, self._scalars = function._bind(args)
        if self._plan.device is None:
            self._plan.device = Record(data_of(self._plan))
        self._out, self._busy = out, False
        self._run: Run | None = None
        if out is None:
            self._run = Run(function, self._plan, self._plan.device)
            self._run.bind(self._inputs, self._scalars)

    def __call__(self, *args: Any) -> Any:
        function = self._function
        if function._core.closed:
            raise Error(f"@{function.name}: its program was closed")
        if self._busy:
            raise Error(f"@{function.name}: this prepared call is running already; prepare one per thread")
        self._busy = True
        try:
            if args:
                self._rebind(args)
            if self._run is None:
                return function._run_into(self._plan, self._plan.device, self._inputs, self._scalars, self._out)
            return self._run()
        finally:
            self._busy = False

    def _rebind(self, args: tuple[Any, ...]) -> None:
        plan, inputs, scalars = self._function._bind(args)
        if plan is not self._plan:
            raise InvalidArgumentError(
                f"@{self._function.name}: prepared for arguments of other shapes (or another value of a scalar that "
                "decides a size); prepare another call for them"
            )
        self._inputs, self._scalars = inputs, scalars
        if self._run is not None:
            self._run.bind(inputs, scalars)

    @property
    def commands(self) -> list[str]:
        """What a run does, one line per command."""
        return self._plan.describe()


class Run:
    """What a prepared call owns: memory for arguments that are arrays, for its results and its transients, and one
    recording over them."""

    def __init__(self, function: VulkanFunction, plan: Plan, record: Record) -> None:
        self.function, self.plan, self.record = function, plan, record
        context, pool = function._context, function._pool
        self.context, self.executor = context, function._executor
        self.results: list[Any] = [None] * len(function.results)
        for _, index, size in record.results:
            memory = DeviceMemory(context, pool.acquire(size), size)
            self.results[index] = function._buffer(record, index, memory)
        self.arena = DeviceMemory(context, pool.acquire(record.data.arena_bytes), 0) if record.transients else None
        self.own: dict[int, DeviceMemory] = {}  # of array arguments, by buffer
        self.copies: list[tuple[Block, Any, int]] = []
        self.recorded: Recorded | None = None
        self.bound: tuple[Any, ...] | None = None

    def bind(self, inputs: list[Any], scalars: bytes) -> None:
        """Takes other arguments of the same shapes; records again where their memory, or what follows the scalars, is
        another."""
        record, function = self.record, self.function
        self.copies = []
        blocks: Blocks = [None] * record.count
        for number, index in record.constants:
            blocks[number] = self.executor.constant(index)
        for number, index, size in record.arguments:
            given = inputs[index]
            if function._is_here(given):
                blocks[number] = given.memory.block
                continue
            if number not in self.own:
                self.own[number] = DeviceMemory(self.context, function._pool.acquire(size), size)
            block = blocks[number] = self.own[number].block
            self.copies.append((block, given if isinstance(given, Buffer) else _bytes_of(given, self.context), size))
        for number, index, _ in record.results:
            blocks[number] = self.results[index].memory.block
        if self.arena is not None:
            blocks[-1] = self.arena.block
        constants, patterns, values = function._compute(self.plan, record, scalars)
        for i, (_, rank) in enumerate(function.results):
            if rank is None:
                self.results[i] = values[i]
        self.value = function._value(self.results)
        self.inputs, self.blocks, self.words = inputs, blocks, (constants, patterns)
        bound = (tuple(block.number if block is not None else 0 for block in blocks), constants, tuple(patterns))
        if bound != self.bound:
            self.bound, self.recorded = bound, None

    def __call__(self) -> Any:
        context = self.context
        for block, given, size in self.copies:
            if isinstance(given, Buffer):
                given = _raw(given)
            context.copy_in(block, 0, given, size)
        recorded = self.recorded
        if self.record.commands:
            with context.lock:
                if recorded is None or recorded.epoch != context.pool.epoch:
                    recorded = self.recorded = self.executor.record(self.record, self.blocks, *self.words)
                context.submit(recorded.submission)
            context.wait(recorded.submission)
        return self.value


class VulkanProcedure:
    """A function with control flow, state or checks: the host runs its steps, the device its pieces. Arguments and
    results are as for `VulkanFunction`."""

    def __init__(self, procedure: Procedure, device: Any) -> None:
        self._procedure, self._device = procedure, device
        self.name, self.signature, self.__name__ = procedure.name, procedure.signature, procedure.name
        self.arguments, self.results = procedure.arguments, procedure.results

    def __call__(self, *args: Any, out: Any = None) -> Any:
        values = self._procedure(*(a.numpy() if isinstance(a, Buffer) else a for a in args))
        results = list(values) if isinstance(values, tuple) else [] if values is None else [values]
        outs = list(out) if isinstance(out, tuple) else [out] * len(results)
        found = [self._result(v, kind, o) for v, (kind, _), o in zip(results, self.results, outs, strict=True)]
        return (found[0] if len(found) == 1 else tuple(found)) if found else None

    def _result(self, value: Any, element: ElementType, out: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if isinstance(out, np.ndarray):
            np.copyto(out, value, casting="no")
            return out
        made = out if isinstance(out, Buffer) else self._device.empty(value.shape, element)
        made.upload(value)
        return made

    def prepare(self, *args: Any, out: Any = None) -> Any:
        """A call with these arguments."""
        return lambda *others: self(*(others or args), out=out)

    def close(self) -> None:
        """Forgets every plan."""
        self._procedure.close()


def _raw(buffer: Buffer) -> bytearray:
    """The bytes of a buffer of another device."""
    data = bytearray(buffer.nbytes)
    buffer.memory.read(memoryview(data))
    return data


def _bytes_of(array: Any, context: Any) -> Any:
    """What cffi can copy from: the array, or its address where NumPy offers no buffer (types of ml_dtypes)."""
    if array.dtype.kind != "V" and array.dtype.isbuiltin == 1:
        return array
    return context.ffi.cast("char*", array.__array_interface__["data"][0])
