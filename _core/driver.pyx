"""Calls of GPU drivers that no exception of Python may come between, and callbacks that run no code of Python.

A signal's handler, or PyThreadState_SetAsyncExc, may raise in any line of Python. What raises between a submission and
the end of its work, or while memory is mapped, would return memory that the device still uses; what raises in a
callback is lost. The functions take the addresses of driver functions, so that this module links with no driver.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

cdef extern from *:
    """
    #include <stdatomic.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>

    typedef struct pyd_message {
      struct pyd_message* next;
      int32_t kind, code;
      void* handle;
      size_t length;
      char text[];
    } pyd_message_t;

    // What drivers said, the newest first. Any thread may add to it.
    typedef struct {
      _Atomic(pyd_message_t*) newest;
      atomic_int is_incomplete;  // there was no memory for a message
    } pyd_mailbox_t;

    enum { PYD_ERROR = 1, PYD_LOST, PYD_OPENED, PYD_MAPPED };

    static void pyd_mailbox_put(pyd_mailbox_t* box, int32_t kind, int32_t code, void* handle, const char* text,
                                size_t length) {
      if (text == NULL) length = 0;
      if (length == (size_t)-1) length = strlen(text);  // WGPU_STRLEN
      pyd_message_t* made = malloc(sizeof *made + length);
      if (made == NULL) {
        atomic_store(&box->is_incomplete, 1);
        return;
      }
      made->kind = kind, made->code = code, made->handle = handle, made->length = length;
      if (length) memcpy(made->text, text, length);
      made->next = atomic_load(&box->newest);
      while (!atomic_compare_exchange_weak(&box->newest, &made->next, made)) {
      }
    }

    static pyd_message_t* pyd_mailbox_take(pyd_mailbox_t* box) { return atomic_exchange(&box->newest, NULL); }
    static int pyd_mailbox_has(pyd_mailbox_t* box) {
      return atomic_load(&box->newest) != NULL || atomic_load(&box->is_incomplete);
    }
    static int pyd_mailbox_take_incomplete(pyd_mailbox_t* box) { return atomic_exchange(&box->is_incomplete, 0); }

    // Callbacks of webgpu.h. userdata1 is the mailbox.
    typedef struct {
      const char* data;
      size_t length;
    } pyd_wgpu_text_t;

    static void pyd_wgpu_popped(int32_t status, int32_t kind, pyd_wgpu_text_t text, void* box, void* unused) {
      if (kind > 1) pyd_mailbox_put(box, PYD_ERROR, kind, NULL, text.data, text.length);
    }
    static void pyd_wgpu_uncaptured(void* const* device, int32_t kind, pyd_wgpu_text_t text, void* box, void* unused) {
      pyd_mailbox_put(box, PYD_ERROR, kind, NULL, text.data, text.length);
    }
    static void pyd_wgpu_lost(void* const* device, int32_t reason, pyd_wgpu_text_t text, void* box, void* unused) {
      pyd_mailbox_put(box, PYD_LOST, reason, NULL, text.data, text.length);
    }
    static void pyd_wgpu_opened(int32_t status, void* device, pyd_wgpu_text_t text, void* box, void* unused) {
      pyd_mailbox_put(box, PYD_OPENED, status, device, text.data, text.length);
    }
    static void pyd_wgpu_mapped(int32_t status, pyd_wgpu_text_t text, void* box, void* status_of_map) {
      *(int32_t*)status_of_map = status;
      if (status != 1) pyd_mailbox_put(box, PYD_MAPPED, status, NULL, text.data, text.length);
    }

    // The functions that mapping a buffer takes, as webgpu.h declares them.
    typedef struct {
      void* next;
      uint32_t mode;
      void (*callback)(int32_t, pyd_wgpu_text_t, void*, void*);
      void *box, *status;
    } pyd_wgpu_map_info_t;
    typedef struct {
      uint64_t id;
    } pyd_wgpu_future_t;
    typedef pyd_wgpu_future_t (*pyd_wgpu_map_t)(void*, uint64_t, size_t, size_t, pyd_wgpu_map_info_t);
    typedef uint32_t (*pyd_wgpu_poll_t)(void*, uint32_t, const uint64_t*);
    typedef void* (*pyd_wgpu_range_t)(void*, size_t, size_t);
    typedef void (*pyd_wgpu_unmap_t)(void*);

    // Copies between the process and a buffer that is mapped meanwhile. Returns the status of the mapping.
    static int32_t pyd_wgpu_copy(const uintptr_t functions[4], void* device, void* buffer, int is_read, size_t at,
                                 size_t length, size_t skip, char* host, size_t size, void* box) {
      // The driver has the address until it calls back; where it never does, the word is not released.
      int32_t *mapping = calloc(1, sizeof *mapping), status = 0;
      if (mapping == NULL) return -1;
      pyd_wgpu_map_info_t info = {NULL, 3 /* spontaneous */, pyd_wgpu_mapped, box, mapping};
      ((pyd_wgpu_map_t)functions[0])(buffer, is_read ? 1 : 2, at, length, info);
      ((pyd_wgpu_poll_t)functions[1])(device, 1, NULL);
      status = *mapping;
      if (status) free(mapping);
      if (status != 1) return status;
      char* mapped = ((pyd_wgpu_range_t)functions[2])(buffer, at, length);
      if (mapped == NULL) status = -1;
      else if (is_read) memcpy(host, mapped + skip, size);
      else memcpy(mapped + skip, host, size);
      ((pyd_wgpu_unmap_t)functions[3])(buffer);
      return status;
    }

    // PFN_vkDebugUtilsMessengerCallbackEXT. The structure begins with a type, a chain, flags, a name and a number.
    typedef struct {
      int32_t type;
      const void* next;
      uint32_t flags;
      const char* name;
      int32_t number;
      const char* text;
    } pyd_vk_message_t;
    static uint32_t pyd_vk_said(int32_t severity, uint32_t kinds, const pyd_vk_message_t* said, void* box) {
      fprintf(stderr, "vulkan validation: %s\\n", said->text);
      pyd_mailbox_put(box, PYD_ERROR, severity, NULL, said->text, (size_t)-1);
      return 0;
    }

    typedef int32_t (*pyd_vk_submit_t)(void*, uint32_t, const void*, uint64_t);
    typedef int32_t (*pyd_vk_wait_t)(void*, const void*, uint64_t);
    """
    ctypedef struct pyd_message_t:
        pyd_message_t* next
        int32_t kind
        int32_t code
        void* handle
        size_t length
        char* text
    ctypedef struct pyd_mailbox_t:
        pass
    pyd_message_t* pyd_mailbox_take(pyd_mailbox_t* box) nogil
    bint pyd_mailbox_has(pyd_mailbox_t* box) nogil
    bint pyd_mailbox_take_incomplete(pyd_mailbox_t* box) nogil
    enum:
        PYD_ERROR
        PYD_LOST
        PYD_OPENED
        PYD_MAPPED
    void pyd_wgpu_popped()
    void pyd_wgpu_uncaptured()
    void pyd_wgpu_lost()
    void pyd_wgpu_opened()
    void pyd_vk_said()
    int32_t pyd_wgpu_copy(
        const uintptr_t* functions, void* device, void* buffer, bint is_read, size_t at, size_t length, size_t skip,
        char* host, size_t size, void* box) nogil
    ctypedef int32_t (*pyd_vk_submit_t)(void*, uint32_t, const void*, uint64_t) noexcept nogil
    ctypedef int32_t (*pyd_vk_wait_t)(void*, const void*, uint64_t) noexcept nogil

cdef enum:
    VK_TIMEOUT = 2
    SLICE_NANOSECONDS = 200000000  # of a wait, between two looks for signals

ERROR, LOST, OPENED, MAPPED = PYD_ERROR, PYD_LOST, PYD_OPENED, PYD_MAPPED

CALLBACKS = {
    "WGPUPopErrorScopeCallback": <uintptr_t>&pyd_wgpu_popped,
    "WGPUUncapturedErrorCallback": <uintptr_t>&pyd_wgpu_uncaptured,
    "WGPUDeviceLostCallback": <uintptr_t>&pyd_wgpu_lost,
    "WGPURequestDeviceCallback": <uintptr_t>&pyd_wgpu_opened,
    "PFN_vkDebugUtilsMessengerCallbackEXT": <uintptr_t>&pyd_vk_said,
}

cdef list mailboxes = []  # a driver may call back as long as the process lives


cdef class Mailbox:
    """Messages of a driver, which callbacks in C leave. address: for their user data."""

    cdef pyd_mailbox_t* box

    def __cinit__(self):
        self.box = <pyd_mailbox_t*>calloc(1, sizeof(pyd_mailbox_t))
        if self.box == NULL:
            raise MemoryError()
        mailboxes.append(<uintptr_t>self.box)

    @property
    def address(self):
        return <uintptr_t>self.box

    def __bool__(self):
        return pyd_mailbox_has(self.box)

    def take(self):
        """The messages since the last time, in order: (ERROR, LOST, OPENED or MAPPED, code of the driver, address of
        the object that it gives, text). MemoryError when one was dropped."""
        cdef pyd_message_t* message = pyd_mailbox_take(self.box)
        cdef pyd_message_t* next_
        found = []
        while message != NULL:
            text = (<const char*>message.text)[:message.length]
            found.append((message.kind, message.code, <uintptr_t>message.handle, text.decode("utf-8", "replace")))
            next_ = message.next
            free(message)
            message = next_
        if pyd_mailbox_take_incomplete(self.box):
            raise MemoryError("a message of a driver")
        return found[::-1]


def copy_mapped(
        tuple functions not None, uintptr_t device, uintptr_t buffer, bint is_read, size_t at, size_t length,
        size_t skip, uintptr_t host, size_t size, Mailbox box not None):
    """Copy `size` bytes between the process and a WGPUBuffer, byte `at + skip` on, when the device is done with it.

    functions: addresses of wgpuBufferMapAsync, wgpuDevicePoll, wgpuBufferGet(Const)MappedRange and wgpuBufferUnmap. at,
    length: of the range that is mapped meanwhile. Returns the WGPUMapAsyncStatus, 1 for success.
    """
    cdef uintptr_t addresses[4]
    cdef int32_t status
    for i in range(4):
        addresses[i] = functions[i]
    with nogil:
        status = pyd_wgpu_copy(
            addresses, <void*>device, <void*>buffer, is_read, at, length, skip, <char*>host, size, box.box)
    return status


def submit_and_wait(lock, prepare, uintptr_t submit, uintptr_t queue, uintptr_t wait, uintptr_t device):
    """Submit what `prepare()` returns, under the lock, and wait until it is done, without the lock.

    prepare returns the addresses of a VkSubmitInfo and of the VkSemaphoreWaitInfo of its end. submit, wait: addresses
    of vkQueueSubmit and vkWaitSemaphores. What a signal's handler raises is raised when the work is done. Returns
    (name of the function that failed, its VkResult), or None.
    """
    cdef uintptr_t info, wait_info
    cdef int32_t result
    lock.acquire()
    try:
        info, wait_info = prepare()
        with nogil:
            result = (<pyd_vk_submit_t>submit)(<void*>queue, 1, <const void*>info, 0)
    finally:
        lock.release()
    if result < 0:
        return "vkQueueSubmit", result
    with nogil:
        result = (<pyd_vk_wait_t>wait)(<void*>device, <const void*>wait_info, SLICE_NANOSECONDS)
    try:
        while result == VK_TIMEOUT:
            PyErr_CheckSignals()
            with nogil:
                result = (<pyd_vk_wait_t>wait)(<void*>device, <const void*>wait_info, SLICE_NANOSECONDS)
    except BaseException:
        with nogil:
            (<pyd_vk_wait_t>wait)(<void*>device, <const void*>wait_info, <uint64_t>-1)
        raise
    return ("vkWaitSemaphores", result) if result < 0 else None
