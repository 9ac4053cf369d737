from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef extern from "pydispatch/host_command.h" nogil:
    int PYD_HOST_CPU, PYD_HOST_CUDA, PYD_HOST_VULKAN, PYD_HOST_INTERPRETER
    int PYD_HOST_TENSOR, PYD_HOST_SCALAR
    int PYD_HOST_READ, PYD_HOST_WRITE, PYD_HOST_READ_WRITE
    const char* PYD_HOST_COMMAND_PREFIX
    ctypedef struct pyd_host_operand_t:
        uint32_t kind
        uint32_t access
        uint32_t dtype
        uint32_t rank
        const int64_t* sizes
        uint64_t bytes
        void* data
        uint64_t offset
        uint64_t word
    ctypedef int32_t (*pyd_host_body_fn_t)(
        void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed
    ) noexcept nogil
    ctypedef struct pyd_host_command_t:
        size_t struct_size
        size_t operand_size
        const char* name
        uint32_t device
        uint32_t operand_count
        const pyd_host_operand_t* operands
        void (*fail)(const pyd_host_command_t* command, const char* text) noexcept nogil
        int32_t (*parallel_for)(
            const pyd_host_command_t* command, uint64_t count, pyd_host_body_fn_t body, void* self) noexcept nogil
        void* stream
        void* command_buffer
        void* handle
    const pyd_host_operand_t* pyd_host_operand(const pyd_host_command_t* command, uint32_t index)

cdef extern from "pydispatch/program.h" nogil:
    void pyd_host_command_raised(
        const pyd_host_command_t* command, void* object, void (*release)(void* object) noexcept nogil)
