"""Providers of the imports of programs: plugins, and functions that the host has registered.

Plugins may print through C stdio, which has its own buffer: it and Python's are flushed around calls of such plugins.
"""

import os
from typing import NamedTuple

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.stdio cimport fflush
from libc.stdlib cimport calloc, free

from pydispatch._core.c_executable cimport pyd_imports_resolve, pyd_resolver_t
from pydispatch._core.c_library cimport pyd_import_fn_t
from pydispatch._core.c_plugin cimport pyd_plugin_param_t, pyd_plugin_query_fn_t
from pydispatch._core.c_plugin_host cimport PYD_PLUGIN_KIND_AUTO, PYD_PLUGIN_KIND_EMBEDDED, PYD_PLUGIN_KIND_SYSTEM
from pydispatch._core.c_plugin_host cimport pyd_plugin_description, pyd_plugin_kind, pyd_plugin_kind_name
from pydispatch._core.c_plugin_host cimport pyd_plugin_kind_t, pyd_plugin_label, pyd_plugin_load_bytes
from pydispatch._core.c_plugin_host cimport pyd_plugin_load_file, pyd_plugin_load_static
from pydispatch._core.c_plugin_host cimport pyd_plugin_manager_add_functions, pyd_plugin_manager_add_plugin
from pydispatch._core.c_plugin_host cimport pyd_plugin_manager_after_fork, pyd_plugin_manager_before_fork
from pydispatch._core.c_plugin_host cimport pyd_plugin_manager_create, pyd_plugin_manager_release
from pydispatch._core.c_plugin_host cimport pyd_plugin_manager_remove, pyd_plugin_manager_t, pyd_plugin_may_print
from pydispatch._core.c_plugin_host cimport pyd_plugin_name, pyd_plugin_options_t, pyd_plugin_release, pyd_plugin_t
from pydispatch._core.c_plugin_host cimport pyd_provider_function_t, pyd_provider_id_t, pyd_resolution_begin
from pydispatch._core.c_plugin_host cimport pyd_resolution_free, pyd_resolution_may_print, pyd_resolution_provider
from pydispatch._core.c_plugin_host cimport pyd_resolution_provider_count, pyd_resolution_resolver
from pydispatch._core.c_plugin_host cimport pyd_resolution_end, pyd_resolution_symbol, pyd_resolution_symbol_count
from pydispatch._core.c_plugin_host cimport pyd_resolution_symbol_t
from pydispatch._core.c_process cimport pyd_process_atfork_add, pyd_process_atfork_remove
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.lock cimport pyd_take
from pydispatch._core.status cimport check

from pydispatch._core.status import InvalidArgumentError

_KINDS = {"auto": PYD_PLUGIN_KIND_AUTO, "system": PYD_PLUGIN_KIND_SYSTEM, "embedded": PYD_PLUGIN_KIND_EMBEDDED}


class Provider(NamedTuple):
    """Provider of functions, registered with a Manager.

    id: identifier, as `Manager.add` returns it. label: name in messages. priority: the highest is queried first.
    """

    id: int
    label: str
    priority: int


class ResolvedSymbol(NamedTuple):
    """Outcome of the resolution of one imported symbol of an executable.

    name: the symbol. is_optional: whether the executable loads without it. provider: the provider that supplied it, or
    None. asked: the providers that were queried, in order, the supplying one included. group: number of the executable
    among those with imports, from 0.
    """

    name: str
    is_optional: bool
    group: int
    provider: Provider | None
    asked: tuple


cdef extern from "platform/dl.h":
    pyd_status_t pyd_dl_check(pyd_span_t file) noexcept nogil


def check_library(data):
    """Check the bytes of a shared library before the system's loader may run its constructors.

    data: a buffer of them. Raises Error if the library is for another machine, of another format, or needs a sanitizer
    that this process lacks.
    """
    cdef const unsigned char[::1] view = memoryview(data).cast("B")
    cdef pyd_span_t span
    span.data = &view[0] if view.shape[0] else <const unsigned char*>b""  # an empty view has no element
    span.size = view.shape[0]
    with nogil:
        check(pyd_dl_check(span))


cdef str text_of(const char* text):
    """Return a terminated C string as text. Invalid UTF-8, which a plugin may state, becomes U+FFFD."""
    return text.decode("utf-8", "replace")


cdef bytes name_bytes(object name, str what):
    """Return a name in UTF-8 for C. Raise InvalidArgumentError if it is no text, empty, or has a NUL character.

    what: how the error calls the name.
    """
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError(f"{what}: expected a non-empty text without NUL, got {name!r}")
    return (<str>name).encode()


cdef list parameter_bytes(params):
    """Return the parameters of a plugin as pairs of bytes. Raise InvalidArgumentError for one that is no text."""
    for key, value in params.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidArgumentError(f"plugin parameter {key!r}: expected texts, got {value!r}")
    return [(key.encode(), value.encode()) for key, value in params.items()]


cdef pyd_plugin_param_t* plugin_params(list encoded) except NULL:
    """Return an array of parameters, which refer to pairs of bytes; the caller frees it."""
    cdef size_t i
    cdef pyd_plugin_param_t* items = <pyd_plugin_param_t*>calloc(len(encoded) + 1, sizeof(pyd_plugin_param_t))
    if items == NULL:
        raise MemoryError
    for i, (key, value) in enumerate(encoded):
        items[i].key.data = <const char*><bytes>key
        items[i].key.size = len(key)
        items[i].value.data = <const char*><bytes>value
        items[i].value.size = len(value)
    return items


cdef class Plugin:
    """A loaded plugin. It stays loaded until the last manager or program that uses it releases it.

    source: a path, or any buffer of bytes. A path may begin "embedded:" or "system:". params: dict from names to texts,
    for the plugin's load function. kind: "auto", "system" (the operating system's loader) or "embedded" (the embedded
    ELF loader; of a FatELF file, the record for this machine). name: its name in messages. Raises ArtifactError if the
    file or its description is invalid, InvalidArgumentError if its load function refuses, SystemError if it cannot be
    opened.

    The code is trusted: load only what you would also run.
    """

    def __init__(self, source, params=None, *, str kind="auto", name=None):
        """Load the plugin from a file or from bytes. For the arguments, see the class."""
        cdef pyd_plugin_options_t options
        cdef pyd_plugin_param_t* items = NULL
        cdef pyd_span_t span
        cdef const unsigned char[::1] view
        cdef bytes path = None, label = None
        cdef const char* c_path = NULL
        if self.plugin != NULL:
            raise RuntimeError("Plugin is already loaded")
        if kind not in _KINDS:
            raise InvalidArgumentError(f"kind: expected one of {', '.join(_KINDS)}, got {kind!r}")
        # A path, or the bytes of the plugin.
        if isinstance(source, (str, os.PathLike)):
            path = name_bytes(os.fsdecode(source), "path")
            c_path = path
        else:
            view = memoryview(source).cast("B")
            span.data = &view[0] if view.shape[0] else <const unsigned char*>b""
            span.size = view.shape[0]
        if name is not None:
            label = name_bytes(name, "name")
        encoded = parameter_bytes(params or {})  # kept until the C call ends, as `items` points into it
        options.kind, options.name = <pyd_plugin_kind_t><int>_KINDS[kind], NULL
        if label is not None:
            options.name = label
        options.param_count = len(encoded)
        options.params = items = plugin_params(encoded)
        try:
            with nogil:
                if c_path != NULL:
                    check(pyd_plugin_load_file(c_path, &options, &self.plugin))
                else:
                    check(pyd_plugin_load_bytes(span, &options, &self.plugin))
                if pyd_plugin_may_print(self.plugin):  # its load function may have printed
                    fflush(NULL)
        finally:
            free(items)

    @staticmethod
    def from_query(uintptr_t address, name="static plugin"):
        """Create a Plugin for code that is part of this process already.

        address: of the plugin's query function (pydispatch/plugin.h), which must stay valid. name: in messages.
        """
        cdef Plugin self = Plugin.__new__(Plugin)
        cdef pyd_plugin_options_t options
        cdef bytes label = name_bytes(name, "name")
        options.kind, options.name = PYD_PLUGIN_KIND_AUTO, label
        options.params, options.param_count = NULL, 0
        with nogil:
            check(pyd_plugin_load_static(<pyd_plugin_query_fn_t>address, &options, &self.plugin))
            fflush(NULL)  # its load function may have printed
        return self

    def __dealloc__(self):
        self.close()

    cdef pyd_plugin_t* get(self) except NULL:
        """Return the C plugin, without a new reference. Raise InvalidArgumentError after close()."""
        if self.plugin == NULL:
            raise InvalidArgumentError("the plugin is closed")
        return self.plugin

    @property
    def label(self):
        """Return the name of the plugin in messages: the argument `name`, or else the path."""
        return text_of(pyd_plugin_label(self.get()))

    @property
    def name(self):
        """Return the name that the plugin states."""
        return text_of(pyd_plugin_name(self.get()))

    @property
    def description(self):
        """Return the description that the plugin states, "" if it states none."""
        return text_of(pyd_plugin_description(self.get()))

    @property
    def kind(self):
        """Return how it was loaded: "system", "embedded" or "static"."""
        return text_of(pyd_plugin_kind_name(pyd_plugin_kind(self.get())))

    @property
    def may_print(self):
        """Return whether it may write through C stdio, so that output streams must be flushed around calls of it.

        True for a static plugin, False for an embedded one. False for a shared library only if all its imports are
        known not to print.
        """
        return bool(pyd_plugin_may_print(self.get()))

    def close(self):
        """Release this reference. The last reference, of a manager or a program, unloads the plugin. Idempotent."""
        cdef pyd_plugin_t* plugin = <pyd_plugin_t*>pyd_take(<void**>&self.plugin)
        with nogil:
            pyd_plugin_release(plugin)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


cdef class Resolution:
    """The resolved imports of one program, which keep the plugins that the program uses loaded.

    `Manager.resolution()` creates it before the program's code is loaded, which then resolves its imports through it.
    """

    def __init__(self):
        raise TypeError("a Resolution is made by Manager.resolution()")

    def __dealloc__(self):
        cdef pyd_resolution_t* resolution = self.resolution
        self.resolution = NULL
        with nogil:
            pyd_resolution_free(resolution)

    cdef const pyd_resolver_t* resolver(self) noexcept nogil:
        """Return the C interface by which executables resolve their imports, for pyd_executable_options_t.

        It is valid as long as this object. Only one thread at a time may use it.
        """
        return pyd_resolution_resolver(self.resolution)

    cdef bint may_print(self) noexcept nogil:
        """Return whether a plugin that has supplied a symbol may print."""
        return pyd_resolution_may_print(self.resolution)

    def end(self):
        """Release the providers that have supplied nothing, after all executables are loaded."""
        with nogil:
            pyd_resolution_end(self.resolution)

    def providers(self):
        """Return all providers, in the order in which they are queried."""
        return tuple(self.provider(i) for i in range(pyd_resolution_provider_count(self.resolution)))

    def provider(self, uint32_t index):
        """Return provider `index` in the order of queries, None if there is none."""
        p = pyd_resolution_provider(self.resolution, index)
        return None if p == NULL else Provider(p.id, text_of(p.label), p.priority)

    def report(self):
        """Return a list with a ResolvedSymbol for each symbol that was requested, in order."""
        cdef const pyd_resolution_symbol_t* symbol
        cdef uint32_t i
        providers = self.providers()
        found = []
        for i in range(pyd_resolution_symbol_count(self.resolution)):
            symbol = pyd_resolution_symbol(self.resolution, i)
            found.append(ResolvedSymbol(
                text_of(symbol.name), bool(symbol.is_optional), symbol.group, self.provider(symbol.provider),
                # Every symbol is looked up in the order of `providers`, until one of them has it.
                providers[:symbol.asked_count],
            ))
        return found

    def resolve(self, names, str executable="test"):
        """Resolve symbols as if they were imports of an executable; a '?' before a name marks it as optional.

        executable: its name in errors. Returns for each name a pair: the addresses of the function and of the context
        that is passed to it; (0, 0) for an optional symbol without a provider. Raises MissingImportError for another
        symbol without a provider.
        """
        cdef list encoded = [name_bytes(name, "symbol") for name in names]
        cdef bytes label = executable.encode()
        cdef const char* c_label = label
        cdef uint32_t i, count = len(encoded)
        cdef const char** symbols = <const char**>calloc(count + 1, sizeof(void*))
        cdef pyd_import_fn_t* functions = <pyd_import_fn_t*>calloc(count + 1, sizeof(void*))
        cdef void** contexts = <void**>calloc(count + 1, sizeof(void*))
        try:
            if symbols == NULL or functions == NULL or contexts == NULL:
                raise MemoryError
            for i in range(count):
                symbols[i] = <const char*><bytes>encoded[i]
            with nogil:
                check(pyd_imports_resolve(c_label, count, symbols, self.resolver(), functions, contexts))
            return [(<uintptr_t>functions[i], <uintptr_t>contexts[i]) for i in range(count)]
        finally:
            free(symbols)
            free(functions)
            free(contexts)


cdef void drop(void* owner) noexcept with gil:
    """Release the `keepalive` object of functions that neither a manager nor a program uses. Called on any thread."""
    Py_DECREF(<object>owner)


cdef void before_fork(void* manager) noexcept nogil:
    """Lock a pyd_plugin_manager_t before a fork, so that no thread changes its providers meanwhile."""
    pyd_plugin_manager_before_fork(<pyd_plugin_manager_t*>manager)


cdef void after_fork(void* manager) noexcept nogil:
    """Unlock a pyd_plugin_manager_t after a fork, in the parent and in the child."""
    pyd_plugin_manager_after_fork(<pyd_plugin_manager_t*>manager)


cdef class Manager:
    """Registry of providers of imports. The highest priority is queried first; among equals, the latest addition.

    Changes affect programs that are loaded afterwards only. Usable from any thread.
    """

    def __cinit__(self):
        self.kept = {}
        check(pyd_plugin_manager_create(&self.manager))
        check(pyd_process_atfork_add(self.manager, before_fork, after_fork, after_fork))

    def __dealloc__(self):
        if self.manager != NULL:
            pyd_process_atfork_remove(self.manager)
            with nogil:
                pyd_plugin_manager_release(self.manager)

    def add(self, Plugin plugin not None, int32_t priority=0):
        """Add a plugin, which may be closed afterwards. Return its identifier for remove()."""
        cdef pyd_plugin_t* c_plugin = plugin.get()
        cdef pyd_provider_id_t id = 0
        check(pyd_plugin_manager_add_plugin(self.manager, c_plugin, priority, &id))
        self.kept[id] = (plugin.label, plugin)
        return id

    def add_function(self, str name, uintptr_t address, uintptr_t context=0, keepalive=None, int32_t priority=0):
        """Add one C function `int f(void* params, void* context, void* reserved)`. Return its identifier for remove().

        It is called on many threads at once, without the GIL, and returns 0 for success. docs/plugins.md describes
        `params`. name: the import that it provides. address: of the function. context: pointer that each call receives.
        keepalive: any object that owns the function or its context; referenced until neither this manager nor a program
        uses the function. priority: higher ones are queried first.
        """
        return self.add_functions({name: (address, context)}, name, keepalive, priority)

    def add_functions(self, functions, str label, keepalive=None, int32_t priority=0):
        """Add several C functions as one provider. Return its identifier for remove().

        functions: dict from the name of an import to the address of its function, or to (address, context). label: name
        of the provider in messages. keepalive: object that owns the functions; referenced until nothing uses them.
        priority: higher ones are queried first.
        """
        cdef pyd_provider_id_t id = 0
        cdef bytes c_label = name_bytes(label, "label")
        cdef list encoded = [name_bytes(name, "function name") for name in functions]
        cdef size_t i = 0
        cdef pyd_provider_function_t* items = <pyd_provider_function_t*>calloc(
            len(encoded) + 1, sizeof(pyd_provider_function_t))
        if items == NULL:
            raise MemoryError
        try:
            for i, value in enumerate(functions.values()):
                address, context = value if isinstance(value, tuple) else (value, 0)
                items[i].name = <const char*><bytes>encoded[i]
                items[i].function = <pyd_import_fn_t><void*><uintptr_t>address
                items[i].context = <void*><uintptr_t>context
            Py_INCREF(keepalive)  # released by drop(), which the manager calls when nothing uses the functions
            try:
                check(pyd_plugin_manager_add_functions(
                    self.manager, c_label, items, len(encoded), priority, drop, <void*>keepalive, &id))
            except BaseException:
                Py_DECREF(keepalive)
                raise
        finally:
            free(items)
        self.kept[id] = (label, None)
        return id

    def remove(self, uint64_t id):
        """Remove a provider by its identifier. Programs that are loaded already keep using it."""
        with nogil:
            check(pyd_plugin_manager_remove(self.manager, id))
        self.kept.pop(id, None)

    def entries(self):
        """Return a dict of the registered providers, oldest first, from identifiers to pairs.

        A pair has the label and the Plugin, None for functions of the host.
        """
        return dict(self.kept)

    def resolution(self):
        """Begin to resolve the imports of one program with the providers that are registered now."""
        cdef Resolution resolution = Resolution.__new__(Resolution)
        check(pyd_resolution_begin(self.manager, &resolution.resolution))
        return resolution
