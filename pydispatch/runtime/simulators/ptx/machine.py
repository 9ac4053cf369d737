"""Simulated machine: memory, modules and launches. It is not thread-safe."""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.module import PtxModule
from pydispatch.runtime.simulators.ptx.image import Loaded, PtxKernel
from pydispatch.runtime.simulators.ptx.launch import Launch
from pydispatch.runtime.simulators.ptx.memory import GlobalMemory

MAX_STEPS = 1 << 40
"""Maximum number of instructions of a launch by default, counted as `Machine.steps`."""


class Machine:
    """Simulated GPU, which loads PTX modules and launches their kernels.

    Attributes:
        capability: Compute capability, (major, minor); PTX for a newer one is refused.
        races: Whether data races are detected.
        memory: Global memory.
    """

    def __init__(self, capability: tuple[int, int] = (9, 0), races: bool = False) -> None:
        """Create a machine without allocations. For the parameters, see the class."""
        self.capability, self.races = capability, races
        self.memory = GlobalMemory()
        self.steps = 0
        """Instructions run so far, each counted once for all threads that ran it together."""

    def load(self, source: str | bytes | PtxModule, name: str = "module.ptx") -> Loaded:
        """Load a PTX text or a parsed module.

        The result has the addresses of its variables, and its functions as closures, by which kernels are launched.

        Raise ArtifactError for code that is not supported, and for a newer target than the machine simulates.
        """
        if not isinstance(source, PtxModule):
            from pydispatch.formats.ptx.read import read

            source = read(source, name)
        # "sm_90a" is for compute capability (9, 0).
        digits = "".join(c for c in source.target.removeprefix("sm_") if c.isdecimal())
        needed = divmod(int(digits), 10) if digits else (0, 0)
        if needed > self.capability:
            own = self.capability[0] * 10 + self.capability[1]
            raise ArtifactError(
                f"{source.name}: the PTX is for {source.target}, this interpreter simulates sm_{own}; "
                f"compile for sm_{own} or older, or ask for capability={needed[0]}.{needed[1]}"
            )
        return Loaded(source, self.memory)

    def launch(
        self,
        kernel: PtxKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: bytes,
        dynamic_shared: int = 0,
        cancel: Callable[[], bool] | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        """Run a kernel to its end.

        Args:
            kernel: The kernel.
            grid: Number of blocks in x, y and z.
            block: Number of threads of a block in x, y and z.
            params: Parameters laid out as in `.param` space, each at the next multiple of its size (kernel.offsets).
            dynamic_shared: Bytes of dynamic shared memory.
            cancel: Function that is polled; the launch ends if it returns True.
            max_steps: Maximum number of instructions, each counted once for all threads that run it together.

        Raises:
            KernelError: The kernel has a fault or a data race, exceeds `max_steps`, or is cancelled.
            InvalidArgumentError: The launch is invalid.
        """
        launch = Launch(self.memory, kernel, grid, block, params, dynamic_shared, cancel, max_steps, self.races)
        try:
            launch.run()
        finally:
            self.steps += launch.steps
