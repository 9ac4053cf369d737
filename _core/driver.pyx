"""Sequences of GPU driver calls that no Python exception can interrupt, and callbacks that run no Python code.

A signal handler, or PyThreadState_SetAsyncExc, may raise in any line of Python code. An exception between a submission
and the end of its work, or while memory is mapped, would release memory that the device still uses. An exception in a
callback would be lost. The functions take addresses of driver functions, so that this module links with no driver.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

from pydispatch._core.c_mailbox cimport PYD_MESSAGE_ERROR, PYD_MESSAGE_LOST, PYD_MESSAGE_MAPPED, PYD_MESSAGE_OPENED
from pydispatch._core.c_mailbox cimport pyd_mailbox_has_messages, pyd_mailbox_t, pyd_mailbox_take
from pydispatch._core.c_mailbox cimport pyd_mailbox_take_incomplete, pyd_message_t
from pydispatch._core.c_vulkan cimport pyd_vk_on_message
from pydispatch._core.c_webgpu cimport pyd_wgpu_copy, pyd_wgpu_functions_t, pyd_wgpu_on_error, pyd_wgpu_on_lost
from pydispatch._core.c_webgpu cimport pyd_wgpu_on_opened, pyd_wgpu_on_scope_popped

ctypedef int32_t (*vk_submit_t)(void*, uint32_t, const void*, uint64_t) noexcept nogil
ctypedef int32_t (*vk_wait_t)(void*, const void*, uint64_t) noexcept nogil

cdef enum:
    VK_TIMEOUT = 2  # VkResult; negative ones are errors
    SLICE_NANOSECONDS = 200000000  # longest wait between two checks for signals, and thus delay of Ctrl-C

ERROR, LOST = PYD_MESSAGE_ERROR, PYD_MESSAGE_LOST
OPENED, MAPPED = PYD_MESSAGE_OPENED, PYD_MESSAGE_MAPPED

CALLBACKS = {
    "WGPUPopErrorScopeCallback": <uintptr_t>&pyd_wgpu_on_scope_popped,
    "WGPUUncapturedErrorCallback": <uintptr_t>&pyd_wgpu_on_error,
    "WGPUDeviceLostCallback": <uintptr_t>&pyd_wgpu_on_lost,
    "WGPURequestDeviceCallback": <uintptr_t>&pyd_wgpu_on_opened,
    "PFN_vkDebugUtilsMessengerCallbackEXT": <uintptr_t>&pyd_vk_on_message,
}

cdef list mailboxes = []  # never freed, as a driver may call back until the process exits


cdef class Mailbox:
    """Queue of messages from C callbacks of a driver. `address` is the user data of the callbacks."""

    cdef pyd_mailbox_t* box

    def __cinit__(self):
        self.box = <pyd_mailbox_t*>calloc(1, sizeof(pyd_mailbox_t))
        if self.box == NULL:
            raise MemoryError()
        mailboxes.append(<uintptr_t>self.box)  # the C memory outlives this object: callbacks may run later

    @property
    def address(self):
        """Return the address of the C queue."""
        return <uintptr_t>self.box

    def __bool__(self):
        return pyd_mailbox_has_messages(self.box)

    def take(self):
        """Remove and return all messages, in order.

        Returns:
            A list of (kind, code, handle, text). kind: ERROR, LOST, OPENED or MAPPED. code: a code of the driver, whose
            meaning depends on the kind. handle: address of the device for OPENED, else 0.

        Raises:
            MemoryError: A callback has dropped a message for want of memory. The next call returns the others.
        """
        if pyd_mailbox_take_incomplete(self.box):
            raise MemoryError("a message of a driver")
        cdef pyd_message_t* message = pyd_mailbox_take(self.box)
        cdef pyd_message_t* next_
        found = []
        while message != NULL:
            text = (<const char*>message.text)[:message.length]
            found.append((message.kind, message.code, <uintptr_t>message.handle, text.decode("utf-8", "replace")))
            next_ = message.next
            free(message)
            message = next_
        return found[::-1]  # the list of the mailbox begins with the latest


def copy_mapped(
        tuple functions not None, uintptr_t device, uintptr_t buffer, bint is_read, size_t at, size_t length,
        size_t skip, uintptr_t host, size_t size, Mailbox box not None):
    """Wait until the device is idle, then copy `size` bytes between host memory and a mappable WGPUBuffer.

    The bytes in the buffer begin at its offset `at + skip`.

    Args:
        functions: Addresses of wgpuBufferMapAsync, wgpuDevicePoll, wgpuBufferGetMappedRange and wgpuBufferUnmap. With
            `is_read`, the third is wgpuBufferGetConstMappedRange.
        device, buffer: The WGPUDevice and the WGPUBuffer.
        is_read: Whether to copy from the buffer to host memory, else from host memory to the buffer.
        at, length: Offset and size of the range that is mapped during the copy, in bytes. WebGPU requires a multiple
            of 8 for the offset and of 4 for the size, so that the range may be larger than the copied bytes.
        skip: Number of bytes of the range before the copied ones.
        host, size: Address of the host memory and number of bytes to copy.
        box: Receives the driver's message if mapping fails.

    Returns:
        The WGPUMapAsyncStatus, 1 for success; 0 if the driver has not reported one, -1 for want of memory or if the
        mapped range has no address. Bytes are copied only if it is 1.
    """
    cdef pyd_wgpu_functions_t addresses
    cdef int32_t status
    addresses.map_async, addresses.poll, addresses.mapped_range, addresses.unmap = functions
    with nogil:
        status = pyd_wgpu_copy(
            &addresses, <void*>device, <void*>buffer, is_read, at, length, skip, <char*>host, size, box.box)
    return status


def submit_and_wait(lock, prepare, uintptr_t submit, uintptr_t queue, uintptr_t wait, uintptr_t device):
    """Submit Vulkan work to a queue while holding `lock`, then wait without the lock until the work has ended.

    prepare: returns the addresses of a VkSubmitInfo and of a VkSemaphoreWaitInfo that waits for its end; called with
    the lock held. submit, wait: addresses of vkQueueSubmit and vkWaitSemaphores. queue, device: VkQueue and VkDevice.
    An exception of a signal handler is raised after the work has ended. Returns None on success, else the name of the
    function that failed and its VkResult.
    """
    cdef uintptr_t info, wait_info
    cdef int32_t result
    lock.acquire()
    try:
        info, wait_info = prepare()
        with nogil:
            result = (<vk_submit_t>submit)(<void*>queue, 1, <const void*>info, 0)  # 1 VkSubmitInfo, no VkFence
    finally:
        lock.release()
    if result < 0:
        return "vkQueueSubmit", result
    with nogil:
        result = (<vk_wait_t>wait)(<void*>device, <const void*>wait_info, SLICE_NANOSECONDS)
    try:
        while result == VK_TIMEOUT:
            PyErr_CheckSignals()
            with nogil:
                result = (<vk_wait_t>wait)(<void*>device, <const void*>wait_info, SLICE_NANOSECONDS)
    except BaseException:  # the caller releases memory that the work still uses: wait without a timeout
        with nogil:  # -1: no timeout
            (<vk_wait_t>wait)(<void*>device, <const void*>wait_info, <uint64_t>-1)
        raise
    return ("vkWaitSemaphores", result) if result < 0 else None
