# Named tuples made without the call of their class, for the twins.
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

cdef extern from "Python.h":
    # A new tuple of that class with `size` places, all to be filled by `put`.
    object new_tuple "PyType_GenericAlloc"(type kind, Py_ssize_t size)


cdef inline void put(object row, Py_ssize_t place, object item):
    """Fills a place of a new tuple, to which no other code has a reference."""
    Py_INCREF(item)
    PyTuple_SET_ITEM(row, place, item)
