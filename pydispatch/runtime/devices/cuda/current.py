"""Current CUDA context of a thread, which calls of the driver work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Current:
    """Context manager that makes a device current in the thread, and restores the previous context at the end.

    Other libraries, such as PyTorch with several devices, may have made another context current.
    """

    __slots__ = ("_handle", "_pop", "_push", "_raise_failure")

    def __init__(self, driver: Any, handle: Any, raise_failure: Callable[[Any, str], object]) -> None:
        """Create the context manager; the driver is called when it is entered.

        handle: the CUcontext of the device. raise_failure: raise_failure(status, name) raises the error for a driver
        call `name` that returned the failure `status`.
        """
        self._handle, self._raise_failure = handle, raise_failure
        self._push, self._pop = driver.cuCtxPushCurrent, driver.cuCtxPopCurrent

    def __enter__(self) -> None:
        (status,) = self._push(self._handle)
        if status:
            self._raise_failure(status, "cuCtxPushCurrent")

    def __exit__(self, *unused: object) -> None:
        self._pop()
