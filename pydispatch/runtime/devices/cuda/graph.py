"""Plan as a CUDA graph, which is built once, updated for other memory and constants, and launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydispatch.runtime.devices.cuda import driver as cuda
from pydispatch.runtime.devices.cuda.steps import Dispatch, Fill

if TYPE_CHECKING:
    from pydispatch.runtime.devices.cuda.context import Context
    from pydispatch.runtime.devices.cuda.steps import Step


class Graph:
    """Instantiated graph over the steps (driver operations) of a plan, for one thread at a time.

    `update` sets the memory, constants and fill patterns of a call, `launch` enqueues the graph. Commands of one region
    run concurrently, after all commands of the previous region. The steps of a command run one after the other, except
    those of a fill, which write different bytes.

    Attributes:
        function: Name of the public function, for messages; "" for the plan of a procedure.
        scratch: DeviceMemory for copies between overlapping ranges; None if the plan has none.
        steps_of_commands: Steps of each command of the plan.
        steps: All steps, in that order.
        nodes: Graph node of each step.
        dispatches: Name of each kernel launch, for messages.
        executable: CUgraphExec; None while it is rebuilt.
        is_current: Whether `executable` has the values that the steps are bound to. False during an update, and after
            an update that raised: the next update rebuilds the graph.
    """

    def __init__(
        self, context: Context, function: str, steps_of_commands: Sequence[Sequence[Step]], scratch: Any = None
    ) -> None:
        """Build the graph.

        Args:
            context: The device.
            function: Name of the function whose plan the graph runs, for messages.
            steps_of_commands: Steps of each command of the plan, which are bound to their memory already.
            scratch: Memory for copies between overlapping ranges, which the graph keeps alive; None if there are none.
        """
        self.context, self.function, self.scratch = context, function, scratch
        self.steps = [step for steps in steps_of_commands for step in steps]
        self.dispatches = tuple(step.name for step in self.steps if isinstance(step, Dispatch))
        self.steps_of_commands = steps_of_commands
        self.nodes: list[Any] = []  # CUgraphNode of each step
        self.executable: Any = None  # CUgraphExec
        self.is_current = False  # whether `executable` has the values of all steps
        self._launch, self._stream = context.driver.cuGraphLaunch, context.stream
        self._build()

    def _build(self) -> None:
        """Build a graph of all steps, and instantiate it as `executable`, which replaces an earlier one.

        A region is a sequence of commands that do not depend on each other; it waits for the region before it. If
        commands A and B are one region and C is the next, the graph has the edges A -> C and B -> C.
        """
        context, driver = self.context, self.context.driver
        self._forget()  # the earlier executable may still be running: it is destroyed later
        where = f"the graph of @{self.function}"  # begins messages
        with context.current:
            graph = context.check(driver.cuGraphCreate(0), where)
            try:
                self.nodes = []
                region_sources: list[Any] = []  # nodes that the region waits for
                region_ends: list[Any] = []  # last nodes of each command of the region
                region: int | None = None
                for steps in self.steps_of_commands:
                    if not steps:
                        continue
                    if steps[0].region != region:
                        # A region begins: its commands wait for the ends of all commands of the previous one.
                        region_sources, region = self._joined(graph, region_ends, where), steps[0].region
                        region_ends = []
                    region_ends += self._add_steps(graph, steps, region_sources, where)
                self.executable = context.check(driver.cuGraphInstantiate(graph, 0), where)
                self.is_current = True
            finally:
                driver.cuGraphDestroy(graph)  # the instantiated graph does not need it

    def _add_steps(self, graph: Any, steps: Sequence[Step], sources: list[Any], where: str) -> list[Any]:
        """Add the nodes of the steps of one command, and return the nodes that end it.

        Commands of one region may run concurrently; the commands of the next region depend on the ends of all of them.

        The steps of a fill are independent of each other. Other steps, such as those of a copy through scratch memory,
        run one after the other.

        Args:
            graph: CUgraph.
            steps: The steps, at least one.
            sources: Nodes that the command waits for.
            where: Text that error messages begin with: the graph.
        """
        is_chain = not isinstance(steps[0], Fill)
        dependencies, ends = sources, list[Any]()
        for step in steps:
            node = self.context.check(step.add(graph, dependencies), f"{where}, {step.label}")
            self.nodes.append(node)
            if is_chain:
                dependencies, ends = [node], [node]
            else:
                ends.append(node)
        return ends

    def _joined(self, graph: Any, nodes: list[Any], where: str) -> list[Any]:
        """Return the nodes that later nodes depend on to wait for `nodes`: these, or an empty node that waits for them.

        With an empty node, m nodes that wait for n nodes need n + m edges instead of n * m.

        where: text that error messages begin with: the graph.
        """
        if len(nodes) <= 2:  # an empty node would save few edges or none
            return nodes
        context = self.context
        return [context.check(context.driver.cuGraphAddEmptyNode(graph, nodes, len(nodes)), where)]

    def update(self, addresses: Sequence[int], constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Bind other memory, constants and fill patterns for the next launches.

        Only the nodes of steps whose values have changed are updated. If the driver rejects a change, or an earlier
        update raised, the graph is rebuilt.

        Args:
            addresses: Device address of each buffer of the plan, then of `scratch` if the plan has it.
            constants: Push constants of all dispatches of the plan, 4 bytes each.
            fill_patterns: Fill pattern of each command of the plan, as an integer; unused for other commands.
        """
        # `is_current`: whether the executable graph has the values of all steps. False until this update is complete.
        was_current, self.is_current = self.is_current, False
        # Bind all steps first, because a rebuild uses the values of all of them.
        changed = [i for i, step in enumerate(self.steps) if step.bind(addresses, constants, fill_patterns)]
        if was_current and self._update_nodes(changed):
            self.is_current = True
        else:
            self._build()

    def _update_nodes(self, changed: Sequence[int]) -> bool:
        """Set the values of steps in the executable graph; return whether the driver has accepted all of them.

        After a hardware error the device is lost: raise KernelError or DeviceLostError. changed: indices of the steps
        in `steps`.
        """
        if not changed:
            return True
        context = self.context
        with context.current:
            for i in changed:
                (status,) = self.steps[i].update(self.executable, self.nodes[i])
                if status:
                    if int(status) in cuda.STICKY:  # a hardware error: the context cannot be used any more
                        context.raise_failure(status, f"the graph of @{self.function}")
                    return False
        return True

    def launch(self) -> None:
        """Launch the graph on the stream. Repeat it if the driver reports that another context was current."""
        context = self.context
        if context.is_shut:
            context.require_usable()
        (status,) = self._launch(self.executable, self._stream)
        context.recent_launches.append((self.function, self.dispatches))
        if status:
            self._retry(status)

    def _retry(self, status: Any) -> None:
        """Launch the graph again if another context was current; raise the error of the driver otherwise."""
        context = self.context
        if cuda.is_of_other_context(status):
            (status,) = context.retry(lambda: self._launch(self.executable, self._stream))
        if status:
            context.raise_failure(status, f"launching the graph of @{self.function}")

    def _forget(self) -> None:
        """Hand the instantiated graph to the context's garbage, which the context destroys before a later run."""
        executable, self.executable = self.executable, None
        if executable is not None and not self.context.loss_reason:
            self.context.garbage.append((self.context.driver.cuGraphExecDestroy, executable))

    def __del__(self) -> None:
        """Hand the instantiated graph, if there is one, to the context's garbage."""
        if getattr(self, "executable", None) is not None:
            self._forget()
