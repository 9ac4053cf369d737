"""Prepared calls of functions on accelerators: their shapes are fixed, so that a call only binds memory.

They have one plan, the commands of a function for these shapes: `Plan` in the C core, `DevicePlan` as the device runs
it. Commands refer to buffers by index; `blocks` has the device memory of each buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pydispatch._core.pickling import refuse
from pydispatch._core.plan_data import data_of
from pydispatch._core.trace import Kind
from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.runtime.accelerators import traced
from pydispatch.runtime.accelerators.context import DeviceMemory, bytes_of
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from pydispatch._core.plan import Plan
    from pydispatch.runtime.accelerators.execute import Fixed


class Preparable(Protocol):
    """Interface of functions that support prepared calls: their device, and the steps that a call consists of.

    Attributes:
        name: Name of the function.
        _context: The device's Context.
        _core: Function of the C core (`DeviceFunction`).
        _executor: Executor of the program.
        _bind: `DeviceFunction.bind`: returns (plan, array or buffer of each argument, bytes of scalar arguments).
    """

    name: str
    _context: Any
    _core: Any
    _executor: Any
    _bind: Any

    @property
    def results(self) -> Any:
        """(element type, rank) of each result; the rank of a number is None."""

    def _arranged(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return positional and named arguments in the order of the signature."""

    def _run(self, plan: Plan, device_plan: DevicePlan, inputs: list[Any], scalars: bytes, outputs: None) -> list[Any]:
        """Run a plan, and return its new results."""

    def _run_into(self, plan: Plan, device_plan: DevicePlan, inputs: list[Any], scalars: bytes, out: Any) -> Any:
        """Run a plan with `out=`, and return the value of the call."""

    def _buffer(self, device_plan: DevicePlan, index: int, memory: DeviceMemory) -> Buffer:
        """Return the buffer of a result over device memory."""

    def _is_usable_in_place(self, value: Any) -> bool:
        """Return whether kernels can access a value without a copy."""

    def _checked_outputs(self, device_plan: DevicePlan, out: Any) -> tuple[list[Any], list[Any]]:
        """Return the `out` objects, and the same as buffers or arrays. Raise InvalidArgumentError for wrong ones."""

    def _evaluate_scalars(
        self, plan: Plan, device_plan: DevicePlan, scalars: bytes
    ) -> tuple[bytes, list[int], list[Any]]:
        """Evaluate the host code for the scalars of a call.

        Return the push constants of the dispatches, the fill pattern of each command, and the value of each result that
        is a number (None for a tensor).
        """

    def _value(self, results: list[Any]) -> Any:
        """Return the value of a call: its result, a tuple of several, or None without results."""

    def _copy_in_buffer(self, block: Any, source: Buffer) -> None:
        """Copy a buffer that kernels cannot access in place into a block of device memory."""


class Prepared:
    """Call with fixed shapes. `p()` runs it on the same arguments; `p(c, d)` first binds others of the same shapes.

    Array arguments are read again in each run. Results that the prepared call owns are overwritten by the next run.
    """

    def __init__(self, function: Preparable, args: tuple[Any, ...], out: Any, fresh: bool) -> None:
        """Prepare a call.

        Args:
            function: The function.
            args: The arguments, in order.
            out: Buffers or arrays that receive the results; None for buffers that the prepared call owns.
            fresh: Whether each run returns new buffers instead; `out` is None then.
        """
        self._function, self._context = function, function._context
        # Strided arrays are refused: a copy made here would not have the content that later runs must read.
        self._plan, tensors, scalars = function._bind(args, copies=False)
        self._inputs: list[Any] = [tensors, scalars]  # arrays or buffers (None for a number), bytes of all numbers
        if self._plan.device is None:  # the plan as the device runs it
            self._plan.device = function._executor.keep(data_of(self._plan))
        self._device_plan: DevicePlan = self._plan.device
        self._out = out
        self._is_bound = True  # whether `_run` has the memory of `_inputs`
        # Kernels read elements of less than a byte from a packed copy of the argument's array, which `_bind` creates.
        # If an argument has such elements, the current arguments are stored, so that each run packs them again.
        parameters = function._core.function.arguments
        is_packing = any(element_type.packed and sizes is not None for _name, element_type, sizes in parameters)
        self._args_to_pack = args if is_packing else None
        # A lock: it has the key "token" while a thread runs the call. `dict.setdefault` is atomic.
        self._lock: dict[str, object] = {}
        self._run: Run | None = None
        if out is not None:
            function._checked_outputs(self._device_plan, out)  # raises for wrong outputs
        elif not fresh:
            self._run = Run(function, self._plan, self._device_plan)
            self._run.bind(*self._inputs)

    def __reduce__(self) -> NoReturn:
        refuse("prepared call")

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the call again, on the same arguments or on others of the same shapes, and return its value.

        Raise Error if its program was closed, or while another thread runs this call.
        """
        function = self._function
        if named:
            args = function._arranged(args, named)
        if function._core.closed:
            raise Error(f"@{function.name}: its program was closed")
        # `_lock` has the token of the thread that runs this call. `setdefault` is atomic: it stores this thread's token
        # unless another thread's token is there.
        token = object()
        try:
            if self._lock.setdefault("token", token) is not token:
                raise Error(f"@{function.name}: this prepared call is running already; prepare one per thread")
            if traced.is_on():
                with traced.span(Kind.CALL, function.name):
                    return self._call(args)
            return self._call(args)
        finally:
            if self._lock.get("token") is token:
                del self._lock["token"]

    def _call(self, args: tuple[Any, ...]) -> Any:
        """Run the call, on new arguments if `args` has any, and return its value."""
        if args:
            self._rebind(args)
        elif self._args_to_pack is not None:  # pack the arrays again, since their elements may have changed
            self._rebind(self._args_to_pack)
        if self._run is None:  # without results of its own, each run is an ordinary call
            function, (inputs, scalars) = self._function, self._inputs
            if self._out is None:
                results = function._run(self._plan, self._device_plan, inputs, scalars, outputs=None)
                return function._value(results)
            return function._run_into(self._plan, self._device_plan, inputs, scalars, self._out)
        if not self._is_bound:
            self._run.bind(*self._inputs)
            self._is_bound = True
        return self._run()

    def _rebind(self, args: tuple[Any, ...]) -> None:
        """Bind other arguments of the same shapes. Raise InvalidArgumentError if they need another plan."""
        # `copies=False`: strided arrays are refused, because a copy would not have what later runs must read.
        plan, *inputs = self._function._bind(args, self._plan, copies=False)
        if plan is not self._plan:
            raise InvalidArgumentError(
                f"@{self._function.name}: prepared for arguments of other shapes (or another value of a scalar that "
                "decides a size); prepare another call for them"
            )
        if self._args_to_pack is not None:  # arguments with elements of less than a byte, which each run packs again
            self._args_to_pack = args
        self._is_bound = False  # the next run binds them; if that raises, the run after it binds them again
        self._inputs = inputs

    @property
    def commands(self) -> list[str]:
        """Commands of a run, one line each."""
        return self._plan.describe()


class Run:
    """Device memory of one prepared call (`Prepared`), and the run of its plan over this memory.

    Its creation acquires the memory of results. `bind` sets the arguments, and each call of the object then runs the
    plan, any number of times.

    Attributes:
        function: The function.
        plan: Its plan for the prepared shapes, in the C core.
        device_plan: The plan for the device.
        results: Buffer or number of each result.
        value: Value of the call: its result, a tuple of several, or None.
        arena: Memory of the transients (intermediate buffers); None if there are none.
        argument_memory: Index of a buffer → memory into which an array argument is copied.
        copies: (block, source, bytes) of each argument to copy before a run. source: a Buffer, or a `HostMemory`.
        fixed_run: The run over the bound blocks, repeated while they are the same. It is created by the first `bind`,
            and stays None for a plan without commands.
        launch_arguments: Bound (memory blocks, constants, fill patterns), for runs that are traced.
        bound_values: (numbers of the memory blocks, constants, fill patterns) that `fixed_run` has; None if unknown.
    """

    def __init__(self, function: Preparable, plan: Plan, device_plan: DevicePlan) -> None:
        """Allocate the results and the arena; `bind` sets the arguments.

        function: the function. plan: its plan for the prepared shapes, in the C core. device_plan: the plan for the
        device.
        """
        self.function, self.plan, self.device_plan = function, plan, device_plan
        context = self.context = function._context
        self.executor = function._executor
        self.results: list[Any] = [None] * len(function.results)
        for _buffer_index, result_index, size in device_plan.results:
            memory = DeviceMemory(context, context.acquire(size), size)
            self.results[result_index] = function._buffer(device_plan, result_index, memory)
        self.arena: DeviceMemory | None = None
        if device_plan.transients:
            self.arena = DeviceMemory(context, context.acquire(device_plan.arena_bytes), device_plan.arena_bytes)
        # Memory into which array arguments are copied, by the index of the buffer, and the copies before each run.
        self.argument_memory: dict[int, DeviceMemory] = {}
        self.copies: list[tuple[Any, Any, int]] = []  # (block, source, bytes)
        # The device's preparation of the plan, and the values that it has; `bind` sets both.
        self.fixed_run: Fixed | None = None
        self.bound_values: tuple[Any, ...] | None = None

    def bind(self, inputs: list[Any], scalars: bytes) -> None:
        """Bind arguments: find the memory of each buffer, set results that are numbers, and prepare the fixed run.

        The fixed run is the device's preparation of the plan for certain blocks of device memory, constants and fill
        patterns. It is updated only if one of these has changed.

        Args:
            inputs: One item per argument: an array or buffer; None for a number.
            scalars: Bytes of the scalar arguments.
        """
        device_plan, function = self.device_plan, self.function
        memory_blocks = self._blocks_of(inputs)
        constants, fill_patterns, numbers = function._evaluate_scalars(self.plan, device_plan, scalars)
        for i, (_element_type, rank) in enumerate(function.results):
            is_number = rank is None
            if is_number:
                self.results[i] = numbers[i]
        self.value = function._value(self.results)
        self.inputs = inputs  # keeps alive the memory that the run reads
        self.launch_arguments = memory_blocks, constants, fill_patterns
        self._prepare_fixed_run(memory_blocks, constants, fill_patterns)

    def _blocks_of(self, inputs: list[Any]) -> Blocks:
        """Return the block of device memory of each buffer of the plan.

        An argument that the device cannot use in place gets memory here, and is added to `copies`, which each run
        copies first.
        """
        device_plan = self.device_plan
        self.copies = []
        blocks: Blocks = [None] * device_plan.count
        # `buffer_index` counts the buffers of the plan, `index` the constants, arguments or results of the function.
        for buffer_index, index in device_plan.constants:
            blocks[buffer_index] = self.executor.constant(index)
        for buffer_index, index, size in device_plan.arguments:
            argument = inputs[index]
            if self.function._is_usable_in_place(argument):
                blocks[buffer_index] = argument.memory.block
                continue
            if buffer_index not in self.argument_memory:
                self.argument_memory[buffer_index] = DeviceMemory(self.context, self.context.acquire(size), size)
            block = blocks[buffer_index] = self.argument_memory[buffer_index].block
            source = argument if isinstance(argument, Buffer) else bytes_of(argument)
            self.copies.append((block, source, size))
        for buffer_index, index, _ in device_plan.results:
            blocks[buffer_index] = self.results[index].memory.block
        if self.arena is not None:
            blocks[device_plan.arena_index] = self.arena.block
        return blocks

    def _prepare_fixed_run(self, blocks: Blocks, constants: bytes, fill_patterns: list[int]) -> None:
        """Prepare the fixed run for these values, or update it if one differs from those that it is prepared for."""
        # Numbers of blocks are not reused, so that equal numbers mean equal memory; 0: no block.
        block_numbers = tuple(block.number if block is not None else 0 for block in blocks)
        new_values = (block_numbers, constants, tuple(fill_patterns))
        old_values, self.bound_values = self.bound_values, None  # unknown if the update raises
        if new_values != old_values and self.device_plan.commands:
            if self.fixed_run is None:
                self.fixed_run = self.executor.fix(self.device_plan, blocks, constants, fill_patterns)
            else:
                self.fixed_run.update(blocks, constants, fill_patterns)
        self.bound_values = new_values

    def __call__(self) -> Any:
        """Copy the array arguments to the device, run the plan, and return the value of the call."""
        for block, source, size in self.copies:
            if isinstance(source, Buffer):
                self.function._copy_in_buffer(block, source)
            else:
                self.context.copy_in(block, source, size)
        if self.fixed_run is not None and traced.is_on():
            traced.run(self.executor, self.device_plan, *self.launch_arguments)
        elif self.fixed_run is not None:
            self.fixed_run.run()
        else:  # a call without commands does not notice by itself that the device was closed
            self.context.require_usable()
        return self.value
