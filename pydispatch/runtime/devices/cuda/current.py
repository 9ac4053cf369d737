"""The current context of a thread, which driver calls work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydispatch.runtime.devices.cuda.context import Context


class Current:
    """Context manager that makes this device current in the thread, and restores the previous context at the end.

    Other libraries, such as PyTorch with several devices, may have made another context current.
    """

    __slots__ = ("_context", "_handle", "_pop", "_push")

    def __init__(self, context: Context) -> None:
        self._context, self._handle = context, context.handle
        self._push, self._pop = context.driver.cuCtxPushCurrent, context.driver.cuCtxPopCurrent

    def __enter__(self) -> None:
        (status,) = self._push(self._handle)
        if status:
            self._context.raise_failure(status, "cuCtxPushCurrent")

    def __exit__(self, *unused: object) -> None:
        self._pop()
