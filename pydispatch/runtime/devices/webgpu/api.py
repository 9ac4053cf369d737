"""The C interface of the `wgpu` package through cffi, with its errors as exceptions. No other module imports the
package.

The Python classes of the package are not used, since they take longer than the calls themselves.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

from pydispatch._core.driver import CALLBACKS, LOST, MAPPED, OPENED, Mailbox
from pydispatch.errors import DeviceUnavailableError, InternalError, InvalidArgumentError, OutOfMemoryError
from pydispatch.packages import importing

SPONTANEOUS = 3  # WGPUCallbackMode: any call of wgpu may run the callback
WAIT = 1  # argument of wgpuDevicePoll: return when the work is complete, not at once
VALIDATION, OUT_OF_MEMORY = 2, 3  # WGPUErrorType
VALIDATION_FILTER, OUT_OF_MEMORY_FILTER = 1, 2  # WGPUErrorFilter
WGSL_SOURCE, INSTANCE_EXTRAS, NATIVE_LIMITS = 2, 0x00030004, 0x00030002  # WGPUSType
UNIFORM, STORAGE, READ_ONLY_STORAGE = 2, 3, 4  # WGPUBufferBindingType
# WGPUBufferUsage
MAP_READ, MAP_WRITE, COPY_SOURCE, COPY_TARGET, UNIFORM_BUFFER, STORAGE_BUFFER, QUERY_RESOLVE = (
    1, 2, 4, 8, 0x40, 0x80, 0x200,
)  # fmt: skip
COMPUTE_STAGE = 4  # WGPUShaderStage
MAP_SUCCEEDED = 1  # WGPUMapAsyncStatus
TIMESTAMPS = 2  # WGPUQueryType


class DeviceLostError(DeviceUnavailableError):
    """Loss of a device with all its memory, because a driver reset it or it was removed."""


@cache
def binding() -> tuple[Any, Any]:
    """Return (ffi, lib) of the `wgpu` package. Raise DeviceUnavailableError if it is not installed."""
    with importing("WebGPU", "webgpu", DeviceUnavailableError):
        from wgpu.backends.wgpu_native import ffi, lib
    return ffi, lib


def text_of(view: Any) -> str:
    """Return a WGPUStringView as a Python string."""
    ffi, _ = binding()
    if view.data == ffi.NULL:
        return ""
    wgpu_strlen = 2 ** (8 * ffi.sizeof("size_t")) - 1  # WGPU_STRLEN: the length of a string that ends with NUL
    if view.length == wgpu_strlen:
        raw = ffi.string(view.data)
    else:
        raw = ffi.unpack(ffi.cast("char const*", view.data), view.length)
    return bytes(raw).decode("utf-8", "replace")


class Arena:
    """Owner of C structures that point at each other: cffi frees a structure as soon as Python does not reference
    it.
    """

    def __init__(self) -> None:
        """Create an arena without structures."""
        self.ffi, self.lib = binding()
        self.retained: list[Any] = []  # the C structures and arrays

    def new(self, struct: str, /, **fields: Any) -> Any:
        """Return a pointer to a zeroed structure of the C type `struct` with `fields` set.

        A str or bytes value fills a WGPUStringView. All values live as long as the arena.
        """
        pointer = self.ffi.new(f"{struct}*")
        for name, value in fields.items():
            if isinstance(value, (str, bytes)):
                self.text(getattr(pointer, name), value)
                continue
            setattr(pointer, name, value)
            self.retained.append(value)
        self.retained.append(pointer)
        return pointer

    def array(self, kind: str, items: Any) -> Any:
        """Return an array of the C type `kind`, which lives as long as the arena.

        items: the elements, or an int for so many zeroed ones.
        """
        array = self.ffi.new(f"{kind}[]", items)
        self.retained.append(array)
        return array

    def text(self, view: Any, value: str | bytes) -> None:
        """Set a WGPUStringView to a text, which lives as long as the arena."""
        raw = value.encode() if isinstance(value, str) else value
        view.data = self.array("char", raw)
        view.length = len(raw)


class Errors:
    """Errors that wgpu reports for one device, collected by error scopes around the relevant calls.

    `begin` opens a scope, and `end` closes it and raises its first error; `take` closes it and returns the error. The
    callbacks are C functions, which put messages into a mailbox. A callback in Python could be interrupted there,
    and its exception would be lost.

    Attributes:
        name: Name of the device, for messages.
        box: Mailbox of the callbacks.
        reported: Pairs (WGPUErrorType, text) of the errors since the scope was opened.
        mapping: Why the most recent failed mapping of a buffer failed; "" if none did.
        opened: Answer to the request for the device: the address of the WGPUDevice, 0 if there is none, and a text.
            None before it arrives.
        on_lost: Callback field of the device's descriptor, for the loss of the device.
        on_error: Callback field of the device's descriptor, for errors outside of all scopes.
        device: The device, which is set once it is open.
    """

    def __init__(self, name: str) -> None:
        """Create the mailbox and its callbacks, with which the device is opened afterwards."""
        self.name = name
        self.ffi, self.lib = binding()
        self.box = Mailbox()
        self.reported: list[tuple[int, str]] = []  # (WGPUErrorType, text) of the errors in the open scope
        self.mapping = ""  # why the most recent failed mapping of a buffer failed
        self.opened: tuple[int, str] | None = None  # (address of the WGPUDevice or 0, text), once wgpu has answered
        self._lost: str | None = None  # why the device was lost
        # `callback` takes the C function of CALLBACKS for a type of callback; all of them put messages into the box.
        self._scope_callback = self.ffi.new(
            "WGPUPopErrorScopeCallbackInfo*", self.callback("WGPUPopErrorScopeCallback")
        )
        self.on_lost = self.callback("WGPUDeviceLostCallback")
        self.on_error = self.callback("WGPUUncapturedErrorCallback", has_mode=False)  # its structure has no mode
        self._push_scope, self._pop_scope = self.lib.wgpuDevicePushErrorScope, self.lib.wgpuDevicePopErrorScope
        self.device: Any = None

    def callback(self, kind: str, has_mode: bool = True) -> dict[str, Any]:
        """Return the fields of a callback that passes its messages to this object.

        Args:
            kind: C type of the callback; CALLBACKS has the address of a C function of each type.
            has_mode: Whether its structure has a mode: SPONTANEOUS allows wgpu to call it within any of its functions.
        """
        cast = self.ffi.cast
        # `userdata1` is the mailbox of this object, which the C function puts its message into.
        fields = {"callback": cast(kind, CALLBACKS[kind]), "userdata1": cast("void*", self.box.address)}
        return {"mode": SPONTANEOUS, **fields} if has_mode else fields

    @property
    def lost(self) -> str | None:
        """Why the device was lost; None if it was not."""
        if self.box:
            self.read_mailbox()
        return self._lost

    def read_mailbox(self) -> None:
        """Read the mailbox: record errors, the opened device, and why a device was lost or a mapping failed."""
        for kind, code, handle, text in self.box.take():
            if kind == LOST:
                self._lost = text or "no reason is known"
            elif kind == MAPPED:
                self.mapping = text
            elif kind == OPENED:
                self.opened = handle, text
            else:
                self.reported.append((code, text))

    def begin(self) -> None:
        """Open an error scope: errors of all calls until `end` are collected."""
        self._push_scope(self.device, VALIDATION_FILTER)

    def end(self, where: str) -> None:
        """Close the error scope. Raise its first error if there is one, or DeviceLostError if the device was lost.

        where: text that the message begins with.
        """
        self._pop_scope(self.device, self._scope_callback[0])
        if self.lost or self.reported:
            self.fail(where)

    def take(self) -> tuple[int, str] | None:
        """Close the error scope, and return its first error as (WGPUErrorType, message), or None.

        Raise DeviceLostError if the device was lost.
        """
        # The callback puts the first error of the scope into the mailbox.
        self._pop_scope(self.device, self._scope_callback[0])
        is_lost = self.lost  # reads the mailbox into `reported`
        error = self.reported[0] if self.reported else None
        if is_lost or (error is not None and _LOST in error[1]):
            self.raise_lost()
        self.reported.clear()
        return error

    def raise_lost(self) -> NoReturn:
        """Raise DeviceLostError, because the device was lost."""
        self.fail(where="")  # the message begins with the name of the device

    def fail(self, where: str) -> NoReturn:
        """Raise DeviceLostError if the device was lost, else the first error in `reported`, which is not empty then.

        where: text that the message of the latter begins with.
        """
        loss_reason = self.lost
        kind, message = self.reported[0] if self.reported else (0, "")
        self.reported.clear()
        if loss_reason or _LOST in message:
            self._lost = loss_reason or message
            raise DeviceLostError(
                f"{self.name} was lost ({without_frame(self._lost)}); open it again with pydispatch.device()"
            )
        raise error_of(kind, f"{where}: {without_frame(message)}")


def error_of(kind: int, text: str) -> Exception:
    """Return the exception for a WGPUErrorType. text: its message."""
    if kind == OUT_OF_MEMORY:
        return OutOfMemoryError(text)
    return InvalidArgumentError(text) if kind == VALIDATION else InternalError(text)


def without_frame(message: str) -> str:
    """Return a message of wgpu in one line, without the lines that only frame the error.

    These are the lines in _FRAME, and lines such as "In wgpuDeviceCreateBuffer".
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return "; ".join(line for line in lines if line not in _FRAME and not line.startswith("In wgpu"))


_LOST = "device is lost"
"""Part of the error message of any call on a lost device."""
_FRAME = ("Validation Error", "Caused by:")
"""Lines of an error message of wgpu that only introduce the reason; `without_frame` leaves them out."""
