"""Interruption of calls on the main thread by signals, such as Ctrl-C.

It has no Python interface; signals.pxd exports it to the other extension modules.
"""

from libc.stdint cimport int32_t, uint64_t

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
    ASK_NANOSECONDS = 50000000  # between two checks for signals, as each waits for the GIL

cdef uint64_t asked = 0  # time of the last check in nanoseconds; kept across calls of the main thread

signals.is_wanted, signals.self = is_signalled, &asked


def _find_main_thread():
    """Store the identifier of the main thread, 0 if unknown.

    Called again in the child of a fork, whose main thread is the thread that forked.
    """
    global main_thread
    main_thread = threading.main_thread().ident or 0


_find_main_thread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_find_main_thread)


cdef int32_t is_signalled(void* asked) noexcept nogil:
    """Run the handlers of pending signals in the main thread, at most once in ASK_NANOSECONDS.

    asked: the uint64_t time of the last check in nanoseconds, 0 before the first. Return 1 if a handler raised, else 0;
    the exception stays set in the thread.
    """
    cdef uint64_t* last = <uint64_t*>asked
    cdef uint64_t now = pyd_watch_now()
    if last[0] == 0:
        last[0] = now
    if now - last[0] < ASK_NANOSECONDS:
        return 0
    last[0] = now  # also after the clock was set back, when the unsigned difference is large
    return pyd_watch_signals() if PyThread_get_thread_ident() == main_thread else 0
