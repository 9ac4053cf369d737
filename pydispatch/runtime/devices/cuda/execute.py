"""Execution of plans on CUDA: a plan of one dispatch is launched on the stream, other plans are cached graphs.

The commands of a plan (`DevicePlan`) refer to buffers by index. `blocks` has the memory of each buffer in one run,
`addresses` its address; `constants` are the push constants of all dispatches, `fill_patterns` the fill pattern of each
command.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from pydispatch._core import commands
from pydispatch._core.profile import Timing
from pydispatch._core.trace import Kind
from pydispatch.errors import ArtifactError
from pydispatch.runtime.accelerators import traced
from pydispatch.runtime.accelerators.context import DeviceMemory
from pydispatch.runtime.accelerators.execute import Executable, Executor
from pydispatch.runtime.accelerators.host_calls import Surroundings
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan, label
from pydispatch.runtime.accelerators.ptx_parts import CUBIN, PtxParts
from pydispatch.runtime.accelerators.recordings import RecordingCache
from pydispatch.runtime.devices.cuda import driver as cuda
from pydispatch.runtime.devices.cuda.context import StepName
from pydispatch.runtime.devices.cuda.graph import Graph
from pydispatch.runtime.devices.cuda.modules import Modules
from pydispatch.runtime.devices.cuda.steps import Dispatch, Step, steps_of
from pydispatch.runtime.devices.cuda.timing import Stopwatch

if TYPE_CHECKING:
    from pydispatch.runtime.devices.cuda.context import Context

MAX_GRAPHS = 4
"""Cached graphs of one plan. A loop over more sets of blocks updates the least recently used graph at each run."""


class PlanState:
    """Data that the CUDA executor caches with a plan: its graphs, or its single launch.

    Attributes:
        function: Name of the public function that the plan belongs to; "" for plans of procedures.
        single: The only dispatch of a plan that has no other step; None for other plans.
        is_empty: Whether the plan has no commands.
        graphs: Cached graphs of the plan, by (addresses, constants, fill patterns).
    """

    __slots__ = ("function", "graphs", "is_empty", "single")

    def __init__(self, function: str, single: Dispatch | None, is_empty: bool) -> None:
        """Create the state of a plan, without graphs.

        function: name of the public function that the plan belongs to; "" for plans of procedures. single: the only
        dispatch of a plan that has no other step; None for other plans. is_empty: whether the plan has no commands.
        """
        self.function, self.single, self.is_empty = function, single, is_empty
        self.graphs: RecordingCache[Graph] = RecordingCache(MAX_GRAPHS)


class CudaExecutor(Executor):
    """Executables and constants of one program on a CUDA device.

    It converts each plan to steps, the calls of the driver for its commands. A plan of one step is launched on the
    stream; other plans become CUDA graphs, which are cached with the plan and updated for each call.

    Attributes:
        modules: Loaded kernels.
        names: Index of a public function in the program → its name.
        alignment: Largest alignment in bytes that a loaded executable requires of its bindings.
    """

    def __init__(self, context: Context) -> None:
        """Create an executor without kernels; `context` calls `forget` on it when the device is closed."""
        super().__init__(context)
        with context.lock:
            context.executors.add(self)
        self.modules = Modules(context)
        self.names: dict[int, str] = {}  # index of a public function → its name, for messages
        self.alignment = 1  # bytes; the largest alignment that a loaded executable requires of its bindings

    def load(self, executable: Executable) -> int:
        """Load the kernels of an executable, and return the alignment in bytes that its bindings need."""
        name, variant = executable.name, executable.variant
        source = f", given by {executable.source}" if executable.source else ""
        parts = PtxParts(executable.code, variant.get("ptx"), f"{executable.file}: executable '@{name}'{source}")
        codes = parts.module_codes(executable.code)
        if variant.get("imports"):
            if any(module.kind == CUBIN for module in parts.modules):
                raise ArtifactError(
                    f"{parts.where}: it imports functions and is a cubin, which cannot be linked any more"
                )
            codes = executable.resolution.link(name, codes, variant)
        self.modules.load(executable, parts, codes)
        alignment = int(variant.get("alignment", 1))
        self.alignment = max(self.alignment, alignment)
        return alignment

    def can_use_in_place(self, block: Any) -> bool:
        """Return whether kernels can access a block with wide loads; borrowed memory may be less aligned."""
        return bool(block.address % self.alignment == 0)

    def surroundings(self, synchronous: bool) -> Surroundings:
        """Return the device state that a host command receives: the stream and the context.

        synchronous: whether to wait first until all submitted work is complete.
        """
        context = self.context
        if synchronous:
            context.synchronize()
        # Errors of the device name recent launches: (function of the program, its steps).
        context.recent_launches.append(("", (StepName("host command"),)))
        return Surroundings(
            "cuda", context, address_of=lambda block, offset: (block.address + offset, 0), stream=context.stream_number,
            handle=int(context.handle), current=context.current,
        )  # fmt: skip

    # Running

    def run(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Enqueue all commands of a plan on the stream.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Device memory of each buffer; None for unused ones.
            constants: Push constants, words of 32 bits.
            fill_patterns: Fill pattern of each command.
        """
        context = self.context
        context.release_unused()
        with context.lock:
            state: PlanState = device_plan.state or self._state(device_plan)
            if state.is_empty:
                return
            if context.is_shut:  # closed or lost
                context.require_usable()
            addresses = [0 if block is None else block.address for block in blocks]
            if context.is_checked:  # wait for each step, so that errors name it
                self._run_checked(device_plan, state, addresses, constants, fill_patterns)
            elif state.single is not None:  # the only step of the plan, a dispatch
                self._run_single(state, state.single, addresses, constants, fill_patterns)
            else:
                self._graph(device_plan, state, addresses, constants, fill_patterns).launch()

    def _state(self, device_plan: DevicePlan) -> PlanState:
        """Create the state of a plan, and cache it in the plan."""
        steps_of_commands, scratch_bytes = self._steps(device_plan)
        steps = list(chain.from_iterable(steps_of_commands))
        only_dispatch = None
        if len(steps) == 1 and isinstance(steps[0], Dispatch):
            only_dispatch = steps[0]
        assert not (only_dispatch and scratch_bytes), "only copies use scratch memory"
        state = device_plan.state = PlanState(
            self._name(device_plan), single=only_dispatch, is_empty=not device_plan.commands
        )
        return state

    def _name(self, device_plan: DevicePlan) -> str:
        """Return the name of the public function that a plan belongs to; "" for plans of procedures."""
        return self.names.get(device_plan.data.function, "")

    def _steps(self, device_plan: DevicePlan) -> tuple[list[list[Step]], int]:
        """Return the steps (driver operations) of each command of a plan, and the bytes of scratch memory they need.

        Scratch memory is for copies between overlapping ranges; it is addressed as one more buffer, the last one.
        """
        return steps_of(self.context, device_plan.commands, device_plan.has_deferred, self.modules, device_plan.count)

    def _run_single(
        self, state: PlanState, step: Dispatch, addresses: list[int], constants: bytes, fill_patterns: Sequence[int]
    ) -> None:
        """Launch a plan that consists of one dispatch.

        Args:
            state: Data that this device caches for the plan.
            step: The dispatch.
            addresses: Device address of each buffer; 0 for unused ones.
            constants: Push constants, words of 32 bits.
            fill_patterns: Unused: a dispatch has none.
        """
        context = self.context
        step.bind(addresses, constants, fill_patterns)
        result = step.launch(context.stream)
        context.recent_launches.append((state.function, (step.name,)))  # an error may be reported by a later call
        status = result[0]
        if status:
            if cuda.is_of_other_context(status):  # another library has made its context current in this thread
                result = context.retry(lambda: step.launch(context.stream))
            context.check(result, f"launching {step.label}")

    def _graph(
        self,
        device_plan: DevicePlan,
        state: PlanState,
        addresses: list[int],
        constants: bytes,
        fill_patterns: Sequence[int],
    ) -> Graph:
        """Return a graph of a plan that uses these addresses, constants and fill patterns.

        Return the cached graph for them, or a new graph. If MAX_GRAPHS are cached, update the least recently used graph
        instead of creating one.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            state: Data that this device caches for the plan: its graphs.
            addresses: Device address of each buffer; 0 for unused ones.
            constants: Push constants, words of 32 bits.
            fill_patterns: Fill pattern of each command.
        """
        key = (tuple(addresses), constants, tuple(fill_patterns))
        graph = state.graphs.take(key)
        if graph is None:
            if len(state.graphs) < MAX_GRAPHS:
                graph = self._new_graph(device_plan, state.function, addresses, constants, fill_patterns)
            else:
                graph = state.graphs.take_oldest()
                # Copies between overlapping ranges go through the graph's own scratch memory, one more buffer.
                graph.update(self._with_scratch(addresses, graph.scratch), constants, fill_patterns)
        state.graphs.put(key, graph)
        return graph

    def _new_graph(
        self,
        device_plan: DevicePlan,
        function: str,
        addresses: list[int],
        constants: bytes,
        fill_patterns: Sequence[int],
    ) -> Graph:
        """Build a graph of a plan, with scratch memory of its own.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            function: Name of the public function, for messages.
            addresses: Device address of each buffer; 0 for unused ones.
            constants: Push constants, words of 32 bits.
            fill_patterns: Fill pattern of each command.
        """
        steps, scratch_bytes = self._steps(device_plan)
        context = self.context
        scratch = DeviceMemory(context, context.acquire(scratch_bytes), scratch_bytes) if scratch_bytes else None
        bound_addresses = self._with_scratch(addresses, scratch)
        for steps_of_command in steps:
            for step in steps_of_command:
                step.bind(bound_addresses, constants, fill_patterns)
        return Graph(context, function, steps, scratch)

    def _with_scratch(self, addresses: list[int], scratch: DeviceMemory | None) -> list[int]:
        """Return the buffer addresses, followed by the address of the scratch memory, if any."""
        return addresses if scratch is None else [*addresses, scratch.block.address]

    def fix(self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> Fixed:
        """Return a run of a plan over fixed memory, which has a graph of its own: repeating it only launches that."""
        return Fixed(self, device_plan, blocks, constants, fill_patterns)

    def _run_checked(
        self,
        device_plan: DevicePlan,
        state: PlanState,
        addresses: list[int],
        constants: bytes,
        fill_patterns: Sequence[int],
    ) -> None:
        """Run the steps one at a time and wait for each, so that an error is attributed to the step that caused it.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            state: Data that this device caches for the plan: here, the name of the function for messages.
            addresses: Device address of each buffer; 0 for unused ones.
            constants: Push constants, words of 32 bits.
            fill_patterns: Fill pattern of each command.
        """
        context = self.context
        context.synchronize()
        steps_of_commands, scratch_bytes = self._steps(device_plan)
        # Released when this function returns, after the last step.
        scratch = DeviceMemory(context, context.acquire(scratch_bytes), scratch_bytes) if scratch_bytes else None
        bound_addresses = self._with_scratch(addresses, scratch)
        with context.current:
            for step in chain.from_iterable(steps_of_commands):
                step.bind(bound_addresses, constants, fill_patterns)
                context.recent_launches.append((state.function, (step.name,)))
                context.check(step.launch(context.stream), f"launching {step.label}")
                context.synchronize()

    def time(
        self, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]
    ) -> list[Timing]:
        """Run the commands in order with an event between them, and return the device time of each.

        The steps are launched on the stream and not as a graph, so that an event can be recorded after each command.

        Args:
            device_plan: The commands of a function for certain sizes, and the buffers that they use.
            blocks: Device memory of each buffer; None for unused ones.
            constants: Push constants, words of 32 bits.
            fill_patterns: Fill pattern of each command.
        """
        context = self.context
        context.require_usable()
        context.release_unused()
        steps, scratch_bytes = self._steps(device_plan)
        scratch = DeviceMemory(context, context.acquire(scratch_bytes), scratch_bytes) if scratch_bytes else None
        addresses = self._with_scratch([0 if block is None else block.address for block in blocks], scratch)
        with context.lock, context.current:
            watch = Stopwatch(context, len(steps) + 1)  # one mark before the first command, one after each
            try:
                with traced.span(Kind.SUBMIT, self._name(device_plan)):
                    watch.mark()
                    for steps_of_command in steps:
                        for step in steps_of_command:
                            step.bind(addresses, constants, fill_patterns)
                            # A hardware error is reported by a later call, whose message names the recent launches.
                            context.recent_launches.append((self._name(device_plan), (step.name,)))
                            context.check(step.launch(context.stream), f"launching {step.label}")
                        watch.mark()
                context.synchronize()
                seconds = watch.seconds()
            finally:
                watch.close()
        kernel_of = self.modules.kernel_of
        names = [
            label(command, kernel=kernel_of(command).label if isinstance(command, commands.Dispatch) else "")
            for command in device_plan.commands
        ]
        return [Timing(name, spent) for name, spent in zip(names, seconds, strict=True)]


class Fixed:
    """Run of a plan over fixed memory, as a CUDA graph of its own; implements `accelerators.execute.Fixed`.

    Memory is fixed if runs use the same blocks until `update` binds others. On a checked device, one that was opened
    with "?check=1", there is no graph: `run` launches each step and waits for it, so that errors name the step.
    """

    def __init__(
        self,
        executor: CudaExecutor,
        device_plan: DevicePlan,
        blocks: Blocks,
        constants: bytes,
        fill_patterns: Sequence[int],
    ) -> None:
        """Bind the memory and values of the first runs, and build the graph, except on a checked device.

        Args:
            executor: Executor of the program.
            device_plan: The plan.
            blocks: Device memory of each buffer of the plan; None for unused ones.
            constants: Push constants of all dispatches, words of 32 bits.
            fill_patterns: Fill pattern of each command.
        """
        self.executor, self.device_plan, self.context = executor, device_plan, executor.context
        self.run_arguments: tuple[list[int], bytes, list[int]]  # (addresses, constants, fill patterns), set by update()
        self.graph: Graph | None = None  # built by update(), except on a checked device
        self.update(blocks, constants, fill_patterns)

    def _addressed(
        self, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]
    ) -> tuple[list[int], bytes, list[int]]:
        """Return (address of each block, constants, fill patterns); the address of an unused buffer is 0."""
        return [0 if block is None else block.address for block in blocks], constants, list(fill_patterns)

    def update(self, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Bind other memory, constants or fill patterns, and build the graph or update the nodes that use them.

        Afterwards `run` is the launch of the graph. On a checked device (opened as "cuda:0?check=1") there is no graph:
        `run` launches the steps one at a time with `run_arguments`.

        Args:
            blocks: Device memory of each buffer of the plan; None for unused ones.
            constants: Push constants of all dispatches, words of 32 bits.
            fill_patterns: Fill pattern of each command.
        """
        self.run_arguments = self._addressed(blocks, constants, fill_patterns)
        context, executor = self.context, self.executor
        context.release_unused()
        if context.is_checked:
            return
        addresses, _, pattern_list = self.run_arguments
        with context.lock:
            if self.graph is None:
                function = executor._name(self.device_plan)
                self.graph = executor._new_graph(self.device_plan, function, *self.run_arguments)
            else:
                # The graph's scratch memory, for copies between overlapping ranges, is one more buffer.
                self.graph.update(executor._with_scratch(addresses, self.graph.scratch), constants, pattern_list)
        self.run = self.graph.launch  # type: ignore[method-assign]  # later runs only launch the graph

    def run(self) -> None:
        """Run the plan step by step.

        Unless the device is checked, `update` replaces this method by the graph's launch.
        """
        context = self.context
        with context.lock:
            context.require_usable()
            state = self.device_plan.state or self.executor._state(self.device_plan)
            self.executor._run_checked(self.device_plan, state, *self.run_arguments)
