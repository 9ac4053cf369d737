"""Machine code of programs: mapping, linking and announcing the executables of a module."""

from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.stdio cimport fflush
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from pydispatch._core.artifact cimport ArtifactFile
from pydispatch._core.c_artifact cimport pyd_artifact_find, pyd_artifact_member_t, pyd_artifact_verify
from pydispatch._core.c_choose cimport pyd_standalone_choose, pyd_standalone_compare, pyd_standalone_machine_t
from pydispatch._core.c_cpu cimport PYD_CPU_FEATURE_WORDS, pyd_cpu_feature_name
from pydispatch._core.c_elf cimport pyd_elf_debug_symbols, pyd_elf_machine_host, pyd_elf_module_t, pyd_elf_modules_map
from pydispatch._core.c_elf cimport pyd_elf_symbol_t
from pydispatch._core.c_executable cimport pyd_executable_from_module, pyd_executable_from_query, pyd_executable_image
from pydispatch._core.c_executable cimport pyd_executable_library, pyd_executable_module, pyd_executable_options_t
from pydispatch._core.c_library cimport pyd_library_query_fn_t, pyd_library_t
from pydispatch._core.c_manifest cimport pyd_manifest_free, pyd_manifest_read, pyd_manifest_t, pyd_manifest_variant_t
from pydispatch._core.c_process cimport pyd_process_code_info_t, pyd_process_code_register, pyd_process_symbol_t
from pydispatch._core.c_program cimport *
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.c_status cimport pyd_status_annotate, pyd_status_free, pyd_status_t, pyd_status_text
from pydispatch._core.plugin cimport Resolution
from pydispatch._core.program cimport Module, text_of
from pydispatch._core.status cimport check

import os

from pydispatch._core.status import ArtifactError, MissingImportError

cdef enum:
    MAX_CONSTANTS = 256
    PROCESSOR_WORDS = 8

cdef bint WRITES_PERF_MAP = os.environ.get("PYDISPATCH_PERF_MAP", "0") not in ("", "0")


cdef class Manifest:
    """Manifest of an artifact as the C core has parsed it. `read_manifest` creates it; `link_directly` uses it."""

    cdef pyd_manifest_t manifest

    def __init__(self):
        raise TypeError("made by read_manifest")

    def __dealloc__(self):
        pyd_manifest_free(&self.manifest)


def read_manifest(ArtifactFile file not None):
    """Return the Manifest of an artifact; None if the C reader refuses it.

    The C reader accepts a subset of manifests; for None, the caller reads the manifest in Python, which may succeed or
    raise an error. Raise ArtifactError if the member is missing or damaged.
    """
    cdef Manifest result = Manifest.__new__(Manifest)
    cdef pyd_span_t text = file.span("manifest.json", True)
    cdef pyd_status_t status
    with nogil:
        status = pyd_manifest_read(text, &result.manifest)
    return result if is_ok(status) else None


cdef class Machine:
    """Description of a CPU, by which `link_directly` chooses variants.

    Args:
        format: Format of its executables, such as "embedded-elf-x86_64".
        features: LLVM's names of its features.
        processor_data: The eight 64-bit words of processor features that kernels receive.
    """

    cdef pyd_standalone_machine_t machine
    cdef uint64_t processor[PROCESSOR_WORDS]
    cdef bytes format

    def __init__(self, str format, frozenset features, tuple processor_data):
        cdef const char* name
        cdef uint32_t i, known = 0
        self.format = format.encode()
        self.machine.format = self.format
        for i in range(64 * PYD_CPU_FEATURE_WORDS):
            name = pyd_cpu_feature_name(i)
            if name == NULL:
                break
            if name.decode() in features:
                self.machine.features[i // 64] |= <uint64_t>1 << i % 64
                known += 1
        if known != len(features):
            raise ValueError("a CPU has features that this architecture has not")
        for i in range(PROCESSOR_WORDS):
            self.processor[i] = processor_data[i]


# The variant of an executable that was chosen for the CPU.
cdef struct Choice:
    const pyd_manifest_variant_t* variant
    uint32_t number  # index of the variant among the variants of its executable
    uint32_t constant_count
    uint32_t* words  # the constants; NULL if there are none


cdef inline bint is_ok(pyd_status_t status) noexcept nogil:
    """Return whether a status is no failure, and free it."""
    if status == NULL:
        return True
    pyd_status_free(status)
    return False


def link_directly(
        Module module not None, ArtifactFile file not None, Manifest manifest not None, Machine machine not None,
        missing not None):
    """Link the executables of a program whose code is all in its artifact, and load the contracts of its exports.

    This is faster than `CpuLinker.link`, because the manifest is read as C structures. If the result is None, the
    loader chooses variants in Python and uses `CpuLinker.link`, which raise the errors of invalid programs.

    Args:
        module: The program; without executables so far.
        file: Its artifact.
        manifest: The manifest of `file`.
        machine: The CPU that runs the program.
        missing: Function that returns the error for imports that the manifest does not state. Its arguments are the
            index of the executable, the index of the variant, and a tuple of the names.

    Returns:
        For each executable a tuple: the index of its variant, then its constants. None, with the program unchanged, if
        a variant has imports or its code is supplied at load, or if a step before linking fails.

    Raises:
        ArtifactError: Code or contracts are invalid. The program may be linked in part; the caller drops it. The same
            holds for the error of `missing`.
    """
    cdef uint32_t i, k, failed = 0, count = module.executable_count
    cdef bint is_linked
    cdef pyd_span_t* files = <pyd_span_t*>calloc(count + 1, sizeof(pyd_span_t))
    cdef Choice* choices = <Choice*>calloc(count + 1, sizeof(Choice))
    try:
        if files == NULL or choices == NULL:
            raise MemoryError()
        # Choose the variants and map their code. A failure leaves the program unchanged.
        with nogil:
            is_linked = is_ok(pyd_standalone_compare(&manifest.manifest, module.program))
            i = 0
            while is_linked and i < count:
                is_linked = choose(module, file, manifest, machine, i, &choices[i], &files[i])
                i += 1
            if is_linked:
                is_linked = is_ok(pyd_elf_modules_map(files, count, module.mapped, &failed))
        if not is_linked:
            return None
        # Link the code. An error from here on leaves the program linked in part.
        keys = []
        for i in range(count):
            link_choice(module, machine, i, &choices[i], files[i], missing)
            check_exports(file, manifest, module, i, choices[i].variant)
            keys.append((choices[i].number, *[choices[i].words[k] for k in range(choices[i].constant_count)]))
        link_contracts(module, file, manifest, choices, count)
        return keys
    finally:
        for i in range(count if choices != NULL else 0):
            free(choices[i].words)
        free(choices)
        free(files)


cdef bint choose(
        Module module, ArtifactFile file, Manifest manifest, Machine machine, uint32_t index, Choice* out_choice,
        pyd_span_t* out_file) noexcept nogil:
    """Choose the variant of an executable, compute its constants and find its code in the artifact.

    out_file: receives the code, memory of `file`. out_choice: zero before; the caller frees its `words`, also after
    False. Return False if `link_directly` cannot link the executable.
    """
    cdef uint64_t results[MAX_CONSTANTS]
    cdef uint64_t argument  # of the function that computes the constants: index of the variant
    cdef uint32_t i, function = pyd_program_executable(module.program, index).constants_function
    cdef const pyd_artifact_member_t* member
    cdef const pyd_manifest_variant_t* variant
    if not is_ok(pyd_standalone_choose(
            &manifest.manifest, module.program, index, &machine.machine, &out_choice.number)):
        return False
    variant = &manifest.manifest.variants[manifest.manifest.executables[index].first_variant + out_choice.number]
    if variant.is_dynamic or variant.import_count:
        return False
    if function != PYD_PROGRAM_NONE:
        out_choice.constant_count = pyd_program_function(module.program, function).result_count
        argument = out_choice.number
        if out_choice.constant_count > MAX_CONSTANTS or not is_ok(
                pyd_program_evaluate(module.program, function, &argument, results)):
            return False
        out_choice.words = <uint32_t*>malloc((out_choice.constant_count + 1) * sizeof(uint32_t))
        if out_choice.words == NULL:
            return False
        for i in range(out_choice.constant_count):
            out_choice.words[i] = <uint32_t>results[i]
    member = pyd_artifact_find(file.artifact, variant.member.data, variant.member.length)
    if member == NULL or not is_ok(pyd_artifact_verify(member)):
        return False
    out_choice.variant = variant
    out_file[0] = member.data
    return True


cdef int link_choice(
        Module module, Machine machine, uint32_t index, const Choice* choice, pyd_span_t file, missing) except -1:
    """Load the chosen variant of an executable, whose code in `file` is mapped, and link it to the program.

    missing: returns the error for unresolved imports; it is passed the index of the executable, the index of the
    variant, and a tuple of the names.
    """
    cdef pyd_executable_options_t options
    entry = pyd_program_executable(module.program, index)
    name = entry.name.data[:entry.name.length] if entry.name.length else b""
    memset(&options, 0, sizeof(options))
    options.name, options.processor_data = name, machine.processor
    options.constants, options.constant_count = choice.words, choice.constant_count
    try:
        attach(module, index, &options, file, choice.number, choice.variant.alignment, NULL)
    except MissingImportError as error:
        raise missing(index, choice.number, error.symbols) from None
    return 0


cdef int link_contracts(
        Module module, ArtifactFile file, Manifest manifest, const Choice* choices, uint32_t count) except -1:
    """Load the contracts of the exports of chosen variants, if any has contracts, after all executables are linked.

    A contract is a function of contracts.bin that bounds the grid and the accesses of an export; plans are checked
    against it.
    """
    cdef const pyd_manifest_variant_t* variant
    cdef uint32_t nothing = 0  # its address is passed for an empty list, and not read
    cdef const uint32_t* functions  # for each export, the index of its contract in contracts.bin
    cdef uint32_t i
    for i in range(count):
        variant = choices[i].variant
        if not variant.has_contracts:  # the manifest has no list of contracts for it; a list may also be empty
            continue
        if module.contracts == NULL:
            module.decode_contracts(file.span("contracts.bin", True))
        functions = &nothing
        if variant.contract_count:
            functions = &manifest.manifest.contracts[variant.first_contract]
        check(pyd_program_set_contracts(module.program, i, module.contracts, functions, variant.contract_count))
    if module.contracts != NULL:
        module.apply_contracts()
    return 0


cdef int check_exports(
        ArtifactFile file, Manifest manifest, Module module, uint32_t index, const pyd_manifest_variant_t* variant
        ) except -1:
    """Raise ArtifactError if the manifest lists more exports of an executable than its code has."""
    cdef uint64_t count = pyd_executable_library(module.executables[index]).exports.count
    cdef uint32_t listed = manifest.manifest.executables[index].export_count
    if listed > count:
        name = manifest.manifest.executables[index].name
        raise_exports(file.name, text_of(name), text_of(variant.member), listed, count)
    return 0


def raise_exports(str file, str name, str member, listed, count):
    """Raise ArtifactError: the manifest of `file` lists more exports of an executable than the code in `member` has."""
    raise ArtifactError(
        f"{file}: manifest.json lists {listed} exports of executable '{name}', '{member}' has {count}")


def map_executables(Module module not None, list codes not None):
    """Map the code of executables in one mapping, which takes fewer system calls; load_executable() then links each.

    codes: (index, name, bytes of the ELF file) of each executable. Raise ArtifactError if a file cannot be loaded; no
    code is mapped then.
    """
    cdef uint32_t i, index, failed = 0, count = <uint32_t>len(codes)
    cdef const unsigned char[::1] elf
    cdef pyd_status_t status
    cdef pyd_span_t* files = <pyd_span_t*>calloc(count + 1, sizeof(pyd_span_t))
    cdef pyd_elf_module_t* modules = <pyd_elf_module_t*>calloc(count + 1, sizeof(pyd_elf_module_t))
    try:
        if files == NULL or modules == NULL:
            raise MemoryError()
        for i, (index, name, elf) in enumerate(codes):
            if index >= module.executable_count or module.executables[index] or module.mapped[index].memory:
                raise ArtifactError(f"executable {index} '{name}' does not exist or is loaded already")
            files[i].data, files[i].size = &elf[0] if elf.shape[0] else NULL, elf.shape[0]
        with nogil:
            status = pyd_elf_modules_map(files, count, modules, &failed)
        if status != NULL and failed < count:
            encoded = codes[failed][1].encode()
            status = pyd_status_annotate(status, b"executable '%s': %s", <char*>encoded, pyd_status_text(status))
        check(status)
        for i, (index, _, _) in enumerate(codes):
            module.mapped[index] = modules[i]
    finally:
        free(files)
        free(modules)


def load_executable(
        Module module not None, uint32_t index, const unsigned char[::1] elf, str name, list constants,
        tuple processor_data, uint32_t variant, uint32_t alignment, Resolution resolution=None, uintptr_t query=0,
        object owner=None):
    """Load the chosen variant of executable `index` and link it to the program. Return the number of its exports.

    The code is either an ELF file that map_executables() has mapped, or a library in memory. elf: the bytes of the ELF
    file; None for a library. query: address of the query function of the library; 0 for an ELF file. The library is in
    memory as long as `owner`. name: of the executable, for messages. variant: index of the variant. resolution:
    resolves its imports, the same for all executables of a program. constants: words of the executable constants.
    processor_data: the eight words of processor features that kernels receive. alignment: bytes, a power of two, to
    which the variant requires its bindings to be aligned.
    """
    cdef pyd_executable_options_t options
    cdef uint32_t words[MAX_CONSTANTS]
    cdef uint64_t processor[PROCESSOR_WORDS]
    cdef pyd_span_t file
    encoded = name.encode()
    if len(constants) > MAX_CONSTANTS:
        raise ArtifactError(
            f"executable '{name}' has {len(constants)} constants; at most {<int>MAX_CONSTANTS} are supported")
    if index >= module.executable_count or module.executables[index] != NULL:
        raise ArtifactError(f"executable {index} '{name}' does not exist or is loaded already")
    for i in range(PROCESSOR_WORDS):
        processor[i] = processor_data[i]
    for i, value in enumerate(constants):
        words[i] = <uint32_t>(<uint64_t>value)
    options.name, options.resolver = encoded, NULL
    if resolution is not None:
        module.resolution = resolution
        options.resolver = resolution.resolver()
    options.constants, options.constant_count = words, <uint32_t>len(constants)
    options.processor_data = processor
    file.data, file.size = &elf[0] if elf.shape[0] else NULL, elf.shape[0]
    if query:  # a library: the module keeps its owner alive, besides the owners that it has
        module.backing = (module.backing, owner)
        file.size = 0
    elif module.mapped[index].memory == NULL:
        raise ArtifactError(f"the code of executable {index} '{name}' is not mapped")
    attach(module, index, &options, file, variant, alignment, <pyd_library_query_fn_t>query)
    if resolution is not None:
        module.has_library |= query != 0
        module.flushes = module.has_library or resolution.may_print()
        fflush(NULL)  # output of plugins that were queried
    return pyd_executable_library(module.executables[index]).exports.count


cdef int attach(
        Module module, uint32_t index, const pyd_executable_options_t* options, pyd_span_t file, uint32_t variant,
        uint32_t alignment, pyd_library_query_fn_t query) except -1:
    """Load executable `index` from its mapped code, or from a library if `query` is not NULL, and announce it.

    file: the ELF file of the code, empty for a library. variant: index of the variant. alignment: bytes.
    """
    with nogil:
        if query != NULL:
            check(pyd_executable_from_query(query, options, &module.executables[index]))
        else:
            check(pyd_executable_from_module(&module.mapped[index], options, &module.executables[index]))
        check(pyd_program_set_executable(module.program, index, module.executables[index], variant, alignment))
    return announce(module, index, options.name, file)


cdef int announce(Module module, uint32_t index, const char* name, pyd_span_t file) except -1:
    """Register the functions of an executable with debuggers, and with perf if PYDISPATCH_PERF_MAP is set.

    These are its exports, by their names in programs, and the other symbols of `file`, empty for a library.
    """
    cdef const pyd_library_t* library = pyd_executable_library(module.executables[index])
    cdef const pyd_elf_module_t* mapped = pyd_executable_module(module.executables[index])
    cdef pyd_span_t image = pyd_executable_image(module.executables[index])
    cdef pyd_process_code_info_t info
    cdef uint64_t i, count = library.exports.count, other_count = pyd_elf_debug_symbols(file, mapped, NULL, 0)
    cdef pyd_process_symbol_t* symbols = <pyd_process_symbol_t*>calloc(
        count + other_count + 1, sizeof(pyd_process_symbol_t))
    cdef pyd_elf_symbol_t* others = <pyd_elf_symbol_t*>calloc(other_count + 1, sizeof(pyd_elf_symbol_t))
    try:
        if symbols == NULL or others == NULL:
            raise MemoryError()
        for i in range(count):
            symbols[i].name = library.exports.names[i]
            symbols[i].address = <const void*>library.exports.ptrs[i]
            symbols[i].is_function = True
        pyd_elf_debug_symbols(file, mapped, others, other_count)
        if other_count:
            count += add_symbols(symbols, count, others, other_count)
        info.name, info.address, info.size = name, image.data, image.size
        info.machine, info.symbols, info.symbol_count = pyd_elf_machine_host(), symbols, count
        check(pyd_process_code_register(&info, WRITES_PERF_MAP, &module.codes[index]))
    finally:
        free(symbols)
        free(others)
    return 0


cdef int64_t add_symbols(
        pyd_process_symbol_t* symbols, uint64_t count, const pyd_elf_symbol_t* others, uint64_t other_count) except -1:
    """Append symbols of an ELF file to `symbols`, which are `count` exports; return the number of appended ones.

    A symbol at the address of exports is not appended: it only supplies their size.
    """
    cdef uint64_t i, k, end = count
    cdef dict exports = {}  # address -> indices of the exports there
    for i in range(count):
        exports.setdefault(<uintptr_t>symbols[i].address, []).append(i)
    for i in range(other_count):
        same = exports.get(<uintptr_t>others[i].address)
        if same is not None:
            for k in same:
                symbols[k].size = others[i].size
            continue
        symbols[end].name, symbols[end].address = others[i].name, others[i].address
        symbols[end].size, symbols[end].is_function = others[i].size, others[i].is_function
        end += 1
    return <int64_t>(end - count)
