"""csrc/drivers: what callbacks of GPU drivers leave, and copies through mapped buffers."""

from libc.stdint cimport int32_t, uintptr_t


cdef extern from "drivers/mailbox.h" nogil:
    enum:
        PYD_MESSAGE_ERROR
        PYD_MESSAGE_LOST
        PYD_MESSAGE_OPENED
        PYD_MESSAGE_MAPPED
    ctypedef struct pyd_message_t:
        pyd_message_t* next
        int32_t kind
        int32_t code
        void* handle
        size_t length
        char* text
    ctypedef struct pyd_mailbox_t:
        pass
    bint pyd_mailbox_has_messages(pyd_mailbox_t* mailbox)
    pyd_message_t* pyd_mailbox_take(pyd_mailbox_t* mailbox)
    bint pyd_mailbox_take_incomplete(pyd_mailbox_t* mailbox)

cdef extern from "drivers/webgpu.h" nogil:
    ctypedef struct pyd_wgpu_functions_t:
        uintptr_t map_async
        uintptr_t poll
        uintptr_t mapped_range
        uintptr_t unmap
    void pyd_wgpu_on_scope_popped()
    void pyd_wgpu_on_error()
    void pyd_wgpu_on_lost()
    void pyd_wgpu_on_opened()
    int32_t pyd_wgpu_copy(
        const pyd_wgpu_functions_t* functions, void* device, void* buffer, bint is_read, size_t offset, size_t length,
        size_t skip, char* host, size_t size, pyd_mailbox_t* mailbox)

cdef extern from "drivers/vulkan.h" nogil:
    void pyd_vk_on_message()
