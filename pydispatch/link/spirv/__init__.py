"""SPIR-V modules and libraries → one SPIR-V module."""
