"""The directory of a .pdx file, read in place: members are views into the mapped file, never copies."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from pydispatch._core.c_artifact cimport pyd_artifact_find, pyd_artifact_free, pyd_artifact_member
from pydispatch._core.c_artifact cimport pyd_artifact_member_count, pyd_artifact_member_t, pyd_artifact_open
from pydispatch._core.c_artifact cimport pyd_artifact_verify, pyd_crc32, pyd_file_map, pyd_file_unmap
from pydispatch._core.c_pool cimport PYD_POOL_ALIGNMENT
from pydispatch._core.c_span cimport pyd_span_t
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.status cimport check

import os

from pydispatch._core.status import ArtifactError, InvalidArgumentError, OutOfMemoryError

cdef extern from "Python.h":
    bytes PyUnicode_EncodeFSDefault(object)  # os.fsencode for a string

cdef enum:
    ALIGNMENT = 64  # bytes; members are aligned to it in the file, and thus in memory

MAX_ALIGNMENT = PYD_POOL_ALIGNMENT  # bytes; largest alignment that a variant may require of its bindings


cdef class MemberView:
    """A read-only buffer over one member. It keeps the file open, so views may outlive all other references."""

    cdef ArtifactFile file
    cdef pyd_span_t data

    def __init__(self):
        raise TypeError("made by ArtifactFile.find")

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        # 1: the buffer is read-only.
        PyBuffer_FillInfo(buffer, self, <void*>self.data.data, <Py_ssize_t>self.data.size, 1, flags)


cdef class ArtifactFile:
    """A .pdx file and its members.

    source: a path, or the bytes of a file as a contiguous buffer or a list of consecutive buffers, which are copied
    once to align them. The members are 64-byte aligned in memory in both cases. A file larger than 64 KiB is mapped,
    and must not be truncated while this object exists.

    Raises ArtifactError for a broken file, with the member and the offset, and OSError if it cannot be read.
    """

    def __init__(self, source):
        """Map the file at a path, or copy the bytes of a file, and read its directory."""
        if self.name is not None:
            raise TypeError("an ArtifactFile is opened once")
        if isinstance(source, (str, os.PathLike)):
            path = PyUnicode_EncodeFSDefault(source) if type(source) is str else os.fsencode(source)
            if b"\0" in path:
                raise InvalidArgumentError(f"a path cannot hold a NUL character, got {source!r}")
            self.name = source if type(source) is str else os.fsdecode(path)
            check(pyd_file_map(path, &self.map))
            self._open(self.map.span)
        else:
            self.name = "<bytes>"
            self._copy_bytes(source)

    cdef int _copy_bytes(self, data) except -1:
        """Copy the bytes of a file to aligned memory and read its directory.

        data: a buffer, or a list of consecutive buffers.
        """
        cdef Py_buffer view
        cdef uintptr_t address
        cdef size_t at = 0, size = 0  # bytes copied so far; sum of all sizes
        parts = data if isinstance(data, list) else [data]
        for part in parts:
            self._look(part, &view)
            size += view.len
            PyBuffer_Release(&view)
        self.copy = malloc(size + ALIGNMENT)
        if self.copy == NULL:
            raise OutOfMemoryError(f"no memory for an artifact of {size} bytes")
        address = (<uintptr_t>self.copy + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT  # rounded up
        for part in parts:
            self._look(part, &view)
            if <size_t>view.len > size - at:  # another thread may resize a buffer between the two loops
                PyBuffer_Release(&view)
                raise InvalidArgumentError("the bytes of a .pdx file grew while they were read")
            memcpy(<void*>(address + at), view.buf, <size_t>view.len)
            at += view.len
            PyBuffer_Release(&view)
        return self._open(pyd_span_t(data=<unsigned char*>address, size=at))

    cdef int _look(self, part, Py_buffer* view) except -1:
        """Fill `view` with the buffer of an object; the caller releases it.

        Raise InvalidArgumentError if the buffer is not contiguous.
        """
        try:
            return PyObject_GetBuffer(part, view, PyBUF_SIMPLE)
        except BufferError as error:
            raise InvalidArgumentError(
                f"expected a path or the contiguous bytes of a .pdx file, got {type(part).__name__}: {error}") from None

    cdef int _open(self, pyd_span_t file) except -1:
        """Read and check the directory in the bytes of the file, and prefix errors with the file's name."""
        cdef pyd_status_t status
        self.content, self.size = file, file.size
        with nogil:
            status = pyd_artifact_open(file, &self.artifact)
        try:
            check(status)
        except ArtifactError as error:
            raise ArtifactError(f"{self.name}: {error}") from None
        return 0

    def __dealloc__(self):
        pyd_artifact_free(self.artifact)
        pyd_file_unmap(&self.map)
        free(self.copy)

    cdef const pyd_artifact_member_t* member(self, bytes name) noexcept:
        """Return the member with this name, NULL if there is none."""
        if self.artifact == NULL:
            return NULL
        return pyd_artifact_find(self.artifact, PyBytes_AS_STRING(name), <size_t>PyBytes_GET_SIZE(name))

    cdef const pyd_artifact_member_t* _require(self, str name) except NULL:
        """Return the member with this name. Raise ArtifactError if there is none."""
        cdef const pyd_artifact_member_t* member = self.member(name.encode("utf-8", "surrogatepass"))
        if member == NULL:
            raise ArtifactError(f"{self.name} has no member '{name}'")
        return member

    cdef pyd_span_t span(self, str name, bint verify) except *:
        """Return the bytes of a member, a view that is valid as long as this object.

        verify: compare the checksum first. Raise ArtifactError if the member does not exist or is damaged.
        """
        cdef const pyd_artifact_member_t* member = self._require(name)
        if verify:
            self._verify(member)
        return member.data

    cdef int _verify(self, const pyd_artifact_member_t* member) except -1:
        """Compare the checksum of a member. Raise ArtifactError if it differs."""
        cdef pyd_status_t status
        with nogil:
            status = pyd_artifact_verify(member)
        try:
            check(status)
        except ArtifactError as error:
            raise ArtifactError(f"{self.name}: {error}") from None
        return 0

    def members(self):
        """Return the names of the members as a list, in the order of the file."""
        cdef const pyd_artifact_member_t* member
        cdef uint32_t i
        names = []
        if self.artifact != NULL:
            for i in range(pyd_artifact_member_count(self.artifact)):
                member = pyd_artifact_member(self.artifact, i)
                names.append(member.name[:member.name_length].decode("utf-8"))
        return names

    def checksums(self):
        """Return a tuple of the CRC-32 that the directory states for each member, in the order of `members()`."""
        cdef uint32_t i
        cdef uint32_t count = 0 if self.artifact == NULL else pyd_artifact_member_count(self.artifact)
        return tuple([pyd_artifact_member(self.artifact, i).crc32 for i in range(count)])

    @property
    def is_mapped(self):
        """Whether the bytes are a mapping of the file, not a copy."""
        return self.map.span.data != NULL and not self.map.is_copy

    def is_equal(self, ArtifactFile other not None):
        """Return whether both files have the same bytes, by reading them."""
        cdef int order
        if self.size != other.size:
            return False
        with nogil:
            order = memcmp(self.content.data, other.content.data, self.size)
        return order == 0

    def __contains__(self, str name):
        return self.member(name.encode("utf-8", "surrogatepass")) != NULL

    def find(self, str name not None, bint verify=False):
        """Return the bytes of a member as a read-only memoryview without a copy; it keeps the file open.

        verify: compare the checksum first. Raises ArtifactError if the member does not exist or is damaged.
        """
        cdef MemberView view = MemberView.__new__(MemberView)
        view.data = self.span(name, verify)
        view.file = self
        return memoryview(view)

    def verify(self, str name=None):
        """Compare the checksum of the member `name`, or of all members for None.

        Raise ArtifactError with the stated and the computed sum if one differs.
        """
        cdef uint32_t i
        if name is not None:
            self._verify(self._require(name))
        elif self.artifact != NULL:
            for i in range(pyd_artifact_member_count(self.artifact)):
                self._verify(pyd_artifact_member(self.artifact, i))

    def __repr__(self):
        count = 0 if self.artifact == NULL else pyd_artifact_member_count(self.artifact)
        return f"<ArtifactFile {self.name!r}: {count} members, {self.size} bytes>"


def crc32(data, uint32_t seed=0):
    """Return the CRC-32 of a contiguous buffer, as zlib.crc32 does.

    seed: the CRC-32 of the bytes before the buffer, which the result then includes; 0 if there are none.
    """
    cdef Py_buffer view
    cdef uint32_t result
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    with nogil:
        result = pyd_crc32(seed, view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return result
