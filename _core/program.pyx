"""Loaded programs: the C objects of program.h with an owner that Python can hold."""

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

from pydispatch._core.c_elf cimport pyd_elf_module_t, pyd_elf_module_unload
from pydispatch._core.c_executable cimport pyd_executable_free, pyd_executable_t
from pydispatch._core.c_library cimport pyd_import_fn_t
from pydispatch._core.c_pool cimport pyd_pool_allocator
from pydispatch._core.c_process cimport pyd_process_code_t, pyd_process_code_unregister
from pydispatch._core.c_program cimport *
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.derived cimport Derived
from pydispatch._core.memory cimport Pool
from pydispatch._core.plugin cimport Resolution
from pydispatch._core.sched cimport Scheduler
from pydispatch._core.status cimport check

from pydispatch._core.status import ArtifactError, InvalidArgumentError


@cython.final
@cython.no_gc_clear  # plans that die in the same cycle still need the pool
cdef class Module:
    """Decoded host program in the C core, whose Functions and Procedures are created from it.

    A loader links it once, in this order: results of queries (`answer`), constants, executables with their contracts,
    parameters, derived constants, host commands, state. Then it is immutable and usable from any thread, until `close`.
    """

    # program: bytes of program.bin, which are copied. sched: runs the dispatches. pool: supplies the memory of plans,
    # calls and results. backing: owner of the bytes of constants, which are not copied.
    def __cinit__(self, const unsigned char[::1] program, Scheduler sched, Pool pool, object backing):
        cdef pyd_span_t span
        span.data, span.size = &program[0] if program.shape[0] else NULL, program.shape[0]
        self.sched, self.pool, self.backing = sched, pool, backing
        with nogil:
            check(pyd_program_decode(span, &self.program))
        pyd_program_set_allocator(self.program, pyd_pool_allocator(pool.pool))
        self.executable_count = pyd_program_executable_count(self.program)
        self.executables = <pyd_executable_t**>calloc(self.executable_count + 1, sizeof(void*))
        self.codes = <pyd_process_code_t**>calloc(self.executable_count + 1, sizeof(void*))
        self.mapped = <pyd_elf_module_t*>calloc(self.executable_count + 1, sizeof(pyd_elf_module_t))
        if self.executables == NULL or self.codes == NULL or self.mapped == NULL:
            raise MemoryError()

    def __dealloc__(self):
        cdef uint32_t i
        # The order: the state refers to the program, and the program to the contracts and the executables. Code is
        # unregistered from debuggers before it is unmapped.
        self.state = None
        if self.program != NULL:
            pyd_program_free(self.program)
        if self.contracts != NULL:
            pyd_program_free(self.contracts)
        for i in range(self.executable_count):
            if self.codes != NULL and self.codes[i] != NULL:
                pyd_process_code_unregister(self.codes[i])
            if self.executables != NULL and self.executables[i] != NULL:
                pyd_executable_free(self.executables[i])
            if self.mapped != NULL:
                pyd_elf_module_unload(&self.mapped[i])
        free(self.executables)
        free(self.mapped)
        free(self.codes)

    def close(self):
        """Refuse new calls from now on. The memory is freed with the last plan."""
        self.closed = True

    cdef tuple described(self):
        """Return the pair (flops, interfaces): operation counts by executable, manifest entries by function.

        `details` is this pair, or a function that the first call replaces by its result. The pair is ({}, None) if
        `details` is None.
        """
        details = self.details
        if not isinstance(details, tuple):
            self.details = details = ({}, None) if details is None else details()
        return details

    @property
    def flops(self):
        """Return a dict from indices of executables to the operation counts of their exports.

        A value is the list `flops` of the chosen variant in the manifest (docs/artifact.md). Executables whose variant
        has no such list are absent.
        """
        return self.described()[0]

    @property
    def interfaces(self):
        """Return a dict from names of functions to their entries in the manifest, which name the dynamic sizes.

        Return None if the loader has not set `details`.
        """
        return self.described()[1]

    def queries(self):
        """Return (category, key), both texts, of each query that the program makes about its device, by query index."""
        cdef const pyd_program_query_t* query
        found = []
        for i in range(pyd_program_query_count(self.program)):
            query = pyd_program_query(self.program, i)
            found.append((text_of(query.category), text_of(query.key)))
        return found

    def answer(self, uint32_t index, value):
        """Answer query `index` with an integer, or None if the device does not know it."""
        pyd_program_set_query(self.program, index, value is not None, 0 if value is None else value)

    def constants(self):
        """Return (member, byte offset, byte length, parameter) of each constant.

        The bytes are a range of an artifact's member. parameter: the index in `parameters` of the value that the user
        supplies in place of these bytes, or None. The entry of a derived constant, which the program computes, is None.
        """
        cdef const pyd_program_constant_t* constant
        found = []
        for i in range(pyd_program_constant_count(self.program)):
            constant = pyd_program_constant(self.program, i)
            if constant.derivation != PYD_PROGRAM_NONE:
                found.append(None)
                continue
            parameter = None if constant.parameter == PYD_PROGRAM_NONE else constant.parameter
            found.append((text_of(constant.member), constant.offset, constant.length, parameter))
        return found

    def parameters(self):
        """Return (scope, key, `ElementType.word`, shape) of each parameter, which must be supplied at load."""
        cdef const pyd_program_parameter_t* parameter
        found = []
        for i in range(pyd_program_parameter_count(self.program)):
            parameter = pyd_program_parameter(self.program, i)
            shape = tuple([parameter.dims[k] for k in range(parameter.rank)])
            found.append((text_of(parameter.scope), text_of(parameter.key), parameter.dtype, shape))
        return found

    def derivations(self):
        """Return a tuple for each function that computes derived constants, which are consecutive.

        The tuple has the index of the function, the index of its first constant, and the number of its constants.
        """
        cdef const pyd_program_derivation_t* derivation
        found = []
        for i in range(pyd_program_derivation_count(self.program)):
            derivation = pyd_program_derivation(self.program, i)
            count = pyd_program_function(self.program, derivation.function).result_count
            found.append((derivation.function, derivation.first_constant, count))
        return found

    def use_derived(self, Derived derived not None, owner):
        """Set the memory of derived constants, those that the program computes from others, before any call.

        owner: an object that keeps that memory alive; this module refers to it.
        """
        check(pyd_program_set_derived(self.program, derived.derived))
        self.derived = owner

    def commands(self):
        """Return (name, operands) of each host command that the program calls.

        An operand is (dtype word, sizes, access): sizes has -1 for a dynamic size and is None for a number; access is 1
        for read, 2 for written, 3 for both.
        """
        cdef const pyd_program_command_t* command
        cdef const pyd_program_value_t* value
        cdef uint32_t i, k
        found = []
        for i in range(pyd_program_command_count(self.program)):
            command = pyd_program_command(self.program, i)
            operands = []
            for k in range(command.operand_count):
                value = &command.operands[k]
                sizes = None if value.kind else tuple([value.dims[axis] for axis in range(value.rank)])
                operands.append((value.dtype, sizes, command.accesses[k]))
            found.append((text_of(command.name), operands))
        return found

    def link_commands(self, Resolution resolution not None, list functions not None):
        """Link the host commands: functions of this process that the program calls between dispatches.

        functions: (address, context) of each command as integers, by command index, kept alive by `resolution`.
        """
        cdef uint32_t i
        cdef uintptr_t address, context
        self.hold(resolution)
        for i, (address, context) in enumerate(functions):
            check(pyd_program_set_command(self.program, i, <pyd_import_fn_t><void*>address, <void*>context))
        self.flushes |= resolution.may_print()  # if true, calls flush Python's streams before and C stdio after

    def hold(self, owner):
        """Keep `owner` alive as long as this module, because constants use its memory."""
        self.backing = (self.backing, owner)

    def bind_constant(self, uint32_t index, const unsigned char[::1] data, bint is_mapped=False):
        """Set the bytes of constant `index`, without a copy. The caller passes the owner of the bytes to `hold`.

        is_mapped: the bytes are in a mapping of a file that is never written. Their pages may be dropped from memory,
        as the file still has them.
        """
        cdef pyd_span_t span
        span.data, span.size = &data[0] if data.shape[0] else NULL, data.shape[0]
        check(pyd_program_set_constant(self.program, index, span))
        if is_mapped:
            pyd_program_set_constant_mapped(self.program, index)

    def load_contracts(self, const unsigned char[::1] contracts):
        """Decode the contracts of exports (shapes, types, alignments that kernels rely on), of member contracts.bin."""
        cdef pyd_span_t span
        span.data, span.size = &contracts[0] if contracts.shape[0] else NULL, contracts.shape[0]
        if self.contracts != NULL:
            raise ArtifactError("the contracts are loaded already")
        self.decode_contracts(span)

    cdef int decode_contracts(self, pyd_span_t contracts) except -1:
        """Decode the contents of contracts.bin, which are copied. Call it at most once: a second call would leak."""
        with nogil:
            check(pyd_program_decode(contracts, &self.contracts))
        return 0

    def set_contracts(self, uint32_t index, list functions):
        """Set the contracts of the exports of executable `index`, which plans are checked against.

        functions: for each export, by ordinal, the index of its contract in contracts.bin; None if it has none.
        """
        cdef uint32_t i, count = <uint32_t>len(functions)
        cdef uint32_t* numbers = <uint32_t*>calloc(count + 1, sizeof(uint32_t))
        if numbers == NULL:
            raise MemoryError()
        try:
            for i, number in enumerate(functions):
                numbers[i] = PYD_PROGRAM_NONE if number is None else number
            check(pyd_program_set_contracts(self.program, index, self.contracts, numbers, count))
        finally:
            free(numbers)

    def set_chains(self, uint64_t cache_bytes, uint64_t least_tiles):
        """Set how chains run: dispatches that depend on each other tile by tile.

        cache_bytes: bytes of a worker's cache that tiles may fill; 0 runs one dispatch after the other. least_tiles:
        dispatches with fewer tiles do not run tile by tile, as too few workers would have work.
        """
        cdef pyd_chain_options_t options
        options.cache_bytes, options.least_tiles = cache_bytes, least_tiles
        pyd_program_set_chains(self.program, options)

    def apply_contracts(self):
        """Add the scalars that contracts read to the keys of plans, after all contracts are set and before any plan.

        A plan is checked against contracts once, when it is created. So calls with other values of these scalars need
        another plan.
        """
        with nogil:
            check(pyd_program_apply_contracts(self.program))

    def constant_alignments(self):
        """Return the alignment in bytes that the loaded executables require of each constant."""
        cdef uint32_t i, count = pyd_program_constant_count(self.program)
        cdef uint32_t* alignments = <uint32_t*>calloc(count + 1, sizeof(uint32_t))
        if alignments == NULL:
            raise MemoryError()
        try:
            check(pyd_program_constant_alignments(self.program, alignments))
            return [alignments[i] for i in range(count)]
        finally:
            free(alignments)

    def executable(self, uint32_t index):
        """Return (name, constants function, constant count, conditions) of executable `index`.

        constants function: the index of the function whose results are the executable's constants, or None; constant
        count: the number of its results, 0 for None. conditions: for each variant the index of the function that tells
        whether the variant runs on this device; None for a variant that always does.
        """
        cdef const pyd_program_executable_t* executable = pyd_program_executable(self.program, index)
        cdef uint32_t function = executable.constants_function
        conditions = [
            None if executable.variant_conditions[i] == PYD_PROGRAM_NONE else executable.variant_conditions[i]
            for i in range(executable.variant_count)
        ]
        if function == PYD_PROGRAM_NONE:
            return text_of(executable.name), None, 0, conditions
        return text_of(executable.name), function, pyd_program_function(self.program, function).result_count, conditions

    def evaluate(self, uint32_t function, uint32_t result_count, uint64_t argument=0):
        """Return the results of a function that computes only scalars, as 64-bit register values.

        function: its index; it has at most one argument. result_count: the number of its results, which is not checked.
        argument: value of its argument. Such functions compute executable constants and conditions of variants.
        """
        cdef uint64_t* results = <uint64_t*>calloc(result_count + 1, sizeof(uint64_t))
        if results == NULL:
            raise MemoryError()
        try:
            check(pyd_program_evaluate(self.program, function, &argument, results))
            return [results[i] for i in range(result_count)]
        finally:
            free(results)

    def functions(self):
        """Return (index, name) of each public function."""
        cdef const pyd_program_function_t* function
        found = []
        for i in range(pyd_program_function_count(self.program)):
            function = pyd_program_function(self.program, i)
            if function.is_public:
                found.append((i, text_of(function.name)))
        return found

    def procedures(self):
        """Return (index, name) of each public procedure."""
        cdef const pyd_program_function_t* procedure
        found = []
        for i in range(pyd_program_procedure_count(self.program)):
            procedure = pyd_program_procedure(self.program, i)
            if procedure.is_public:
                found.append((i, text_of(procedure.name)))
        return found

    cdef const pyd_program_function_t* function(self, uint32_t index) except NULL:
        """Return function `index`. Raise InvalidArgumentError if it does not exist."""
        if index >= pyd_program_function_count(self.program):
            raise InvalidArgumentError(
                f"function {index} does not exist; the program has {pyd_program_function_count(self.program)}")
        return pyd_program_function(self.program, index)
