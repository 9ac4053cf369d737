"""How much one workgroup of a generated dispatch does, per backend. Never depends on the number of workers."""

from __future__ import annotations

from pydispatch.compiler.kernels.ops.builder import Builder, Index

# Bytes that a workgroup reads and writes. 128 KiB stays inside every second-level cache, takes some microseconds,
# which hides the cost of claiming it a hundredfold, and leaves enough workgroups to share once a dispatch is worth
# sharing.
WORKGROUP_BYTES = {"llvm-cpu": 128 * 1024, "vulkan-spirv": 16 * 1024, "cuda": 16 * 1024}

MINIMUM_ELEMENTS = 1024

ROW_BUFFER_BYTES = {"llvm-cpu": 64 * 1024, "vulkan-spirv": 8 * 1024, "cuda": 8 * 1024}
"""The largest row of intermediates that is kept in workgroup memory, of which every GPU has 16 KiB."""

COLUMN_BYTES = 4096
"""Bytes of accumulators of a reduction over outer dimensions: a part of the first-level cache."""


def elements_per_workgroup(backend: str, bytes_per_element: int) -> int:
    """A power of two: the elements of one workgroup when each element moves `bytes_per_element` in all operands."""
    elements = WORKGROUP_BYTES[backend] // max(1, bytes_per_element)
    return max(MINIMUM_ELEMENTS, 1 << (elements.bit_length() - 1) if elements else 0)


def points_per_workgroup(build: Builder, backend: str, bytes_per_point: Index) -> Index:
    """How many points share a workgroup when each moves that many bytes: the same budget, one point at least."""
    return build.most(build.quotient(WORKGROUP_BYTES[backend], build.most(bytes_per_point, 1)), 1)


def row_buffer_bytes(backend: str) -> int:
    """The largest row of intermediates that a workgroup keeps."""
    return ROW_BUFFER_BYTES[backend]
