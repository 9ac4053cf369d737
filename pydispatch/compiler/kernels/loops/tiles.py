"""Work per workgroup of a generated dispatch, for each backend. It never depends on the number of workers."""

from __future__ import annotations

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.target.backend import Backend

COLUMN_BYTES = 4096
"""Bytes of accumulators of a reduction over outer dimensions: a part of the first-level cache."""


def elements_per_workgroup(build: Builder, backend: Backend, bytes_per_element: Index) -> Index:
    """Return how many elements share a workgroup when each moves that many bytes: the same budget, one at least."""
    return build.most(build.quotient(backend.workgroup_bytes, build.most(bytes_per_element, 1)), 1)
