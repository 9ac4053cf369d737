"""Calls of kernels in Python, which write into their own arguments."""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from pydispatch._core.lock cimport pyd_flag, pyd_set_flag
from pydispatch._core.numpy_arrays cimport PyArray_Type

cimport numpy as cnp

from pydispatch._core.status import InvalidArgumentError, KernelError

cnp.import_array()

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callable, PyObject* const* args, size_t nargsf, PyObject* names)
    ctypedef PyObject* (*ternaryfunc)(PyObject*, PyObject*, PyObject*)
    int Py_IS_TYPE(PyObject*, void* type) nogil

# Replaces the C function that calls instances of an extension type. Its method __call__ is changed, too, since classes
# in Python that derive from the type take the function from the method.
cdef extern from *:
    """
    static void pyd_type_set_call(PyTypeObject* type, ternaryfunc call) {
      PyObject* method = PyDict_GetItemString(type->tp_dict, "__call__");
      ((PyWrapperDescrObject*)method)->d_wrapped = (void*)call;
      type->tp_call = call;
      PyType_Modified(type);
    }
    """
    void pyd_type_set_call(PyTypeObject* type, ternaryfunc call)

cdef tuple NAMES = ("out",)  # names of the keyword arguments of a call of `function`

cdef enum:
    STACK_ARGUMENTS = 32  # maximum of a fast call, `out` included, and bits of the mask `views`


@cython.auto_pickle(False)
cdef class KernelCall:
    """Base class of kernels written in Python: calls of the compiled CPU function of a kernel with NumPy arrays.

    Subclasses define three methods. `call_unbound(args)` makes the calls before `bind`, and those with another number
    or type of arguments. `arranged(args, named)` returns all arguments in order, of which `named` are given by name.
    `explained(error, args)` returns the exception to raise for a KernelError or an InvalidArgumentError of a call of
    the function with `args`.
    """

    cdef int is_bound          # set once; the other fields do not change afterwards
    cdef object function
    cdef object written        # positions of the arguments that the function writes; a single one is an int
    cdef Py_ssize_t count      # number of arguments
    cdef unsigned int views    # a bit for each argument that is an array, the lowest for the first argument

    def bind(self, function, written, Py_ssize_t count, views):
        """Set the function of later calls, unless it is set already.

        Args:
            function: Callable that takes the arguments and, as `out`, the written ones among them: one, or a tuple.
            written: Position of the argument that it writes, from 0, or a sequence of positions.
            count: Number of arguments.
            views: Positions of the arguments that must be NumPy arrays. A call with an argument of another type at
                one of these positions is passed to `call_unbound`.
        """
        cdef unsigned int mask = 0
        for view in views:
            if not 0 <= view < count:
                raise InvalidArgumentError(f"views: expected numbers from 0 to {count - 1}, got {view}")
            if view < STACK_ARGUMENTS:  # calls with more arguments do not use the mask
                mask |= <unsigned int>1 << <unsigned int>view
        positions = written if type(written) is int else tuple(written)
        with cython.critical_section(self):
            if not pyd_flag(&self.is_bound):
                self.function, self.written, self.count, self.views = function, positions, count, mask
                pyd_set_flag(&self.is_bound)

    def __call__(self, *args, **named):
        """Run the kernel on arrays and numbers, given by position or by name. The arrays that it writes are changed in
        place.

        Raises:
            InvalidArgumentError: Arguments do not match the parameters.
            CompileError: The function is no valid kernel; raised by the first call. Errors of calling a program are
                raised, too.
        """
        raise NotImplementedError  # only shows the signature: calls use call(), without a dict for `named`


cdef object call(PyObject* callable, PyObject* positional, PyObject* named):
    """Call a kernel. positional: a tuple. named: a dict, or NULL without keywords."""
    cdef KernelCall self = <KernelCall>callable
    cdef tuple args = <tuple>positional
    cdef PyObject* arguments[STACK_ARGUMENTS]
    cdef Py_ssize_t i, count
    if named != NULL and <dict>named:
        args = self.arranged(args, <dict>named)
    count = PyTuple_GET_SIZE(args)
    if not pyd_flag(&self.is_bound) or count != self.count or count >= STACK_ARGUMENTS:  # an entry is for `out`
        self.call_unbound(args)
        return None
    for i in range(count):
        arguments[i] = <PyObject*>PyTuple_GET_ITEM(args, i)
        # Bit i of `views`: the function needs a NumPy array here.
        if self.views >> i & 1 and not Py_IS_TYPE(arguments[i], &PyArray_Type):
            self.call_unbound(args)
            return None
    written = self.written
    # The written arguments, at the positions `written`, are passed a second time: as `out`, named by `NAMES`.
    out = args[written] if type(written) is int else tuple([args[index] for index in <tuple>written])
    arguments[count] = <PyObject*>out
    try:
        PyObject_Vectorcall(self.function, arguments, count, <PyObject*>NAMES)
    except (KernelError, InvalidArgumentError) as error:
        raise self.explained(error, args) from None
    return None


pyd_type_set_call(<PyTypeObject*>KernelCall, <ternaryfunc><void*>call)
