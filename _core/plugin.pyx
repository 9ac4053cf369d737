"""Plugins and host-registered functions: who supplies the imports of a program.

Plugins print through C stdio, whose buffer is not Python's: both are flushed around calls into those that may.
"""

import os
from typing import NamedTuple

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.stdio cimport fflush
from libc.stdlib cimport calloc, free

from pydispatch._core.c_elf cimport pyd_span_t
from pydispatch._core.c_executable cimport pyd_resolver_t
from pydispatch._core.c_plugin cimport (
    PYD_PLUGIN_KIND_AUTO,
    PYD_PLUGIN_KIND_EMBEDDED,
    PYD_PLUGIN_KIND_SYSTEM,
    pyd_import_fn_t,
    pyd_imports_resolve,
    pyd_plugin_description,
    pyd_plugin_kind,
    pyd_plugin_kind_name,
    pyd_plugin_kind_t,
    pyd_plugin_label,
    pyd_plugin_load_bytes,
    pyd_plugin_load_file,
    pyd_plugin_load_static,
    pyd_plugin_manager_add_functions,
    pyd_plugin_manager_add_plugin,
    pyd_plugin_manager_after_fork,
    pyd_plugin_manager_before_fork,
    pyd_plugin_manager_create,
    pyd_plugin_manager_release,
    pyd_plugin_manager_remove,
    pyd_plugin_manager_t,
    pyd_plugin_may_print,
    pyd_plugin_name,
    pyd_plugin_options_t,
    pyd_plugin_param_t,
    pyd_plugin_query_fn_t,
    pyd_plugin_release,
    pyd_plugin_t,
    pyd_provider_function_t,
    pyd_provider_id_t,
    pyd_resolution_begin,
    pyd_resolution_free,
    pyd_resolution_may_print,
    pyd_resolution_provider,
    pyd_resolution_provider_count,
    pyd_resolution_resolver,
    pyd_resolution_settle,
    pyd_resolution_symbol,
    pyd_resolution_symbol_count,
    pyd_resolution_symbol_t,
)
from pydispatch._core.c_process cimport pyd_process_atfork_add, pyd_process_atfork_remove
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.lock cimport pyd_take
from pydispatch._core.status cimport check

from pydispatch._core.status import InvalidArgumentError

_KINDS = {"auto": PYD_PLUGIN_KIND_AUTO, "system": PYD_PLUGIN_KIND_SYSTEM, "embedded": PYD_PLUGIN_KIND_EMBEDDED}


class Provider(NamedTuple):
    """Who may be asked for functions."""

    id: int
    label: str
    priority: int


class ResolvedSymbol(NamedTuple):
    """One symbol of one executable's imports.

    provider: who gave it, or None. asked: who was asked while it was missing, in order. group: the number of the
    executable among those with imports.
    """

    name: str
    is_optional: bool
    group: int
    provider: Provider | None
    asked: tuple


cdef extern from "platform/dl.h":
    pyd_status_t pyd_dl_check(pyd_span_t file) noexcept nogil


def check_library(data):
    """Looks at a shared library's bytes before the system's loader may run its constructors.

    Raises an Error for another machine, another kind of file, or a sanitizer that this process lacks.
    """
    cdef const unsigned char[::1] view = memoryview(data).cast("B")
    cdef pyd_span_t span
    span.data = &view[0] if view.shape[0] else <const unsigned char*>b""
    span.size = view.shape[0]
    with nogil:
        check(pyd_dl_check(span))


cdef str text_of(const char* text):
    return text.decode("utf-8", "replace")


cdef bytes name_bytes(object name, str what):
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError(f"{what}: expected a non-empty text without NUL, got {name!r}")
    return (<str>name).encode()


cdef class Plugin:
    """One loaded plugin. It stays loaded until the last manager and program that use it let it go.

    source: a path, or any buffer of bytes. A path may begin "embedded:" or "system:". params: texts for the
    plugin's load function. kind: "auto", "system" (the operating system's loader) or "embedded" (ours; a FatELF
    file's record for this machine). name: what messages call it. Raises ArtifactError when the file or what it says
    of itself does not fit, InvalidArgumentError when its load function refuses, SystemError when it cannot be
    opened.

    The code is trusted: load only what you would also run.
    """

    def __init__(self, source, params=None, *, str kind="auto", name=None):
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
        if isinstance(source, (str, os.PathLike)):
            path = name_bytes(os.fsdecode(source), "path")
            c_path = path
        else:
            view = memoryview(source).cast("B")
            span.data = &view[0] if view.shape[0] else <const unsigned char*>b""
            span.size = view.shape[0]
        if name is not None:
            label = name_bytes(name, "name")
        encoded = []
        for key, value in (params or {}).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidArgumentError(f"plugin parameter {key!r}: expected texts, got {value!r}")
            encoded.append((key.encode(), value.encode()))
        options.kind = <pyd_plugin_kind_t><int>_KINDS[kind]
        options.name = NULL
        if label is not None:
            options.name = label
        options.param_count = len(encoded)
        items = <pyd_plugin_param_t*>calloc(len(encoded) + 1, sizeof(pyd_plugin_param_t))
        if items == NULL:
            raise MemoryError
        try:
            for i, (key, value) in enumerate(encoded):
                items[i].key.data = <const char*><bytes>key
                items[i].key.size = len(key)
                items[i].value.data = <const char*><bytes>value
                items[i].value.size = len(value)
            options.params = items
            with nogil:
                if c_path != NULL:
                    check(pyd_plugin_load_file(c_path, &options, &self.plugin))
                else:
                    check(pyd_plugin_load_bytes(span, &options, &self.plugin))
                if pyd_plugin_may_print(self.plugin):
                    fflush(NULL)
        finally:
            free(items)

    @staticmethod
    def from_query(uintptr_t address, name="static plugin"):
        """A plugin that is in the process already: the address of its query function, which stays valid."""
        cdef Plugin self = Plugin.__new__(Plugin)
        cdef pyd_plugin_options_t options
        cdef bytes label = name_bytes(name, "name")
        options.kind = PYD_PLUGIN_KIND_AUTO
        options.name = label
        options.params = NULL
        options.param_count = 0
        with nogil:
            check(pyd_plugin_load_static(<pyd_plugin_query_fn_t>address, &options, &self.plugin))
        return self

    def __dealloc__(self):
        self.close()

    cdef pyd_plugin_t* get(self) except NULL:
        if self.plugin == NULL:
            raise InvalidArgumentError("the plugin is closed")
        return self.plugin

    @property
    def label(self):
        """What messages call it: the name given, or the path."""
        return text_of(pyd_plugin_label(self.get()))

    @property
    def name(self):
        """What it calls itself."""
        return text_of(pyd_plugin_name(self.get()))

    @property
    def description(self):
        return text_of(pyd_plugin_description(self.get()))

    @property
    def kind(self):
        """How it was loaded: "system", "embedded" or "static"."""
        return text_of(pyd_plugin_kind_name(pyd_plugin_kind(self.get())))

    @property
    def may_print(self):
        """Whether it may write through C stdio: not an embedded one, nor a shared library whose imports are silent."""
        return bool(pyd_plugin_may_print(self.get()))

    def close(self):
        """Drops this reference. The last one, of a manager or a program, unloads the plugin. Idempotent."""
        cdef pyd_plugin_t* plugin = <pyd_plugin_t*>pyd_take(<void**>&self.plugin)
        with nogil:
            pyd_plugin_release(plugin)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


cdef class Resolution:
    """The imports of one program while it is loaded and as long as it lives: holds the plugins that it uses.

    Made by Manager.resolution().
    """

    def __init__(self):
        raise TypeError("a Resolution is made by Manager.resolution()")

    def __dealloc__(self):
        cdef pyd_resolution_t* resolution = self.resolution
        self.resolution = NULL
        with nogil:
            pyd_resolution_free(resolution)

    cdef const pyd_resolver_t* resolver(self) noexcept nogil:
        return pyd_resolution_resolver(self.resolution)

    cdef bint may_print(self) noexcept nogil:
        """Whether a plugin that gave something so far may print."""
        return pyd_resolution_may_print(self.resolution)

    def settle(self):
        """All executables are loaded: lets go of the providers that gave nothing."""
        with nogil:
            pyd_resolution_settle(self.resolution)

    def providers(self):
        """Everybody who could be asked, first to last."""
        return tuple(self.provider(i) for i in range(pyd_resolution_provider_count(self.resolution)))

    def provider(self, uint32_t index):
        p = pyd_resolution_provider(self.resolution, index)
        return None if p == NULL else Provider(p.id, text_of(p.label), p.priority)

    def report(self):
        """One ResolvedSymbol for every symbol that was asked for, in order."""
        cdef const pyd_resolution_symbol_t* symbol
        cdef uint32_t i
        providers = self.providers()
        found = []
        for i in range(pyd_resolution_symbol_count(self.resolution)):
            symbol = pyd_resolution_symbol(self.resolution, i)
            found.append(ResolvedSymbol(
                text_of(symbol.name), bool(symbol.is_optional), symbol.group, self.provider(symbol.provider),
                providers[:symbol.asked_count],
            ))
        return found

    def resolve(self, names, str executable="test"):
        """Resolves a list of symbols as if it were an executable's; '?' in front marks an optional one.

        Returns pairs (address, context), (0, 0) for an optional symbol that nobody has. Raises MissingImportError.
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
    Py_DECREF(<object>owner)


cdef void before_fork(void* manager) noexcept nogil:
    pyd_plugin_manager_before_fork(<pyd_plugin_manager_t*>manager)


cdef void after_fork(void* manager) noexcept nogil:
    pyd_plugin_manager_after_fork(<pyd_plugin_manager_t*>manager)


cdef class Manager:
    """Those who may supply imports. The highest priority is asked first; among equals, who was added last.

    Changes concern programs that are loaded afterwards: the others keep what they have. Usable from any thread.
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
        """Adds a plugin, which may be closed afterwards. Returns a number for remove()."""
        cdef pyd_plugin_t* c_plugin = plugin.get()
        cdef pyd_provider_id_t id = 0
        check(pyd_plugin_manager_add_plugin(self.manager, c_plugin, priority, &id))
        self.kept[id] = (plugin.label, plugin)
        return id

    def add_function(self, str name, uintptr_t address, uintptr_t context=0, keepalive=None, int32_t priority=0):
        """Adds one C function `int f(void* params, void* context, void* reserved)`. Returns a number for remove().

        It is called from many threads at once, without the GIL. keepalive: any object that owns the function or its
        context; held until neither this manager nor a program needs the function.
        """
        return self.add_functions({name: (address, context)}, name, keepalive, priority)

    def add_functions(self, functions, str label, keepalive=None, int32_t priority=0):
        """As add_function for several: name -> address, or name -> (address, context)."""
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
            Py_INCREF(keepalive)
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
        """Removes what an add call returned the number of. Programs that are loaded keep theirs."""
        with nogil:
            check(pyd_plugin_manager_remove(self.manager, id))
        self.kept.pop(id, None)

    def entries(self):
        """What is registered, in the order of registration: number -> (label, Plugin or None)."""
        return dict(self.kept)

    def resolution(self):
        """Begins the loading of one program with those who are registered now."""
        cdef Resolution resolution = Resolution.__new__(Resolution)
        check(pyd_resolution_begin(self.manager, &resolution.resolution))
        return resolution
