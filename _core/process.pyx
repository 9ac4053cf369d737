"""The state that a process has once: code announced to debuggers and profilers, fork handlers, what threads work for,
and the thread that hears signals.

Nothing here is for Python; process.pxd exports it to the other extension modules.
"""

from libc.stdint cimport int32_t, uint64_t

from pydispatch._core.c_process cimport (
    pyd_process_atfork_add,
    pyd_process_atfork_fn_t,
    pyd_process_atfork_remove,
    pyd_process_code_info_t,
    pyd_process_code_register,
    pyd_process_code_t,
    pyd_process_code_unregister,
    pyd_process_scope_get,
    pyd_process_scope_set,
)
from pydispatch._core.c_sched cimport pyd_scope_access_t
from pydispatch._core.c_status cimport pyd_status_t

import os
import threading

cdef extern from *:
    """
    #include <time.h>
    static uint64_t pyd_watch_now(void) {
      struct timespec now;
      timespec_get(&now, TIME_UTC);
      return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    // What a handler raises stays set in this thread, for whoever turns the status of the call into an exception.
    static int32_t pyd_watch_signals(void) {
      PyGILState_STATE state = PyGILState_Ensure();
      int32_t raised = PyErr_CheckSignals() != 0;
      PyGILState_Release(state);
      return raised;
    }
    """
    uint64_t pyd_watch_now() nogil
    int32_t pyd_watch_signals() nogil
    unsigned long PyThread_get_thread_ident() nogil

cdef enum:
    ASK_NANOSECONDS = 50000000  # between two looks: each waits for the GIL

cdef uint64_t asked = 0  # when `signals` last looked, nanoseconds: the next call of the thread goes on from there

signals.is_wanted, signals.self = is_signalled, &asked


def _find_main_thread():
    global main_thread
    main_thread = threading.main_thread().ident or 0


_find_main_thread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_find_main_thread)


cdef pyd_status_t code_register(
        const pyd_process_code_info_t* info, bint perf_map, pyd_process_code_t** out_code) noexcept nogil:
    return pyd_process_code_register(info, perf_map, out_code)


cdef void code_unregister(pyd_process_code_t* code) noexcept nogil:
    pyd_process_code_unregister(code)


cdef pyd_status_t atfork_add(
        void* self, pyd_process_atfork_fn_t prepare, pyd_process_atfork_fn_t parent,
        pyd_process_atfork_fn_t child) noexcept nogil:
    return pyd_process_atfork_add(self, prepare, parent, child)


cdef void atfork_remove(void* self) noexcept nogil:
    pyd_process_atfork_remove(self)


cdef pyd_scope_access_t scope_access() noexcept nogil:
    cdef pyd_scope_access_t access
    access.get, access.set = pyd_process_scope_get, pyd_process_scope_set
    return access


cdef int32_t is_signalled(void* asked) noexcept nogil:
    cdef uint64_t* last = <uint64_t*>asked
    cdef uint64_t now = pyd_watch_now()
    if last[0] == 0:
        last[0] = now
    if now - last[0] < ASK_NANOSECONDS:
        return 0
    last[0] = now  # a clock that was set back looks far ahead, and is caught up with here
    return pyd_watch_signals() if PyThread_get_thread_ident() == main_thread else 0
