# Returns an array over the memory of an object with `__dlpack__`. Raises BufferError if that is not CPU memory.
cdef object from_dlpack(object source)
