"""Common part of the shader emitters: values, memrefs without addresses, and traversal of regions."""
