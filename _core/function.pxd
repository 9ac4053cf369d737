from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from pydispatch._core.c_sched cimport pyd_sched_cost_t
from pydispatch._core.planned cimport Frame, PlannedFunction

cdef extern from "Python.h":
    ctypedef PyObject* (*vectorcallfunc)(PyObject*, PyObject* const*, size_t, PyObject*)

# Gives an extension type a vectorcall slot, which Cython does not support. |offset|: of the member with the function.
cdef extern from *:
    """
    #ifndef PYD_TYPE_SET_VECTORCALL
    #define PYD_TYPE_SET_VECTORCALL
    static void pyd_type_set_vectorcall(PyTypeObject* type, Py_ssize_t offset) {
      type->tp_vectorcall_offset = offset;
      type->tp_call = PyVectorcall_Call;
      type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
      PyType_Modified(type);
    }
    #endif
    """
    void pyd_type_set_vectorcall(PyTypeObject* type, Py_ssize_t offset)


cdef enum:
    STACK_WORDS = 128      # largest frame of a call on the stack; calls with a larger frame use a Binding
    NAMED_ARGUMENTS = 64   # most arguments of the fast path for calls by name


# Function of a program on the CPU, which Python calls through the vectorcall protocol.
cdef class Function(PlannedFunction):
    cdef vectorcallfunc vectorcall
    cdef pyd_sched_cost_t batch_cost  # cost estimate of one call of a batch


# Stores the sizes and addresses of plain arguments in |frame|. Returns 0 if the call needs a Binding.
cdef int gather_plain(Function self, PyObject** args, Frame* frame) except -1
