from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pydispatch._core.c_status cimport pyd_status_t


cdef extern from "pydispatch/span.h" nogil:
    ctypedef struct pyd_span_t:
        const uint8_t* data
        size_t size


cdef extern from "pydispatch/elf.h" nogil:
    const char* pyd_elf_machine_name(uint32_t machine)
    uint32_t pyd_elf_machine_host()

    ctypedef struct pyd_elf_module_t:
        uint8_t* memory
        size_t memory_size
        uint64_t bias
        uint64_t low_vaddr
        uint64_t symbol_count

    ctypedef struct pyd_elf_symbol_t:
        const char* name
        void* address
        uint64_t size
        bint is_function

    pyd_status_t pyd_elf_validate(pyd_span_t file, uint32_t* out_machine)
    pyd_status_t pyd_elf_check_system(pyd_span_t file)
    pyd_status_t pyd_elf_module_load(pyd_span_t file, pyd_elf_module_t* out_module)
    pyd_status_t pyd_elf_modules_map(
        const pyd_span_t* files, uint32_t count, pyd_elf_module_t* out_modules, uint32_t* out_failed)
    void* pyd_elf_module_symbol(const pyd_elf_module_t* module, const char* name)
    bint pyd_elf_module_symbol_at(const pyd_elf_module_t* module, uint64_t index, pyd_elf_symbol_t* out_symbol)
    uint64_t pyd_elf_debug_symbols(
        pyd_span_t file, const pyd_elf_module_t* module, pyd_elf_symbol_t* out_symbols, uint64_t capacity)
    void pyd_elf_module_unload(pyd_elf_module_t* module)
