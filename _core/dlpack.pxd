# The array behind |source|'s __dlpack__ without copying. BufferError when it is not in CPU memory.
cdef object from_dlpack(object source)
