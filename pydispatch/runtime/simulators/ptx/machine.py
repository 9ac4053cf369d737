"""Simulated machine: memory, modules and launches. It is not thread-safe."""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.module import PtxModule
from pydispatch.runtime.simulators.ptx.image import Loaded, PtxKernel
from pydispatch.runtime.simulators.ptx.launch import Launch
from pydispatch.runtime.simulators.ptx.memory import GlobalMemory

MAX_STEPS = 1 << 40


class Machine:
    """Simulated GPU, which loads PTX modules and launches their kernels.

    capability: its compute capability; PTX for a newer one is refused. races: whether data races are detected.
    """

    def __init__(self, capability: tuple[int, int] = (9, 0), races: bool = False) -> None:
        self.capability, self.races = capability, races
        self.memory = GlobalMemory()
        self.steps = 0
        """Instructions run so far, each counted once for all threads that ran it together."""

    def load(self, source: str | bytes | PtxModule, name: str = "module.ptx") -> Loaded:
        """Load a PTX text or a parsed module. ArtifactError names unsupported code."""
        if not isinstance(source, PtxModule):
            from pydispatch.formats.ptx.read import read

            source = read(source, name)
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

        params: laid out as in `.param` space, each at the next multiple of its size (kernel.offsets). dynamic_shared:
        bytes. cancel: polled; true ends the launch. max_steps: instructions, counted once for all threads that
        run one together. Raises KernelError for a fault of the kernel, InvalidArgumentError for an invalid launch.
        """
        launch = Launch(self.memory, kernel, grid, block, params, dynamic_shared, cancel, max_steps, self.races)
        try:
            launch.run()
        finally:
            self.steps += launch.steps
