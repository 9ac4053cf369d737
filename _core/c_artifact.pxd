from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

from pydispatch._core.c_elf cimport pyd_span_t
from pydispatch._core.c_status cimport pyd_status_t

cdef extern from "pydispatch/artifact.h" nogil:

    ctypedef struct pyd_artifact_t:
        pass

    ctypedef struct pyd_artifact_member_t:
        const char* name
        uint32_t name_length
        uint32_t crc32
        pyd_span_t data

    pyd_status_t pyd_artifact_open(pyd_span_t file, pyd_artifact_t** out_artifact)
    void pyd_artifact_free(pyd_artifact_t* artifact)
    uint32_t pyd_artifact_member_count(const pyd_artifact_t* artifact)
    const pyd_artifact_member_t* pyd_artifact_member(const pyd_artifact_t* artifact, uint32_t index)
    const pyd_artifact_member_t* pyd_artifact_find(const pyd_artifact_t* artifact, const char* name, size_t name_length)
    pyd_status_t pyd_artifact_verify(const pyd_artifact_member_t* member)
    uint32_t pyd_crc32(uint32_t seed, const void* data, size_t length)

    ctypedef struct pyd_file_map_t:
        pyd_span_t span
        bint is_copy

    pyd_status_t pyd_file_map(const char* path, pyd_file_map_t* out_map)
    void pyd_file_unmap(pyd_file_map_t* map)
