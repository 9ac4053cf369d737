"""Contractions for GPUs: tiles in workgroup memory, tensor cores."""
