from pydispatch._core.c_artifact cimport pyd_artifact_member_t, pyd_artifact_t, pyd_file_map_t
from pydispatch._core.c_span cimport pyd_span_t


cdef class ArtifactFile:
    cdef pyd_file_map_t map      # the mapping of a file; zero if the file was opened from bytes
    cdef void* copy              # the copied bytes; NULL if the file was opened by its path
    cdef pyd_artifact_t* artifact
    cdef pyd_span_t content      # all bytes of the file, in `map` or `copy`
    cdef readonly str name       # path, or "<bytes>"
    cdef readonly size_t size    # of `content`

    cdef int _copy_bytes(self, data) except -1
    cdef int _look(self, part, Py_buffer* view) except -1
    cdef int _open(self, pyd_span_t file) except -1
    cdef int _verify(self, const pyd_artifact_member_t* member) except -1
    cdef const pyd_artifact_member_t* _require(self, str name) except NULL
    # Returns the member, or NULL. It is valid as long as this object.
    cdef const pyd_artifact_member_t* member(self, bytes name) noexcept
    # Returns the bytes of a member. |verify|: compare its checksum first. Raises ArtifactError if there is none.
    cdef pyd_span_t span(self, str name, bint verify) except *
