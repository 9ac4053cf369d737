"""Functions whose steps the host runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch.errors import InternalError, InvalidArgumentError
from pydispatch.runtime.accelerators.context import PLAIN
from pydispatch.runtime.accelerators.given import check_out
from pydispatch.runtime.accelerators.public import Callee
from pydispatch.runtime.accelerators.submit import Submitted
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from pydispatch._core.arrays import ElementType
    from pydispatch._core.procedure import Procedure
    from pydispatch.runtime.accelerators.execute import Executor


class AcceleratorProcedure(Submitted, Callee):
    """A function with control flow, state or checks: the host runs its steps, the device its pieces. Arguments and
    results are as for `AcceleratorFunction`."""

    def __init__(self, procedure: Procedure, device: Any, executor: Executor) -> None:
        self._procedure, self._device, self._executor = procedure, device, executor
        self._convert = device._context.convert
        super().__init__(procedure, device._context.name)
        self.results = procedure.results

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        outs = self._outs(out)
        try:
            values = self._procedure(*map(self._array, self._arranged(args, named)))
        except InternalError:
            stopped, self._executor.stopped = self._executor.stopped, None
            if stopped is None:
                raise
            raise stopped from None
        results = list(values) if isinstance(values, tuple) else [] if values is None else [values]
        for i, (value, (kind, rank), given) in enumerate(zip(results, self.results, outs, strict=True)):
            check_out(f"@{self.name}: out {i}", given, kind, rank is None, getattr(value, "shape", None))
        found = [self._result(v, kind, o) for v, (kind, _), o in zip(results, self.results, outs, strict=True)]
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

    def _array(self, given: Any) -> Any:
        if self._convert is not None and not isinstance(given, PLAIN):
            given = self._convert(given)
        return given.numpy() if isinstance(given, Buffer) else given

    def _result(self, value: Any, element: ElementType, out: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if isinstance(out, np.ndarray):
            np.copyto(out, value, casting="no")
            return out
        made = out if isinstance(out, Buffer) else self._device.empty(value.shape, element)
        made.upload(value)
        return made

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
