"""Functions whose steps the host runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch.errors import InternalError, InvalidArgumentError
from pydispatch.runtime.accelerators.context import PLAIN, DeviceMemory
from pydispatch.runtime.accelerators.given import check_out
from pydispatch.runtime.accelerators.public import Callee
from pydispatch.runtime.accelerators.submit import Submitted
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from pydispatch._core.procedure import Procedure
    from pydispatch.runtime.accelerators.execute import Executor


class AcceleratorProcedure(Submitted, Callee):
    """A function with control flow, state or checks: the host runs its steps, the device its pieces.

    Tensors stay on the device between steps; the host reads the elements that it decides by. Arguments and results are
    as for `AcceleratorFunction`.
    """

    BUFFER: type[Buffer] = Buffer

    def __init__(self, procedure: Procedure, device: Any, executor: Executor) -> None:
        self._procedure, self._device, self._executor = procedure, device, executor
        self._context = device._context
        super().__init__(procedure, self._context.name)
        self.results = procedure.results

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        outs = self._outs(out)
        try:
            values = self._procedure.on_device(tuple(map(self._argument, self._arranged(args, named))))
        except InternalError:
            stopped, self._executor.stopped = self._executor.stopped, None
            if stopped is None:
                raise
            raise stopped from None
        for i, (value, (kind, rank), given) in enumerate(zip(values, self.results, outs, strict=True)):
            check_out(f"@{self.name}: out {i}", given, kind, rank is None, None if rank is None else value[1])
        found = [self._result(value, o) for value, o in zip(values, outs, strict=True)]
        return (found[0] if len(found) == 1 else tuple(found)) if found else None

    def _outs(self, out: Any) -> list[Any]:
        """One entry per result, looked at before anything runs. InvalidArgumentError."""
        count = len(self.results)
        if out is None:
            return [None] * count
        outs = list(out) if isinstance(out, tuple) else [out]
        if len(outs) != count or (count != 1 and not isinstance(out, tuple)):
            raise InvalidArgumentError(f"@{self.name}: out: expected {count} buffers, got {len(outs)}")
        for i, (given, (kind, rank)) in enumerate(zip(outs, self.results, strict=True)):
            check_out(f"@{self.name}: out {i}", given, kind, rank is None, None)
        return outs

    def _argument(self, given: Any) -> Any:
        """A buffer of the device that kernels take where it lies, an array or a number."""
        context = self._context
        if context.convert is not None and not isinstance(given, PLAIN):
            given = context.convert(given)
        if not isinstance(given, Buffer):
            return given
        if not self._is_ours(given):
            return given.numpy()
        if self._executor.takes(given.memory.block):  # type: ignore[attr-defined]
            return given
        memory = self._executor.acquire(given.nbytes)
        context.copy(given.memory.block, memory.block, given.nbytes)  # type: ignore[attr-defined]
        return Buffer(memory, given.shape, given.element, given.nbytes)

    def _is_ours(self, given: Buffer) -> bool:
        """Whether a buffer is on the device."""
        return isinstance(given.memory, DeviceMemory) and given.memory.context is self._context

    def _result(self, value: Any, out: Any) -> Any:
        """What a call returns for a result: a number, or a buffer, which is `out` when there is one."""
        if not isinstance(value, tuple):
            return value
        made = self.BUFFER(*value)
        if isinstance(out, np.ndarray):
            np.copyto(out, made.numpy(), casting="no")
        elif isinstance(out, Buffer) and self._is_ours(out):
            self._context.copy(made.memory.block, out.memory.block, made.nbytes)  # type: ignore[attr-defined]
        elif isinstance(out, Buffer):
            out.upload(made.numpy())
        return made if out is None else out

    def prepare(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """A call with these arguments."""
        self._outs(out)
        bound = self._arranged(args, named)

        def run(*others: Any, **more: Any) -> Any:
            return self(*(self._arranged(others, more) if others or more else bound), out=out)

        return run

    def close(self) -> None:
        """Forgets every plan."""
        self._procedure.close()
