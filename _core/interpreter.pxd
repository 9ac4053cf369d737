# Returns whether this thread can run Python code: after the interpreter was initialized, and before its finalization,
# except on the thread that finalizes it. Other threads would exit or hang when they wait for the GIL.
cdef extern from *:
    """
    #ifndef PYD_HAS_PYTHON
    #define PYD_HAS_PYTHON
    #if PY_VERSION_HEX >= 0x030D0000
    #define PYD_IS_FINALIZING() Py_IsFinalizing()
    #else
    #define PYD_IS_FINALIZING() _Py_IsFinalizing()
    #endif
    static inline int pyd_has_python(void) {
      return Py_IsInitialized() && (!PYD_IS_FINALIZING() || PyGILState_Check());
    }
    #endif
    """
    bint pyd_has_python() noexcept nogil
