# The part of NumPy's C interface that numpy.pxd leaves out, on plain object pointers.
from cpython.object cimport PyObject, PyTypeObject

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_Descr:
        pass
    ctypedef struct PyArrayObject:
        pass
    PyTypeObject PyArray_Type
    int NPY_ARRAY_CARRAY, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NPY_ARRAY_ALIGNED

    # Steals a reference to |descr|.
    PyObject* PyArray_NewFromDescr(
        PyTypeObject* subtype, PyArray_Descr* descr, int nd, const Py_ssize_t* dims, const Py_ssize_t* strides,
        void* data, int flags, PyObject* obj) except NULL
    # Steals a reference to |obj|.
    int PyArray_SetBaseObject(PyArrayObject* array, PyObject* obj) except -1
    int PyArray_NDIM(const PyArrayObject* array) nogil
    int PyArray_FLAGS(const PyArrayObject* array) nogil
    Py_ssize_t* PyArray_DIMS(const PyArrayObject* array) nogil
    void* PyArray_DATA(const PyArrayObject* array) nogil
    PyArray_Descr* PyArray_DESCR(const PyArrayObject* array) nogil
    Py_ssize_t PyArray_NBYTES(const PyArrayObject* array) nogil
