"""The embedded ELF loader: loads freestanding shared objects without the system's dynamic linker."""

import os

from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from pydispatch._core.c_elf cimport pyd_elf_check_system, pyd_elf_debug_symbols, pyd_elf_machine_host
from pydispatch._core.c_elf cimport pyd_elf_machine_name, pyd_elf_module_load, pyd_elf_module_symbol
from pydispatch._core.c_elf cimport pyd_elf_module_symbol_at, pyd_elf_module_t, pyd_elf_module_unload, pyd_elf_symbol_t
from pydispatch._core.c_elf cimport pyd_elf_validate
from pydispatch._core.c_process cimport pyd_process_code_info_t, pyd_process_code_register, pyd_process_code_t
from pydispatch._core.c_process cimport pyd_process_code_unregister, pyd_process_symbol_t
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.lock cimport pyd_lock, pyd_take, pyd_unlock
from pydispatch._core.status cimport check


cdef inline pyd_span_t span_of(const unsigned char[::1] view) noexcept:
    """Return the address and size of the bytes of a buffer, which the caller keeps alive. The address is not NULL."""
    cdef pyd_span_t span
    span.data = &view[0] if view.shape[0] else <const unsigned char*>b""
    span.size = view.shape[0]
    return span


def host_machine():
    """Return the architecture of this machine, "x86_64", "aarch64" or "riscv64"; None if no ELF file can be loaded."""
    cdef const char* name = pyd_elf_machine_name(pyd_elf_machine_host())
    return None if name == NULL else name.decode()


def validate(data):
    """Check an ELF file for any known machine as loading would, without loading it. data: a buffer of its bytes.

    Returns the machine's name ("x86_64", "aarch64", "riscv64"). Raises ArtifactError for a file that is broken or uses
    what an embedded ELF file must not: the text says what, where and what to do.
    """
    cdef const unsigned char[::1] view = memoryview(data).cast("B")
    cdef pyd_span_t span = span_of(view)
    cdef uint32_t machine = 0
    with nogil:
        check(pyd_elf_validate(span, &machine))
    return pyd_elf_machine_name(machine).decode()


def check_system(data):
    """Check those tables of an ELF shared library that the system's loader follows without validation.

    data: a buffer of its bytes. Raises ArtifactError if one is broken.
    """
    cdef const unsigned char[::1] view = memoryview(data).cast("B")
    cdef pyd_span_t span = span_of(view)
    with nogil:
        check(pyd_elf_check_system(span))


cdef pyd_status_t announce(
        pyd_span_t file, const pyd_elf_module_t* module, const char* name, bint perf_map,
        pyd_process_code_t** out_code) noexcept nogil:
    """Register the code and the symbols of a module with debuggers, and with perf if `perf_map` is set.

    file: bytes that the module was loaded from. name: of the module, in debuggers. out_code: receives the registration.
    """
    cdef pyd_process_code_info_t info
    cdef pyd_status_t status
    cdef uint64_t i, count = 0
    cdef uint64_t debug = pyd_elf_debug_symbols(file, module, NULL, 0)
    cdef uint64_t capacity = max(debug, module.symbol_count)
    cdef pyd_elf_symbol_t* symbols = <pyd_elf_symbol_t*>malloc((capacity + 1) * sizeof(pyd_elf_symbol_t))
    cdef pyd_process_symbol_t* named = <pyd_process_symbol_t*>malloc((capacity + 1) * sizeof(pyd_process_symbol_t))
    if symbols != NULL and named != NULL:  # when out of memory the code is registered without names
        if debug > 0:
            count = pyd_elf_debug_symbols(file, module, symbols, capacity)
        else:  # the file is stripped: use its exports. Symbol 0 of a table is reserved
            for i in range(1, module.symbol_count):
                count += pyd_elf_module_symbol_at(module, i, &symbols[count])
        for i in range(count):
            named[i].name = symbols[i].name
            named[i].address = symbols[i].address
            named[i].size = symbols[i].size
            named[i].is_function = symbols[i].is_function
    info.name = name
    info.address = <const void*><uintptr_t>(module.bias + module.low_vaddr)
    # From the lowest address of the code to the end of its memory.
    info.size = <uintptr_t>module.memory + module.memory_size - (module.bias + module.low_vaddr)
    info.machine = pyd_elf_machine_host()
    info.symbols = named
    info.symbol_count = count
    status = pyd_process_code_register(&info, perf_map, out_code)
    free(symbols)
    free(named)
    return status


cdef class Module:
    """A loaded ELF file whose initializers have run. close(), or freeing this object, runs finalizers and unmaps it.

    data: any buffer of bytes, copied. name: its name in debuggers. Raises ArtifactError for a file that cannot be
    loaded on this machine, OutOfMemoryError and SystemError for failures of the system. With PYDISPATCH_PERF_MAP=1 in
    the environment its functions are listed for perf in /tmp/perf-<pid>.map.

    The code is trusted: load only what you would also run.
    """

    def __init__(self, data, str name="pydispatch module"):
        """Load the ELF file, run its initializers, and register its code with debuggers."""
        if self.module.memory != NULL:
            raise RuntimeError("Module is already loaded")
        cdef const unsigned char[::1] view = memoryview(data).cast("B")
        cdef pyd_span_t span = span_of(view)
        cdef bytes encoded = name.encode()
        cdef const char* c_name = encoded
        cdef bint perf_map = os.environ.get("PYDISPATCH_PERF_MAP", "0") not in ("", "0")
        with nogil:
            check(pyd_elf_module_load(span, &self.module))
            check(announce(span, &self.module, c_name, perf_map, &self.code))

    def __dealloc__(self):
        self.close()

    cdef void* find(self, const char* name) noexcept nogil:
        """Return the address of a defined global symbol; NULL if there is none, or after close()."""
        return pyd_elf_module_symbol(&self.module, name)

    def symbol(self, str name):
        """Return the address of a defined global symbol; None if there is none, or after close()."""
        cdef bytes encoded = name.encode()
        cdef void* address = self.find(encoded)
        return None if address == NULL else <uintptr_t>address

    def symbols(self):
        """Return a dict of the names of all defined global symbols to their addresses."""
        cdef pyd_elf_symbol_t symbol
        cdef uint64_t i
        found = {}
        for i in range(1, self.module.symbol_count):  # symbol 0 of a table is reserved
            if pyd_elf_module_symbol_at(&self.module, i, &symbol):  # undefined and local symbols are left out
                found[symbol.name.decode("utf-8", "replace")] = <uintptr_t>symbol.address
        return found

    @property
    def bias(self):
        """Return the load bias: the address of a byte minus its virtual address in the file. 0 after close()."""
        return self.module.bias

    @property
    def size(self):
        """Return the bytes of address space that the module occupies. 0 after close()."""
        return self.module.memory_size

    def close(self):
        """Run the finalizers and unmap the code; addresses in it become invalid. Idempotent."""
        cdef pyd_elf_module_t module
        pyd_process_code_unregister(<pyd_process_code_t*>pyd_take(<void**>&self.code))
        pyd_lock(&self.lock)  # of two threads that close, one unloads and the other one gets an empty module
        module = self.module
        memset(&self.module, 0, sizeof(self.module))
        pyd_unlock(&self.lock)
        pyd_elf_module_unload(&module)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
