from pydispatch._core.c_artifact cimport pyd_artifact_member_t, pyd_artifact_t, pyd_file_map_t
from pydispatch._core.c_span cimport pyd_span_t


cdef class ArtifactFile:
    cdef pyd_file_map_t map      # of a file; zero when made from bytes
    cdef void* copy              # of bytes; NULL when made from a file
    cdef pyd_artifact_t* artifact
    cdef pyd_span_t content
    cdef readonly str name
    cdef readonly size_t size

    cdef int _copy_bytes(self, data) except -1
    cdef int _look(self, part, Py_buffer* view) except -1
    cdef int _open(self, pyd_span_t file) except -1
    cdef int _verify(self, const pyd_artifact_member_t* member) except -1
    cdef const pyd_artifact_member_t* _require(self, str name) except NULL
    # The member, or NULL. Lives as long as this object.
    cdef const pyd_artifact_member_t* member(self, bytes name) noexcept
    # The bytes of a member, whose checksum is compared when |verify|. ArtifactError when there is no such member.
    cdef pyd_span_t span(self, str name, bint verify) except *
