"""How much one workgroup of a generated dispatch does, per backend."""

from __future__ import annotations

# Bytes that a workgroup reads and writes. 128 KiB stays inside every second-level cache, takes some microseconds,
# which hides the cost of claiming it a hundredfold, and leaves enough workgroups to share once a dispatch is worth
# sharing.
WORKGROUP_BYTES = {"llvm-cpu": 128 * 1024}

MINIMUM_ELEMENTS = 1024


def elements_per_workgroup(backend: str, bytes_per_element: int) -> int:
    """A power of two: the elements of one workgroup when each element moves `bytes_per_element` in all operands."""
    elements = WORKGROUP_BYTES[backend] // max(1, bytes_per_element)
    return max(MINIMUM_ELEMENTS, 1 << (elements.bit_length() - 1) if elements else 0)
